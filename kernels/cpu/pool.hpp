// Pooling and its gradients on the CPU; f32, f64, f16 and bf16 (computed in float, rounded once), NHWC.
//
// Each output depends on its window alone and each image's gradient is summed in the order of windows: bits
// do not depend on the number of threads or alignment. Padding takes no part: it is never a maximum nor
// counted in an average. A NaN in a window is its maximum. All throw invalid_argument for tensors that do not
// fit.
#pragma once

#include <array>

#include <troupe/devices/device.hpp>
#include <troupe/kernels/cpu/window.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

struct PoolAttributes {
  std::array<std::int64_t, 2> size{2, 2};  // height, width
  std::array<std::int64_t, 2> strides{2, 2};
  Padding padding = Padding::valid;
};

struct PoolGeometry {
  std::int64_t batch = 0;
  std::int64_t channels = 0;
  WindowAxis rows;
  WindowAxis columns;
  std::int64_t image_size() const { return rows.input * columns.input * channels; }
  std::int64_t result_size() const { return rows.output * columns.output * channels; }
  Shape result_shape() const { return {batch, rows.output, columns.output, channels}; }
  std::int64_t pixel(std::int64_t y, std::int64_t x) const { return (y * columns.input + x) * channels; }
};

// The attributes "ksize", "strides" and "padding".
PoolAttributes pool_attributes(const Attributes& attributes);
PoolGeometry pool_geometry(const Shape& x, const PoolAttributes& options);
// The shape of the result: [n, out height, out width, channels].
Shape pool_shape(const Shape& x, const PoolAttributes& options);

void max_pool(Parallelism& parallelism, const Tensor& x, const PoolAttributes& options, Tensor& y);
// The average over the elements that exist.
void avg_pool(Parallelism& parallelism, const Tensor& x, const PoolAttributes& options, Tensor& y);

// dx like x: each dy goes to the first maximum of its window, in row-major order.
void max_pool_grad(Parallelism& parallelism, const Tensor& x, const Tensor& y, const Tensor& dy,
                   const PoolAttributes& options, Tensor& dx);
// dx gives the shape of x: each dy is shared equally by the elements of its window.
void avg_pool_grad(Parallelism& parallelism, const Tensor& dy, const PoolAttributes& options, Tensor& dx);

}  // namespace troupe
