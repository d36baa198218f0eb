// Memory for tensors received from other tasks.
#pragma once

#include <troupe/actors/wire/chunk_reader.hpp>
#include <troupe/devices/allocator.hpp>

namespace troupe {

// Allocates them from cached memory, of a device or pinned for its copies. Because a few bytes announce a frame whose
// rest may never come, at most `most` bytes may be announced and not yet received. Beyond that, or if the allocator is
// exhausted, tensors get separate memory: a peer's data causes neither its connection nor a kernel here to fail.
inline wire::Arrivals arrivals_in(Allocator& allocator, std::uint64_t most) {
  wire::Arrivals arrivals;
  arrivals.allocate = [&allocator, most, announced = arrivals.announced](DType dtype, const Shape& shape) {
    if (announced->load(std::memory_order_relaxed) > most) return Tensor(dtype, shape);
    try {
      return allocator.tensor(dtype, shape);
    } catch (const Error& error) {
      if (error.code() != Code::resource_exhausted) throw;
      return Tensor(dtype, shape);
    }
  };
  return arrivals;
}

}  // namespace troupe
