// Pooling of one to three dimensions.
#include <troupe/graph/builder/array.hpp>
#include <troupe/graph/builder/index.hpp>
#include <troupe/graph/builder/math.hpp>
#include <troupe/graph/gradients/autodiff.hpp>
#include <troupe/graph/ops/families.hpp>
#include <troupe/graph/ops/shapes.hpp>
#include <troupe/graph/ops/windows.hpp>

namespace troupe {
namespace {

Shape pooled_shape(const ShapeContext& c, const Shape& given) {
  const WindowOptions options = window_options(c.attributes());
  const int spatial = static_cast<int>(options.kernel.size());
  check_window_options(options, spatial);
  const Shape x = shapes::with_rank(given, spatial + 2, "x");
  Shape y = x;
  const int first = options.spatial_axis();
  for (int i = 0; i < spatial; ++i)
    y.set_dim(first + i,
              window_axis(options, i, spatial, x[first + i], options.kernel[static_cast<std::size_t>(i)]).output);
  return y;
}

void pool_shape(ShapeContext& c) {
  const Shape y = pooled_shape(c, c.input(0));
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, y);
}

void avg_pool_shape(ShapeContext& c) {
  const std::string& divisor = c.attributes().string("divisor");
  if (divisor != "existing" && divisor != "padded" && divisor != "one")
    invalid_argument("attribute 'divisor' is '{}', not one of existing, padded, one", divisor);
  pool_shape(c);
}

// (x, y or indices, dy) -> dx.
void max_pool_grad_shape(ShapeContext& c) {
  const Shape y = shapes::merge(pooled_shape(c, c.input(0)), "the pooled x", c.input(1), "y");
  shapes::merge(y, "y", c.input(2), "dy");
  c.set_output(0, c.input(0));
}

void indices_grad_shape(ShapeContext& c) {
  shapes::merge(c.input(1), "indices", c.input(2), "dy");
  c.set_output(0, c.input(0));
}

void avg_pool_grad_shape(ShapeContext& c) {
  shapes::merge(pooled_shape(c, c.input(0)), "the pooled x", c.input(1), "dy");
  c.set_output(0, c.input(0));
}

void max_unpool_shape(ShapeContext& c) {
  shapes::merge(c.input(0), "x", c.input(1), "indices");
  c.set_output(0, shapes::known_dims(c, 2, "shape"));
}

// The attributes of a pool, without its dtype.
Attributes pool_attributes(GradientContext& c) {
  Attributes out;
  for (const char* name : {"ksize", "strides", "dilations", "padding", "pads", "ceil_mode", "data_format", "divisor"})
    if (c.attributes().has(name)) out.set(name, c.attributes().all().find(name)->second);
  return out;
}

void max_pool_gradient(GradientContext& c) {
  c.set(0, add_op("MaxPoolGrad", {c.input(0), c.output(0), c.grad()}, pool_attributes(c)));
}
void avg_pool_gradient(GradientContext& c) {
  c.set(0, add_op("AvgPoolGrad", {c.input(0), c.grad()}, pool_attributes(c)));
}
void avg_pool_grad_gradient(GradientContext& c) {
  if (c.needs(1)) c.set(1, add_op("AvgPool", {c.grad()}, pool_attributes(c)));
}

// The elements of a tensor at indices into its row-major order; 0 for an index of -1.
Output at_indices(Output x, Output indices) {
  const Output zero = scalar_like(indices, 0);
  const Output exists = greater_equal(indices, zero);
  const Output found = gather(reshape(x, Shape{kUnknown}), maximum(indices, zero));
  return select(exists, found, scalar_like(x, 0));
}

void max_pool_grad_gradient(GradientContext& c) {
  if (!c.needs(2)) return;
  const Outputs pooled = add_outputs("MaxPoolWithIndices", {c.input(0)}, pool_attributes(c));
  c.set(2, at_indices(c.grad(), pooled[1]));
}

void max_pool_with_indices_gradient(GradientContext& c) {
  if (c.has_grad(0)) c.set(0, add_op("MaxPoolWithIndicesGrad", {c.input(0), c.output(1), c.grad(0)}));
}
void max_pool_with_indices_grad_gradient(GradientContext& c) {
  if (c.needs(2)) c.set(2, at_indices(c.grad(), c.input(1)));
}
void max_unpool_gradient(GradientContext& c) {
  if (c.needs(0)) c.set(0, at_indices(c.grad(), c.input(1)));
}

Op& with_pool_windows(Op& op) {
  return op.attr("ksize", AttrType::integers)
      .attr("strides", std::vector<std::int64_t>{})
      .attr("dilations", std::vector<std::int64_t>{})
      .attr("padding", AttrType::string)
      .attr("pads", std::vector<std::int64_t>{})
      .attr("ceil_mode", false)
      .attr("data_format", to_string(DataFormat::channels_last));
}

}  // namespace

void register_pool_ops(OpRegistry& ops) {
  const std::vector<DType> of_maxima = dtypes_of(FloatTypes{} + Types<std::int8_t, std::uint8_t>{});
  const std::string existing = "existing";
  Op maximum("MaxPool");
  ops.add(with_pool_windows(maximum.input("x", "T").output("y", "T").type("T", of_maxima))
              .shape(pool_shape)
              .gradient(max_pool_gradient)
              .precision(PrecisionClass::follower));
  Op average("AvgPool");
  ops.add(with_pool_windows(average.input("x", "T").output("y", "T").type("T", kFloatTypes))
              .attr("divisor", existing)
              .shape(avg_pool_shape)
              .gradient(avg_pool_gradient));
  Op maximum_grad("MaxPoolGrad");
  ops.add(with_pool_windows(
              maximum_grad.input("x", "T").input("y", "T").input("dy", "T").output("dx", "T").type("T", kFloatTypes))
              .shape(max_pool_grad_shape)
              .gradient(max_pool_grad_gradient)
              .precision(PrecisionClass::follower));
  Op average_grad("AvgPoolGrad");
  ops.add(with_pool_windows(average_grad.input("x", "T").input("dy", "T").output("dx", "T").type("T", kFloatTypes))
              .attr("divisor", existing)
              .shape(avg_pool_grad_shape)
              .gradient(avg_pool_grad_gradient));
  Op with_indices("MaxPoolWithIndices");
  ops.add(with_pool_windows(
              with_indices.input("x", "T").output("y", "T").output("indices", DType::i64).type("T", of_maxima))
              .shape(pool_shape)
              .gradient(max_pool_with_indices_gradient));
  ops.add(Op("MaxPoolWithIndicesGrad")
              .input("x", "T")
              .input("indices", DType::i64)
              .input("dy", "T")
              .output("dx", "T")
              .type("T", kFloatTypes)
              .shape(indices_grad_shape)
              .gradient(max_pool_with_indices_grad_gradient));
  ops.add(Op("MaxUnpool")
              .input("x", "T")
              .input("indices", DType::i64)
              .input("shape", DType::i64)
              .output("y", "T")
              .type("T", kFloatTypes)
              .shape(max_unpool_shape)
              .gradient(max_unpool_gradient));
}

}  // namespace troupe
