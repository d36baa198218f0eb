// Memory for tensors that come from other tasks.
#pragma once

#include <limits>

#include "actors/wire/chunk_reader.hpp"
#include "devices/allocator.hpp"

namespace troupe {

// They take memory that the device keeps for reuse. But a frame is announced by a few bytes, and whoever sends those may never
// send the rest: what is announced and has not come may have an eighth of the device's limit. Beyond that, and where the
// limit leaves none, tensors have memory of their own: what a peer sends ends neither its connection nor a kernel here.
inline wire::Arrivals arrivals_in(Allocator& allocator) {
  wire::Arrivals arrivals;
  const std::uint64_t limit = allocator.stats().limit_bytes;
  const std::uint64_t most = limit == 0 ? std::numeric_limits<std::uint64_t>::max() : limit / 8;
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
