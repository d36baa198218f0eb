// Memory of the emulated GPU: readable while kernels and copies run, and at no other time. Code of the host that
// follows a pointer to it ends the process, as it would with a GPU. On one thread.
#pragma once

#include <cstddef>

namespace troupe::emulated_cuda {

// Of exactly so many bytes, at a multiple of 64 bytes and of nothing more, filled with garbage. Null if there is no
// room.
void* allocate(std::size_t bytes);
// Ends the process if something was written right behind it.
void release(void* memory);

// From or to the GPU's memory, or both: without making it readable, which takes long where there is much of it. Ends
// the process if some of that memory is not in use.
void copy(void* to, const void* from, std::size_t bytes);
void fill(void* to, int value, std::size_t bytes);

// While one lives, the memory is readable.
class MemoryAccess {
 public:
  MemoryAccess();
  ~MemoryAccess();
  MemoryAccess(const MemoryAccess&) = delete;
  MemoryAccess& operator=(const MemoryAccess&) = delete;
};

// Prints what went wrong, and ends the process: a kernel that breaks CUDA's rules has no result.
[[noreturn]] void stop(const char* format, ...);

}  // namespace troupe::emulated_cuda
