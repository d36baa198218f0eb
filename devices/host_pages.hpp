// Host memory for buffers that are kept and reused.
#pragma once

#include <cstddef>

#include <troupe/messages/buffer.hpp>

namespace troupe {

// Allocates `bytes`, a multiple of 64, aligned to at least 64 bytes. From 4 MiB on, in whole system pages, large ones
// if available: the first pass over a large buffer then has far fewer page faults, and freeing returns the memory at
// once. Null if there is no memory.
void* allocate_host_pages(std::size_t bytes);
void free_host_pages(void* data, std::size_t bytes);

// Zeroed pages, large ones if available, that take memory when they are first touched: room for what may come. Empty if
// the system refuses so much.
BufferRef reserve_host_pages(std::size_t bytes);

}  // namespace troupe
