// Reductions.
#include <algorithm>

#include <troupe/graph/ops/families.hpp>
#include <troupe/graph/ops/gradients.hpp>
#include <troupe/graph/ops/shapes.hpp>

namespace troupe {
namespace {

void reduce_shape(ShapeContext& c) {
  const auto& given = c.attributes().integers("axes");
  const bool keep = c.attributes().boolean("keep_dims");
  const Shape& x = c.input(0);
  if (!x.has_rank()) {
    if (given.empty() && !keep) c.set_output(0, Shape{});
    return;
  }
  const std::vector<int> axes = shapes::axes(given, x.rank());
  std::vector<std::int64_t> dims;
  for (int i = 0; i < x.rank(); ++i) {
    const bool reduced = given.empty() || std::ranges::binary_search(axes, i);
    if (!reduced)
      dims.push_back(x[i]);
    else if (keep)
      dims.push_back(1);
  }
  c.set_output(0, Shape(dims));
}

void arg_max_shape(ShapeContext& c) {
  const Shape& x = shapes::at_least_rank(c.input(0), 1, "x");
  if (x.has_rank()) c.set_output(0, x.without(shapes::axis(c.attributes().integer("axis"), x.rank())));
}

// Restores the reduced dimensions as 1, so that a reduced value broadcasts to x.
Output with_kept_dims(GradientContext& c, Output reduced) {
  const auto& axes = c.attributes().integers("axes");
  const Shape& x = c.input(0).shape();
  if (axes.empty() || c.attributes().boolean("keep_dims")) return reduced;  // a scalar broadcasts as it is
  if (!x.has_rank()) return reshape_like(reduced, sum(c.input(0), axes, {.keep_dims = true}));
  for (int axis : shapes::axes(axes, x.rank())) reduced = expand_dims(reduced, axis);
  return reduced;
}

void sum_gradient(GradientContext& c) { c.set(0, broadcast_like(with_kept_dims(c, c.grad()), c.input(0))); }

// g divided by the number of elements in each mean.
Output divided_by_count(GradientContext& c, Output g) {
  const Output x = c.input(0);
  const Output y = c.output(0);
  if (x.shape().fully_known() && y.shape().fully_known()) {
    const std::int64_t means = std::max<std::int64_t>(y.shape().num_elements(), 1);
    return g / static_cast<double>(std::max<std::int64_t>(x.shape().num_elements() / means, 1));
  }
  const auto one = constant<std::int64_t>(c.graph(), 1);
  const Output means = maximum(element_count(y), one);
  return g / cast(element_count(x) / means, g.dtype());
}

void mean_gradient(GradientContext& c) {
  const Output g = divided_by_count(c, c.grad());
  c.set(0, broadcast_like(with_kept_dims(c, g), c.input(0)));
}

// For Max and Min: elements that equal the extremum share its gradient evenly.
void extremum_gradient(GradientContext& c) {
  const Output x = c.input(0);
  const Output extremum = with_kept_dims(c, c.output(0));
  const Output chosen = cast(equal(x, extremum), x.dtype());
  const Output ties = sum(chosen, c.attributes().integers("axes"), {.keep_dims = true});
  c.set(0, chosen * (with_kept_dims(c, c.grad()) / ties));
}

void l2_loss_gradient(GradientContext& c) { c.set(0, c.grad() * c.input(0)); }

Op reduction(std::string name, GradientFn gradient) {
  return Op(std::move(name))
      .input("x", "T")
      .output("y", "T")
      .type("T", kRealTypes)
      .attr("axes", std::vector<std::int64_t>{})
      .attr("keep_dims", false)
      .shape(reduce_shape)
      .gradient(std::move(gradient));
}

}  // namespace

void register_reduce_ops(OpRegistry& ops) {
  ops.add(reduction("Sum", sum_gradient));
  ops.add(reduction("Mean", mean_gradient));
  ops.add(reduction("Max", extremum_gradient));
  ops.add(reduction("Min", extremum_gradient));
  ops.add(Op("ArgMax")
              .input("x", "T")
              .output("index", DType::i64)
              .type("T", kRealTypes)
              .attr("axis", std::int64_t{0})
              .shape(arg_max_shape)
              .no_gradient());
  ops.add(Op("L2Loss")
              .input("x", "T")
              .output("loss", "T")
              .type("T", kFloatTypes)
              .shape(shapes::scalar())
              .gradient(l2_loss_gradient));
  ops.add(Op("AllFinite")
              .input_list("xs", "T", "N")
              .output("finite", DType::boolean)
              .type("T", kFloatTypes)
              .attr("N", AttrType::integer)
              .shape(shapes::scalar())
              .no_gradient());
}

}  // namespace troupe
