// Pooling and its gradients on the CPU; f32, f64, f16 and bf16 (computed in float, rounded once), NHWC.
//
// Each output depends on its window alone and each image's gradient is summed in the order of windows: bits
// do not depend on the number of threads or alignment. Padding takes no part: it is never a maximum nor
// counted in an average. A NaN in a window is its maximum. All throw invalid_argument for tensors that do not
// fit.
#pragma once

#include <array>

#include "devices/device.hpp"
#include "kernels/cpu/window.hpp"
#include "messages/tensor.hpp"

namespace troupe {

struct PoolOptions {
  std::array<std::int64_t, 2> size{2, 2};  // height, width
  std::array<std::int64_t, 2> strides{2, 2};
  Padding padding = Padding::valid;
};

// The shape of the result: [n, out height, out width, channels].
Shape pool_shape(const Shape& x, const PoolOptions& options);

void max_pool(Parallelism& parallelism, const Tensor& x, const PoolOptions& options, Tensor& y);
// The average over the elements that exist.
void avg_pool(Parallelism& parallelism, const Tensor& x, const PoolOptions& options, Tensor& y);

// dx like x: each dy goes to the first maximum of its window, in row-major order.
void max_pool_grad(Parallelism& parallelism, const Tensor& x, const Tensor& y, const Tensor& dy,
                   const PoolOptions& options, Tensor& dx);
// dx gives the shape of x: each dy is shared equally by the elements of its window.
void avg_pool_grad(Parallelism& parallelism, const Tensor& dy, const PoolOptions& options, Tensor& dx);

}  // namespace troupe
