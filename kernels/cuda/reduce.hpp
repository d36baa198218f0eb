// Reductions on a GPU. The order of the additions depends on dtype and shape alone.
#pragma once

#include <span>

#include <troupe/kernels/cuda/cuda_kernels.hpp>
#include <troupe/kernels/cuda/reduce_launch.hpp>

namespace troupe {

// Reduces x, whose elements lie as `dims` says, to a tensor of `shape` and x's dtype (arg_max: i64), which has the
// elements of the kept dimensions. Integers: sums wrap modulo 2^bits, means round towards zero. The sum of nothing is
// 0, its mean NaN. Throws invalid_argument for max and min of nothing and the mean of no integers.
Tensor cuda_reduce(KernelContext& context, CudaReduction kind, const Tensor& x, std::span<const CudaReduceDim> dims,
                   const Shape& shape);

}  // namespace troupe
