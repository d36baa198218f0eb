// Cumulative ops along an axis: interface between host and device code.
//
// A thread goes through a lane of elements, or, if lanes are long and few, a block of threads goes through it tile by
// tile. Bits depend only on dtype and shape.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include <troupe/messages/dtype.hpp>

namespace troupe {

// x is [outer, size, inner], each at least 1.
struct CumulativeLaunch {
  DType dtype = DType::invalid;
  const void* x = nullptr;
  void* out = nullptr;
  std::int64_t outer = 1, size = 1, inner = 1;
  bool exclusive = false;  // results are those of the elements before
  bool reverse = false;
};

// Floating types (f16 and bf16: in float, rounded once) and integers.
cudaError_t launch_cumulative_sum(const CumulativeLaunch& l, cudaStream_t stream);
cudaError_t launch_cumulative_product(const CumulativeLaunch& l, cudaStream_t stream);
// The extremum and its place along the axis, the first of equal ones; NaN stays. The same types; never exclusive.
cudaError_t launch_cumulative_extremum(const CumulativeLaunch& l, bool least, std::int64_t* places,
                                       cudaStream_t stream);
// Floating types, in double.
cudaError_t launch_cumulative_log_sum_exp(const CumulativeLaunch& l, cudaStream_t stream);

}  // namespace troupe
