// Pooling of one to three dimensions and its gradients on the CPU; f32, f64, f16 and bf16 (computed in float, rounded
// once), maxima of i8 and u8 too.
//
// Each output depends on its window alone, and each image's gradient is summed in window order: bits do not depend on
// the number of threads or on alignment. Padding is excluded from maxima and averages. A NaN in a window is its
// maximum. All functions throw invalid_argument for mismatched tensors.
#pragma once

#include <troupe/devices/device.hpp>
#include <troupe/kernels/common/pool_geometry.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

void max_pool(Parallelism& parallelism, const Tensor& x, const PoolAttributes& options, Tensor& y);
// Sums, divided as options.divisor says.
void avg_pool(Parallelism& parallelism, const Tensor& x, const PoolAttributes& options, Tensor& y);

// dx has the shape of x: each dy goes to the first maximum of its window, in row-major order.
void max_pool_grad(Parallelism& parallelism, const Tensor& x, const Tensor& y, const Tensor& dy,
                   const PoolAttributes& options, Tensor& dx);
// dx gives the shape of x: each dy is divided as the average, and given to each element of its window.
void avg_pool_grad(Parallelism& parallelism, const Tensor& dy, const PoolAttributes& options, Tensor& dx);

}  // namespace troupe
