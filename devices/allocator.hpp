// Allocators give buffers of one memory space.
#pragma once

#include <cstdint>

#include "messages/buffer.hpp"
#include "messages/tensor.hpp"

namespace troupe {

struct AllocatorStats {
  std::uint64_t bytes_in_use = 0;
  std::uint64_t peak_bytes = 0;
  std::uint64_t allocations = 0;  // since the start
  std::uint64_t reuses = 0;       // of them, served from a cache
};

// Thread-safe. A buffer may outlive the call and be released on any thread, but must not outlive the allocator.
class Allocator {
 public:
  virtual ~Allocator() = default;
  // At least `bytes`, aligned to kBufferAlignment, not cleared. Throws resource_exhausted.
  virtual BufferRef allocate(std::size_t bytes) = 0;
  virtual AllocatorStats stats() const = 0;
  virtual MemorySpace space() const = 0;

  // A new tensor. Strings always live in ordinary host memory.
  Tensor tensor(DType dtype, const Shape& shape) {
    if (dtype == DType::string) return Tensor(dtype, shape);
    return Tensor(dtype, shape, allocate(checked_bytes(dtype, shape)));
  }
};

}  // namespace troupe
