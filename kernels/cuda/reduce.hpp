// Reductions on a GPU. The order of additions depends only on dtype and shape.
#pragma once

#include <span>

#include <troupe/kernels/cuda/cuda_kernels.hpp>
#include <troupe/kernels/cuda/reduce_launch.hpp>

namespace troupe {

// Reduces x, laid out as `dims`, to a tensor of `shape`, which has the elements of the kept dimensions, and x's dtype
// (indices: i64). Integers: sums wrap modulo 2^bits, means round towards zero. The empty sum is 0, its mean NaN. Throws
// invalid_argument for an empty max or min and for an empty mean of integers.
Tensor cuda_reduce(KernelContext& context, CudaReduction kind, const Tensor& x, std::span<const CudaReduceDim> dims,
                   const Shape& shape);

}  // namespace troupe
