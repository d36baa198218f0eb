// Convolution of one to three dimensions and its gradients, which are gradients of each other, too.
//
// Conv's y, x and filter are linear in each other: its gradients give x and the filter as it gives y. A transposed
// convolution is the first of them, for an x whose size is given or chosen by attributes instead of by a tensor.
#include <troupe/graph/builder/core.hpp>
#include <troupe/graph/gradients/autodiff.hpp>
#include <troupe/graph/ops/families.hpp>
#include <troupe/graph/ops/shapes.hpp>
#include <troupe/graph/ops/windows.hpp>

namespace troupe {
namespace {

// A convolution's node: its attributes and the number of spatial axes, -1 if no shape tells.
struct Convolution {
  explicit Convolution(const ShapeContext& c, int image, int filter)
      : options(window_options(c.attributes())), groups(c.attributes().integer("groups")) {
    if (groups < 1) invalid_argument("attribute 'groups' is {}, not at least 1", groups);
    const auto rank_of = [&](int input) { return c.input(input).has_rank() ? c.input(input).rank() : -1; };
    const int rank = std::max(rank_of(image), rank_of(filter));
    if (rank < 0) return;
    spatial = rank - 2;
    check_window_options(options, spatial);
  }
  bool known() const { return spatial > 0; }
  Shape image(const ShapeContext& c, int input, std::string_view name) const {
    return shapes::with_rank(c.input(input), spatial + 2, name);
  }
  int filter_axis() const { return options.channels_first() ? 2 : 0; }
  std::int64_t filter_in(const Shape& filter) const { return filter[options.channels_first() ? 1 : spatial]; }
  std::int64_t filter_out(const Shape& filter) const { return filter[options.channels_first() ? 0 : spatial + 1]; }
  // Of the convolution's input and output.
  std::int64_t channels(const Shape& image) const { return image[options.channel_axis(spatial + 2)]; }
  void check_channels(const Shape& x, const Shape& filter) const {
    const std::int64_t in = channels(x), each = filter_in(filter), out = filter_out(filter);
    if (in != kUnknown && each != kUnknown && (in % groups != 0 || in / groups != each))
      invalid_argument("the input has {} channels, but the filter is for {}: {} and {}", in,
                       groups == 1 ? std::to_string(each) : fmt::format("{} groups of {}", groups, each), x.to_string(),
                       filter.to_string());
    if (out != kUnknown && out % groups != 0)
      invalid_argument("the filter's {} output channels are no {} equal groups: {}", out, groups, filter.to_string());
  }
  Shape with_channels(Shape image, std::int64_t channels) const {
    image.set_dim(options.channel_axis(spatial + 2), channels);
    return image;
  }

