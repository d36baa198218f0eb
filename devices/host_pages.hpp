// Host memory for buffers that are kept and reused.
#pragma once

#include <cstddef>

namespace troupe {

// `bytes`, a multiple of 64, aligned to 64 bytes at least. From 4 MiB on whole pages of the system, large ones if it
// has them: the first pass over a large buffer then costs a fraction of the page faults, and freeing gives it back at
// once. Null if there is no memory.
void* allocate_host_pages(std::size_t bytes);
void free_host_pages(void* data, std::size_t bytes);

}  // namespace troupe
