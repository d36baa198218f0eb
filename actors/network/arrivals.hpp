// Memory for tensors that come from other tasks.
#pragma once

#include <troupe/actors/wire/chunk_reader.hpp>
#include <troupe/devices/allocator.hpp>

namespace troupe {

// They take memory that is kept for reuse, of a device or what its copies go straight from. But a frame is announced by
// a few bytes, and whoever sends those may never send the rest: what is announced and has not come may have `most`
// bytes. Beyond that, and where the allocator has none, tensors have memory of their own: what a peer sends ends
// neither its connection nor a kernel here.
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
