// What products, convolutions and pools make of shapes and attributes: the same on every type of device.
#include <troupe/kernels/cpu/conv.hpp>
#include <troupe/kernels/cpu/epilogue.hpp>
#include <troupe/kernels/cpu/linear.hpp>
#include <troupe/kernels/cpu/pool.hpp>
#include <troupe/kernels/cpu/tensor_checks.hpp>

namespace troupe {

FusedActivation parse_activation(std::string_view text) {
  if (text == "none") return FusedActivation::none;
  if (text == "relu") return FusedActivation::relu;
  if (text == "sigmoid") return FusedActivation::sigmoid;
  if (text == "tanh") return FusedActivation::tanh;
  invalid_argument("attribute 'activation' must be none, relu, sigmoid or tanh, not '{}'", text);
}

Shape matmul_shape(const Shape& a, const Shape& b, bool transpose_a, bool transpose_b) {
  check_rank("MatMul: a", a, 2);
  check_rank("MatMul: b", b, 2);
  if (a[transpose_a ? 0 : 1] != b[transpose_b ? 1 : 0])
    invalid_argument("MatMul: inner dimensions differ: {}{} x {}{}", a.to_string(), transpose_a ? " transposed" : "",
                     b.to_string(), transpose_b ? " transposed" : "");
  return {a[transpose_a ? 1 : 0], b[transpose_b ? 0 : 1]};
}

Conv2DAttributes conv2d_attributes(const Attributes& attributes) {
  return {.strides = pair_attribute(attributes, "strides"), .padding = parse_padding(attributes.string("padding"))};
}

void check_conv2d_type(const Tensor& t) {
  if (!is_floating(t.dtype())) invalid_argument("Conv2D works on floating-point numbers, not on {}", name(t.dtype()));
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

PoolAttributes pool_attributes(const Attributes& attributes) {
  return {.size = pair_attribute(attributes, "ksize"),
          .strides = pair_attribute(attributes, "strides"),
          .padding = parse_padding(attributes.string("padding"))};
}

PoolGeometry pool_geometry(const Shape& x, const PoolAttributes& options) {
  check_rank("pooling: x (NHWC)", x, 4);
  return {.batch = x[0],
          .channels = x[3],
          .rows = window_axis("pooling: height", x[1], options.size[0], options.strides[0], options.padding),
          .columns = window_axis("pooling: width", x[2], options.size[1], options.strides[1], options.padding)};
}

Shape pool_shape(const Shape& x, const PoolAttributes& options) { return pool_geometry(x, options).result_shape(); }

}  // namespace troupe
