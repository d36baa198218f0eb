// How kernels tell of an index that is no row.
#pragma once

#include "kernels/cuda/gather_launch.hpp"

namespace troupe::device {

// The first one that gets here is told.
__device__ inline void report(IndexFault* fault, std::int64_t index, std::int64_t element, std::int64_t rows) {
  if (atomicCAS(&fault->state, 0u, 1u) != 0) return;
  fault->index = index;
  fault->element = element;
  fault->rows = rows;
  __threadfence_system();
  *static_cast<volatile unsigned*>(&fault->state) = 2;
}

}  // namespace troupe::device
