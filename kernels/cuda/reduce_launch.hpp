// Reductions on a GPU: interface between host and device code.
//
// The order of additions depends only on dtype and shape. Sums of floating types add short runs in their own precision
// (f16 and bf16: float) and the runs in double, as on the CPU.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include <troupe/kernels/cuda/reduce_plan.hpp>

namespace troupe {

// any and all: of bools as u8. The last four give indices.
enum class CudaReduction {
  sum,
  mean,
  half_square_sum,
  prod,
  max,
  min,
  any,
  all,
  arg_max,
  arg_min,
  last_arg_max,
  last_arg_min
};

struct ReduceLaunch {
  DType dtype = DType::invalid;  // of x
  ReduceLayout layout;           // with at least one term
  ReduceGrid grid;               // reduce_grid() of the layout
  const void* x = nullptr;
  void* out = nullptr;      // of dtype; indices: i64
  void* partial = nullptr;  // kPartialBytes per entry of reduce_partials(); unused with one chunk
};
inline constexpr std::size_t kPartialBytes = 16;

// Floating types, and integers of 8 to 64 bits. Divides the sum by `divisor`, which is 2 for half_square_sum.
cudaError_t launch_reduce_sum(const ReduceLaunch& launch, double divisor, cudaStream_t stream);
// The same types; of floating ones in double, rounded once.
cudaError_t launch_reduce_prod(const ReduceLaunch& launch, cudaStream_t stream);
// Floating types.
cudaError_t launch_reduce_squares(const ReduceLaunch& launch, double divisor, cudaStream_t stream);
// NaN counts as both the greatest and the least value.
cudaError_t launch_reduce_extreme(const ReduceLaunch& launch, bool greatest, cudaStream_t stream);
// Index of the first or last maximum or minimum; NaN counts as it. The layout has at most one reduced dimension.
cudaError_t launch_arg_extreme(const ReduceLaunch& launch, bool greatest, bool last, cudaStream_t stream);

}  // namespace troupe
