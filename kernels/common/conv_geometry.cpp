#include "troupe/kernels/common/conv_geometry.hpp"

#include <troupe/kernels/common/tensor_checks.hpp>

namespace troupe {

Conv2DAttributes conv2d_attributes(const Attributes& attributes) {
  return {.strides = pair_attribute(attributes, "strides"), .padding = parse_padding(attributes.string("padding"))};
}

void check_conv2d_type(DType dtype) {
  if (!is_floating(dtype)) invalid_argument("Conv2D requires a floating-point dtype, not {}", name(dtype));
}

ConvGeometry conv2d_geometry(const Shape& x, const Shape& filter, const Conv2DAttributes& options) {
  check_rank("Conv2D: x (NHWC)", x, 4);
  check_rank("Conv2D: the filter (HWIO)", filter, 4);
  if (x[3] != filter[2])
    invalid_argument("Conv2D: x {} has {} channels, but the filter {} takes {}", x.to_string(), x[3],
                     filter.to_string(), filter[2]);
  return {.batch = x[0],
          .in_channels = x[3],
          .out_channels = filter[3],
          .rows = window_axis("Conv2D: height", x[1], filter[0], options.strides[0], options.padding),
          .columns = window_axis("Conv2D: width", x[2], filter[1], options.strides[1], options.padding)};
}

Shape conv2d_shape(const Shape& x, const Shape& filter, const Conv2DAttributes& options) {
  return conv2d_geometry(x, filter, options).result_shape();
}

}  // namespace troupe
