// Neural networks: convolution, pooling, dropout. Layout NHWC, filters HWIO.
#include <troupe/graph/ops/families.hpp>
#include <troupe/graph/ops/nn_gradients.hpp>
#include <troupe/graph/ops/shapes.hpp>

namespace troupe {
namespace {

// Two positive integers: (height, width).
std::pair<std::int64_t, std::int64_t> pair_attr(const Attributes& attributes, std::string_view name) {
  const auto& values = attributes.integers(name);
  if (values.size() != 2 || values[0] < 1 || values[1] < 1)
    invalid_argument("attribute '{}' must be two positive integers (height, width)", name);
  return {values[0], values[1]};
}

// The size of an output along one spatial dimension of a window op.
std::int64_t window_size(std::int64_t in, std::int64_t window, std::int64_t stride, const std::string& padding) {
  if (padding != "SAME" && padding != "VALID")
    invalid_argument("attribute 'padding' is '{}', not SAME or VALID", padding);
  if (in == kUnknown) return kUnknown;
  if (padding == "SAME") return in / stride + (in % stride != 0);
  if (window == kUnknown) return kUnknown;
  if (window > in) invalid_argument("a window of {} is larger than the input's {}; use padding SAME", window, in);
  return (in - window) / stride + 1;
}

Shape conv_output(const Attributes& attributes, const Shape& x, const Shape& filter) {
  const auto [sh, sw] = pair_attr(attributes, "strides");
  const std::string& padding = attributes.string("padding");
  if (x[3] != kUnknown && filter[2] != kUnknown && x[3] != filter[2])
    invalid_argument("the input has {} channels, but the filter is for {}: {} and {}", x[3], filter[2], x.to_string(),
                     filter.to_string());
  return Shape{x[0], window_size(x[1], filter[0], sh, padding), window_size(x[2], filter[1], sw, padding), filter[3]};
}

Shape convolved_shape(const ShapeContext& c) {
  const Shape x = shapes::with_rank(c.input(0), 4, "x");
  const Shape filter = shapes::with_rank(c.input(1), 4, "filter");
  return conv_output(c.attributes(), x, filter);
}
void conv2d_shape(ShapeContext& c) { c.set_output(0, convolved_shape(c)); }
void fused_conv2d_shape(ShapeContext& c) { shapes::add_bias(c, convolved_shape(c)); }

// For both gradients: the output has the shape of input `like`.
ShapeFn conv2d_grad_shape(int like) {
  return [like](ShapeContext& c) {
    const Shape x = shapes::with_rank(c.input(0), 4, "x");
    const Shape filter = shapes::with_rank(c.input(1), 4, "filter");
    shapes::merge(conv_output(c.attributes(), x, filter), "the convolution", c.input(2), "dy");
    c.set_output(0, like == 0 ? x : filter);
  };
}

Shape pool_output(const Attributes& attributes, const Shape& x) {
  const auto [kh, kw] = pair_attr(attributes, "ksize");
  const auto [sh, sw] = pair_attr(attributes, "strides");
  const std::string& padding = attributes.string("padding");
  return Shape{x[0], window_size(x[1], kh, sh, padding), window_size(x[2], kw, sw, padding), x[3]};
}

void pool_shape(ShapeContext& c) {
  c.set_output(0, pool_output(c.attributes(), shapes::with_rank(c.input(0), 4, "x")));
}

void max_pool_grad_shape(ShapeContext& c) {
  const Shape x = shapes::with_rank(c.input(0), 4, "x");
  const Shape y = shapes::merge(pool_output(c.attributes(), x), "the pooled x", c.input(1), "y");
  shapes::merge(y, "y", c.input(2), "dy");
  c.set_output(0, x);
}

void avg_pool_grad_shape(ShapeContext& c) {
  const Shape x = shapes::with_rank(c.input(0), 4, "x");
  shapes::merge(pool_output(c.attributes(), x), "the pooled x", c.input(1), "dy");
  c.set_output(0, x);
}

void dropout_shape(ShapeContext& c) {
  shapes::with_rank(c.input(1), 0, "rate");
  if (const Tensor* rate = c.constant(1)) {
    const double value = rate->item<double>();
    if (!(value >= 0 && value < 1)) invalid_argument("the dropout rate is {}, not in [0, 1)", value);
  }
  c.set_output(0, c.input(0));
  c.set_output(1, c.input(0));
}

Op op_of(std::string name, std::initializer_list<const char*> inputs, std::initializer_list<const char*> outputs,
         const std::vector<DType>& types) {
  Op op(std::move(name));
  for (const char* input : inputs) op.input(input, "T");
  for (const char* output : outputs) op.output(output, "T");
  return op.type("T", types);
}
Op float_op(std::string name, std::initializer_list<const char*> inputs, std::initializer_list<const char*> outputs) {
  return op_of(std::move(name), inputs, outputs, kFloatTypes);
}
Op windowed(Op op) { return op.attr("strides", std::vector<std::int64_t>{1, 1}).attr("padding", AttrType::string); }

Op pooled(Op op) {
  return op.attr("ksize", AttrType::integers).attr("strides", AttrType::integers).attr("padding", AttrType::string);
}

void register_windows(OpRegistry& ops) {
  ops.add(windowed(float_op("Conv2D", {"x", "filter"}, {"y"}))
              .shape(conv2d_shape)
              .gradient(backward::conv2d)
              .precision(PrecisionClass::narrow));
  ops.add(windowed(float_op("FusedConv2D", {"x", "filter", "bias"}, {"y"}))
              .attr("activation", std::string("none"))
              .shape(fused_conv2d_shape));  // no gradient: see FusedMatMul
  ops.add(windowed(float_op("Conv2DBackpropInput", {"x", "filter", "dy"}, {"dx"}))
              .shape(conv2d_grad_shape(0))
              .gradient(backward::conv2d_backprop_input)
              .precision(PrecisionClass::narrow));
  ops.add(windowed(float_op("Conv2DBackpropFilter", {"x", "filter", "dy"}, {"dfilter"}))
              .shape(conv2d_grad_shape(1))
              .gradient(backward::conv2d_backprop_filter)
              .precision(PrecisionClass::narrow));
  ops.add(pooled(float_op("MaxPool", {"x"}, {"y"}))
              .shape(pool_shape)
              .gradient(backward::max_pool)
              .precision(PrecisionClass::follower));
  ops.add(pooled(float_op("AvgPool", {"x"}, {"y"})).shape(pool_shape).gradient(backward::avg_pool));
  ops.add(pooled(float_op("MaxPoolGrad", {"x", "y", "dy"}, {"dx"}))
              .shape(max_pool_grad_shape)
              .precision(PrecisionClass::follower));
  ops.add(pooled(float_op("AvgPoolGrad", {"x", "dy"}, {"dx"}))
              .shape(avg_pool_grad_shape)
              .gradient(backward::avg_pool_grad));
}

}  // namespace

void register_nn_ops(OpRegistry& ops) {
  register_windows(ops);
  ops.add(Op("Dropout")
              .input("x", "T")
              .input("rate", DType::f64)
              .output("y", "T")
              .output("mask", "T")
              .type("T", kFloatTypes)
              .attr("seed", std::int64_t{0})
              .shape(dropout_shape)
              .gradient(backward::dropout)
              .stateful());
}

}  // namespace troupe
