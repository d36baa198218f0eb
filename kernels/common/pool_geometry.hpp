// Sizes of pooling, NHWC. All functions throw invalid_argument for mismatched tensors.
#pragma once

#include <array>
#include <cstdint>

#include <troupe/kernels/common/window.hpp>
#include <troupe/messages/shape.hpp>

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

// Reads the attributes "ksize", "strides" and "padding".
PoolAttributes pool_attributes(const Attributes& attributes);
PoolGeometry pool_geometry(const Shape& x, const PoolAttributes& options);
// Result shape: [n, out height, out width, channels].
Shape pool_shape(const Shape& x, const PoolAttributes& options);

}  // namespace troupe
