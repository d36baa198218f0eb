// Cumulative sums, products, log-sum-exps and extrema along an axis.
#include <limits>

#include <troupe/graph/known_values.hpp>
#include <troupe/graph/ops/composed_gradients.hpp>
#include <troupe/graph/ops/families.hpp>
#include <troupe/graph/ops/shapes.hpp>

namespace troupe {
namespace {

constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();

// Every output is like x; the last input is the axis.
void cumulative_shape(ShapeContext& c) {
  const int last = c.num_inputs() - 1;
  const auto axis = shapes::known_scalar(c, last);
  const Shape& x = shapes::at_least_rank(c.input(0), 1, "x");
  if (axis && x.has_rank()) shapes::axis(*axis, x.rank());
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, x);
}
void cumulative_grad_shape(ShapeContext& c) {
  Shape x = c.input(0);
  for (int i = 1; i + 1 < c.num_inputs(); ++i) x = shapes::merge(x, "x", c.input(i), "results and gradients");
  c.set_output(0, x);
}

Attributes cumulative_attributes(GradientContext& c) {
  return {{"exclusive", c.attributes().boolean("exclusive")}, {"reverse", c.attributes().boolean("reverse")}};
}

void cumsum_gradient(GradientContext& c) {
  c.set(0, cumsum(c.grad(), c.input(1),
                  {.exclusive = c.attributes().boolean("exclusive"), .reverse = !c.attributes().boolean("reverse")}));
}
void cumprod_gradient(GradientContext& c) {
  c.set(0, add_op("CumProdGrad", {c.input(0), c.grad(), c.input(1)}, cumulative_attributes(c)));
}
void cumulative_logsumexp_gradient(GradientContext& c) {
  c.set(0, add_op("CumLogSumExpGrad", {c.input(0), c.output(0), c.grad(), c.input(1)}, cumulative_attributes(c)));
}
// The indices into x's row-major order of the elements at `index` along the axis, which is not known before the graph
// runs.
Output flat_indices(Output x, Output index, Output axis) {
  const Output dims = shape_of(x);
  const Output one = constant<std::int64_t>(*x.graph, 1);
  const Output place = floor_mod(axis, rank_of(x));
  const Output behind = strided_slice(dims, reshape(place + one, Shape{1}), Integers{kEnd});
  const Output stride = prod(behind);
  const Output own = cumsum(ones_like(index), axis, {.exclusive = true});
  const Output numbers = reshape_like(range(element_count(x)), x);
  const Output moved = (index - own) * stride;
  return reshape(numbers + moved, Shape{kUnknown});
}

void cumulative_extremum_gradient(GradientContext& c) {
  const Output x = c.input(0), g = c.grad();
  const auto known = known_tensor(c.input(1));
  if (known) {
    const Output zeros = zeros_like(x);
    return c.set(0, scatter_elements(zeros, c.output(1), g, {.axis = known->item<std::int64_t>(), .reduction = "add"}));
  }
  const Output places = flat_indices(x, c.output(1), c.input(1));
  const Output flat = reshape(g, Shape{kUnknown});
  c.set(0, reshape_like(scatter_add_rows(places, flat, flat), x));
}

Op cumulative_op(std::string name, std::vector<DType> types) {
  return Op(std::move(name))
      .input("x", "T")
      .input("axis", DType::i64)
      .output("y", "T")
      .type("T", std::move(types))
      .shape(cumulative_shape)
      .attr("reverse", false);
}

}  // namespace

void register_cumulative_ops(OpRegistry& ops) {
  ops.add(cumulative_op("CumSum", kRealTypes).attr("exclusive", false).gradient(cumsum_gradient));
  ops.add(cumulative_op("CumProd", kRealTypes).attr("exclusive", false).gradient(cumprod_gradient));
  ops.add(cumulative_op("CumLogSumExp", kFloatTypes).attr("exclusive", false).gradient(cumulative_logsumexp_gradient));
  for (const char* name : {"CumMax", "CumMin"})
    ops.add(cumulative_op(name, kRealTypes).output("index", DType::i64).gradient(cumulative_extremum_gradient));
  ops.add(Op("CumProdGrad")
              .input("x", "T")
              .input("dy", "T")
              .input("axis", DType::i64)
              .output("dx", "T")
              .type("T", kFloatTypes)
              .attr("exclusive", false)
              .attr("reverse", false)
              .shape(cumulative_grad_shape)
              .gradient(cumulative_product_grad_gradient));
  ops.add(Op("CumLogSumExpGrad")
              .input("x", "T")
              .input("y", "T")
              .input("dy", "T")
              .input("axis", DType::i64)
              .output("dx", "T")
              .type("T", kFloatTypes)
              .attr("exclusive", false)
              .attr("reverse", false)
              .shape(cumulative_grad_shape)
              .gradient(cumulative_logsumexp_grad_gradient));
}

}  // namespace troupe
