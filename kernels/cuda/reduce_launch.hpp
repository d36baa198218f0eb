// Reductions on a GPU, between host and device code.
//
// The order of the additions follows from dtype and shape alone. Sums of floating types add short runs in their own
// precision (f16 and bf16: float) and the runs in double, as on the CPU.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include <troupe/kernels/cuda/reduce_plan.hpp>

namespace troupe {

enum class CudaReduction { sum, mean, half_square_sum, max, min, arg_max };

struct ReduceLaunch {
  DType dtype = DType::invalid;  // of x
  ReduceLayout layout;           // of at least one term
  ReduceGrid grid;               // reduce_grid() of it
  const void* x = nullptr;
  void* out = nullptr;      // of dtype; arg_max: i64
  void* partial = nullptr;  // kPartialBytes for each of reduce_partials(); unused if there is one chunk
};
inline constexpr std::size_t kPartialBytes = 16;

// Floating types, and integers of 8 to 64 bits. sum: also divides by `divisor`; of half_square_sum the caller gives 2.
cudaError_t launch_reduce_sum(const ReduceLaunch& launch, double divisor, cudaStream_t stream);
// Floating types.
cudaError_t launch_reduce_squares(const ReduceLaunch& launch, double divisor, cudaStream_t stream);
// NaN is greatest and least.
cudaError_t launch_reduce_extreme(const ReduceLaunch& launch, bool greatest, cudaStream_t stream);
// The first of the greatest; NaN is greatest. The layout has one reduced dimension at most.
cudaError_t launch_arg_max(const ReduceLaunch& launch, cudaStream_t stream);

}  // namespace troupe