  WindowOptions options;
  std::int64_t groups;
  int spatial = -1;
};

// Of x and filter, inputs 0 and 1.
Shape convolved_shape(const ShapeContext& c, const Convolution& conv) {
  if (!conv.known()) return Shape::unknown_rank();
  const Shape x = conv.image(c, 0, "x"), filter = conv.image(c, 1, "filter");
  conv.check_channels(x, filter);
  Shape y = conv.with_channels(x, conv.filter_out(filter));
  const int first = conv.options.spatial_axis();
  for (int i = 0; i < conv.spatial; ++i)
    y.set_dim(first + i,
              window_axis(conv.options, i, conv.spatial, x[first + i], filter[conv.filter_axis() + i]).output);
  return y;
}

void conv_shape(ShapeContext& c) { c.set_output(0, convolved_shape(c, Convolution(c, 0, 1))); }
void fused_conv_shape(ShapeContext& c) {
  const Convolution conv(c, 0, 1);
  shapes::add_bias(c, convolved_shape(c, conv), conv.options.channels_first() ? 1 : -1);
}

void residual_conv_shape(ShapeContext& c) {
  const Convolution conv(c, 0, 1);
  const Shape y = shapes::merge(convolved_shape(c, conv), "the convolution", c.input(3), "residual");
  shapes::add_bias(c, y, conv.options.channels_first() ? 1 : -1);
}

// For both gradients: the output has the shape of input `like`.
ShapeFn conv_grad_shape(int like) {
  return [like](ShapeContext& c) {
    const Convolution conv(c, 0, 1);
    shapes::merge(convolved_shape(c, conv), "the convolution", c.input(2), "dy");
    c.set_output(0, conv.known() ? conv.image(c, like, like == 0 ? "x" : "filter") : c.input(like));
  };
}

void conv_transpose_shape(ShapeContext& c) {
  const Convolution conv(c, 0, 1);
  if (!conv.known()) return;
  const Shape x = conv.image(c, 0, "x"), filter = conv.image(c, 1, "filter");
  const std::int64_t in = conv.channels(x), out = conv.filter_in(filter);
  shapes::merge_dim(in, conv.filter_out(filter), "the channels of 'x' and the last dimension of 'filter'");
  if (in != kUnknown && in % conv.groups != 0)
    invalid_argument("the input's {} channels are no {} equal groups: {}", in, conv.groups, x.to_string());
  const std::vector<std::int64_t>& extra = c.attributes().integers("output_padding");
  if (!extra.empty() && static_cast<int>(extra.size()) != conv.spatial)
    invalid_argument("attribute 'output_padding' must have {} integers, not {}", conv.spatial, extra.size());
  const Shape sizes = shapes::known_dims(c, 2, "sizes");
  const bool given = !sizes.has_rank() || sizes.rank() > 0;  // or perhaps given
  if (sizes.has_rank() && given && sizes.rank() != conv.spatial)
    invalid_argument("'sizes' must be empty or have {} elements, not {}", conv.spatial, sizes.rank());
  Shape y = conv.with_channels(x, out == kUnknown ? kUnknown : shapes::checked_mul(out, conv.groups));
  const int first = conv.options.spatial_axis();
  for (int i = 0; i < conv.spatial; ++i) {
    const std::int64_t size = given && sizes.has_rank() ? sizes[i] : kUnknown;
    if (given && size == kUnknown) {
      y.set_dim(first + i, kUnknown);
      continue;
    }
    y.set_dim(first + i, transposed_axis(conv.options, i, conv.spatial, x[first + i], filter[conv.filter_axis() + i],
                                         extra.empty() ? 0 : extra[static_cast<std::size_t>(i)], size)
                             .input);
  }
  c.set_output(0, y);
}

// The attributes of a convolution, without its dtype.
Attributes conv_attributes(GradientContext& c) {
  Attributes out;
  for (const char* name : {"strides", "dilations", "groups", "padding", "pads", "data_format"})
    out.set(name, c.attributes().all().find(name)->second);
  return out;
}

void conv_gradient(GradientContext& c) {
  const Output g = c.grad();
  if (c.needs(0)) c.set(0, add_op("ConvBackpropInput", {c.input(0), c.input(1), g}, conv_attributes(c)));
  if (c.needs(1)) c.set(1, add_op("ConvBackpropFilter", {c.input(0), c.input(1), g}, conv_attributes(c)));
}
void conv_backprop_input_gradient(GradientContext& c) {
  const Output g = c.grad();
  if (c.needs(1)) c.set(1, add_op("ConvBackpropFilter", {g, c.input(1), c.input(2)}, conv_attributes(c)));
  if (c.needs(2)) c.set(2, add_op("Conv", {g, c.input(1)}, conv_attributes(c)));
}
void conv_backprop_filter_gradient(GradientContext& c) {
  const Output g = c.grad();
  if (c.needs(0)) c.set(0, add_op("ConvBackpropInput", {c.input(0), g, c.input(2)}, conv_attributes(c)));
  if (c.needs(2)) c.set(2, add_op("Conv", {c.input(0), g}, conv_attributes(c)));
}
void conv_transpose_gradient(GradientContext& c) {
  const Output g = c.grad();
  if (c.needs(0)) c.set(0, add_op("Conv", {g, c.input(1)}, conv_attributes(c)));
  if (c.needs(1)) c.set(1, add_op("ConvBackpropFilter", {g, c.input(1), c.input(0)}, conv_attributes(c)));
}

Op conv_op(std::string name) {
  Op op(std::move(name));
  return op.type("T", kFloatTypes);
}
Op& with_windows(Op& op) {
  return op.attr("strides", std::vector<std::int64_t>{})
      .attr("dilations", std::vector<std::int64_t>{})
      .attr("groups", std::int64_t{1})
      .attr("padding", AttrType::string)
      .attr("pads", std::vector<std::int64_t>{})
      .attr("data_format", to_string(DataFormat::channels_last));
}

// x - x_zero and filter - filter_zero convolved, as ONNX's ConvInteger: zeros are scalars, or the filter's one for each
// output channel.
void conv_integer_shape(ShapeContext& c) {
  const Shape y = convolved_shape(c, Convolution(c, 0, 1));
  for (int i = 2; i < 4; ++i)
    if (c.input(i).has_rank() && c.input(i).rank() > i - 2)
      invalid_argument("'{}' must be a scalar{}, but its shape is {}", i == 2 ? "x_zero" : "filter_zero",
                       i == 2 ? "" : " or vector", c.input(i).to_string());
  c.set_output(0, y);
}

// Bytes convolved (kernels/cpu/quantized.hpp): images with channels last.
void quantized_conv_shape(ShapeContext& c) {
  const Convolution conv(c, 0, 1);
  if (conv.options.channels_first()) invalid_argument("attribute 'data_format' must be channels_last");
  const Shape y = convolved_shape(c, conv);
  shapes::check_quantized(c, 3, y);
  if (c.num_inputs() > 5) invalid_argument("there is at most one residual, not {}", c.num_inputs() - 4);
  if (c.num_inputs() > 4) {
    if (c.attributes().dtype("Y") == DType::f32) invalid_argument("a residual needs a result of 8 bits");
    shapes::merge(y, "the convolution", c.input(4), "residual");
  }
  shapes::add_bias(c, y);
}

}  // namespace

void register_conv_ops(OpRegistry& ops) {
  Op conv = conv_op("Conv").input("x", "T").input("filter", "T").output("y", "T");
  ops.add(with_windows(conv).shape(conv_shape).gradient(conv_gradient).precision(PrecisionClass::narrow));
  Op fused = conv_op("FusedConv").input("x", "T").input("filter", "T").input("bias", "T").output("y", "T");
  ops.add(with_windows(fused)
              .attr("activation", std::string("none"))
              .shape(fused_conv_shape));  // no gradient: see FusedMatMul
  // activation(Conv + bias + residual); made by residual_inside, without a gradient as well.
  Op residual("ResidualConv");
  residual.type("T", {DType::f32}).input("x", "T").input("filter", "T").input("bias", "T").input("residual", "T");
  ops.add(with_windows(residual.output("y", "T")).attr("activation", std::string("none")).shape(residual_conv_shape));
  Op to_input = conv_op("ConvBackpropInput").input("x", "T").input("filter", "T").input("dy", "T").output("dx", "T");
  ops.add(with_windows(to_input)
              .shape(conv_grad_shape(0))
              .gradient(conv_backprop_input_gradient)
              .precision(PrecisionClass::narrow));
  Op to_filter =
      conv_op("ConvBackpropFilter").input("x", "T").input("filter", "T").input("dy", "T").output("dfilter", "T");
  ops.add(with_windows(to_filter)
              .shape(conv_grad_shape(1))
              .gradient(conv_backprop_filter_gradient)
              .precision(PrecisionClass::narrow));
  Op transpose = conv_op("ConvTranspose").input("x", "T").input("filter", "T").input("sizes", DType::i64);
  ops.add(with_windows(transpose.output("y", "T"))
              .attr("output_padding", std::vector<std::int64_t>{})
              .shape(conv_transpose_shape)
              .gradient(conv_transpose_gradient)
              .precision(PrecisionClass::narrow));
  Op integer("ConvInteger");
  integer.input("x", "T").input("filter", "F").input("x_zero", "T").input("filter_zero", "F").output("y", DType::i32);
  ops.add(with_windows(integer.type("T", {DType::i8, DType::u8}).type("F", {DType::i8, DType::u8}))
              .shape(conv_integer_shape)
              .no_gradient());
  const std::vector<DType> bytes{DType::i8, DType::u8};
  Op quantized("QuantizedConv");
  quantized.input("x", "Q").input("filter", DType::i8).input("bias", DType::f32).input("filter_scale", DType::f32);
  quantized.input_list("residual", "R", "residuals").output("y", "Y");
  quantized.type("Q", bytes).type("R", bytes, DType::i8).type("Y", {DType::f32, DType::i8, DType::u8});
  quantized.attr("x_scale", AttrType::real).attr("x_zero", std::int64_t{0});
  quantized.attr("y_scale", 1.0).attr("y_zero", std::int64_t{0});
  quantized.attr("residual_scale", 1.0).attr("residual_zero", std::int64_t{0});
  ops.add(with_windows(quantized).attr("activation", std::string("none")).shape(quantized_conv_shape).no_gradient());
}

}  // namespace troupe
