// Sizes of two-dimensional convolutions. Images are NHWC [n, height, width, in], filters HWIO [kernel height, kernel
// width, in, out], results NHWC [n, out height, out width, out]. All functions throw invalid_argument, naming the
// shapes, for mismatched tensors.
#pragma once

#include <array>
#include <cstdint>

#include <troupe/kernels/common/window.hpp>
#include <troupe/messages/dtype.hpp>
#include <troupe/messages/shape.hpp>

namespace troupe {

struct ConvGeometry {
  std::int64_t batch = 0;
  std::int64_t in_channels = 0;
  std::int64_t out_channels = 0;
  WindowAxis rows;
  WindowAxis columns;

  bool operator==(const ConvGeometry&) const = default;
  std::int64_t image_size() const { return rows.input * columns.input * in_channels; }
  std::int64_t result_size() const { return rows.output * columns.output * out_channels; }
  std::int64_t patch_size() const { return rows.kernel * columns.kernel * in_channels; }
  std::int64_t filter_size() const { return patch_size() * out_channels; }
  Shape result_shape() const { return {batch, rows.output, columns.output, out_channels}; }
  // True if the result, or both gradients, have no elements or only empty sums.
  bool empty() const { return batch == 0 || image_cost() == 0; }
  // Multiply-adds per image, in any of the three directions.
  std::int64_t image_cost() const { return result_size() * patch_size(); }
};

struct Conv2DAttributes {
  std::array<std::int64_t, 2> strides{1, 1};  // height, width
  Padding padding = Padding::valid;
};

// Reads the attributes "strides" and "padding".
Conv2DAttributes conv2d_attributes(const Attributes& attributes);
// Throws unless dtype is floating.
void check_conv2d_type(DType dtype);
// Geometry for this image and filter.
ConvGeometry conv2d_geometry(const Shape& x, const Shape& filter, const Conv2DAttributes& options);
// Result shape for this image and filter.
Shape conv2d_shape(const Shape& x, const Shape& filter, const Conv2DAttributes& options);

}  // namespace troupe
