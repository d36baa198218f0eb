// Sizes of convolutions of one to three dimensions. Images are [n, spatial..., in], filters [spatial..., in / groups,
// out], results [n, spatial..., out]; with channels first, [n, in, spatial...], [out, in / groups, spatial...] and [n,
// out, spatial...]. All functions throw invalid_argument, naming the shapes, for mismatched tensors.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include <troupe/graph/ops/windows.hpp>
#include <troupe/messages/dtype.hpp>
#include <troupe/messages/shape.hpp>

namespace troupe {

struct ConvGeometry {
  std::int64_t batch = 0;
  std::int64_t in_channels = 0;
  std::int64_t out_channels = 0;
  std::int64_t groups = 1;
  int spatial = 2;  // dimensions; axes that an image lacks have size 1
  bool channels_first = false;
  WindowAxis depth;
  WindowAxis rows;
  WindowAxis columns;

  bool operator==(const ConvGeometry&) const = default;
  std::int64_t group_in() const { return in_channels / groups; }
  std::int64_t group_out() const { return out_channels / groups; }
  std::int64_t taps() const { return depth.kernel * rows.kernel * columns.kernel; }
  std::int64_t image_pixels() const { return depth.input * rows.input * columns.input; }
  std::int64_t windows() const { return depth.output * rows.output * columns.output; }
  std::int64_t image_size() const { return image_pixels() * in_channels; }
  std::int64_t result_size() const { return windows() * out_channels; }
  std::int64_t patch_size() const { return taps() * group_in(); }
  std::int64_t filter_size() const { return patch_size() * out_channels; }
  Shape image_shape() const;
  Shape result_shape() const;
  // True if the result, or both gradients, have no elements or only empty sums.
  bool empty() const { return batch == 0 || image_cost() == 0 || image_pixels() == 0; }
  // Multiply-adds per image, in any of the three directions.
  std::int64_t image_cost() const { return result_size() * patch_size(); }
  // True if there is one group, the image has two dimensions, and channels are last.
  bool plain() const { return groups == 1 && spatial <= 2 && !channels_first; }
  bool dilated() const { return depth.dilation > 1 || rows.dilation > 1 || columns.dilation > 1; }
};

struct ConvAttributes {
  WindowOptions windows{};
  std::int64_t groups = 1;
  std::vector<std::int64_t> output_padding{};  // of a transposed convolution
};

ConvAttributes conv_attributes(const Attributes& attributes);
// Throws unless dtype is floating.
void check_conv_type(DType dtype);
// Geometry for this image and filter.
ConvGeometry conv_geometry(const Shape& x, const Shape& filter, const ConvAttributes& options);
// Geometry whose result is x; the image has these spatial sizes, or those that the attributes choose if there are none.
ConvGeometry transposed_geometry(const Shape& x, const Shape& filter, const ConvAttributes& options,
                                 std::span<const std::int64_t> sizes);
// Result shape for this image and filter.
Shape conv_shape(const Shape& x, const Shape& filter, const ConvAttributes& options);

}  // namespace troupe
