// Reductions.
#include <algorithm>

#include <troupe/graph/known_values.hpp>
#include <troupe/graph/ops/families.hpp>
#include <troupe/graph/ops/gradients.hpp>
#include <troupe/graph/ops/shapes.hpp>

namespace troupe {
namespace {

// Axes that are not known: none.
std::optional<Integers> known_axes(const ShapeContext& c) {
  const Shape& axes = c.input(1);
  if (axes.has_rank() && axes.rank() > 1)
    invalid_argument("'axes' must be a scalar or vector, but its shape is {}", axes.to_string());
  const auto known = c.integers(1);
  return known && known->complete() ? std::optional(known->integers()) : std::nullopt;
}

// The shape of a reduction over axes that are not known, but may be as many as known.
Shape reduced_by_unknown(const ShapeContext& c, const Shape& x, bool keep) {
  if (!x.has_rank()) return x;
  if (keep) return Shape::unknown(x.rank());
  const Shape& axes = c.input(1);
  if (!axes.has_rank() || !axes.fully_known()) return Shape::unknown_rank();
  const std::int64_t count = axes.num_elements();
  if (count == 0) return Shape{};
  if (count > x.rank()) invalid_argument("there are {} axes, but x has {} dimensions", count, x.rank());
  return Shape::unknown(x.rank() - static_cast<int>(count));
}

void reduce_shape(ShapeContext& c) {
  const auto given = known_axes(c);
  const bool keep = c.attributes().boolean("keep_dims");
  const Shape& x = c.input(0);
  if (!given) return c.set_output(0, reduced_by_unknown(c, x, keep));
  if (!x.has_rank()) {
    if (given->empty() && !keep) c.set_output(0, Shape{});
    return;
  }
  const std::vector<int> axes = shapes::axes(*given, x.rank());
  std::vector<std::int64_t> dims;
  for (int i = 0; i < x.rank(); ++i) {
    const bool reduced = given->empty() || std::ranges::binary_search(axes, i);
    if (!reduced)
      dims.push_back(x[i]);
    else if (keep)
      dims.push_back(1);
  }
  c.set_output(0, Shape(dims));
}

void arg_shape(ShapeContext& c) {
  const Shape& x = shapes::at_least_rank(c.input(0), 1, "x");
  shapes::with_rank(c.input(1), 0, "axis");
  if (!x.has_rank()) return;
  const auto axis = shapes::known_scalar(c, 1);
  c.set_output(0, axis ? x.without(shapes::axis(*axis, x.rank())) : Shape::unknown(x.rank() - 1));
}

// Restores the reduced dimensions as 1, so that a reduced value broadcasts to x.
Output with_kept_dims(GradientContext& c, Output reduced) {
  if (c.attributes().boolean("keep_dims")) return reduced;
  const Output x = c.input(0), axes = c.input(1);
  const auto given = known_integers(axes);
  const bool known = given && given->complete();
  if (known && given->values.empty()) return reduced;  // a scalar broadcasts as it is
  if (!known) return reshape_like(reduced, sum(x, axes, {.keep_dims = true}));
  return expand_dims(reduced, given->integers());
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
  const Output ties = sum(chosen, c.input(1), {.keep_dims = true});
  c.set(0, chosen * (with_kept_dims(c, c.grad()) / ties));
}

// The product of all other elements. It is product / x without zeros; of one zero, the product of the rest flows to
// that element alone; of several, nothing flows.
void prod_gradient(GradientContext& c) {
  const Output x = c.input(0), axes = c.input(1);
  const Output zero = scalar_like(x, 0);
  const Output one = scalar_like(x, 1);
  const Output is_zero = equal(x, zero);
  const Output zeros = sum(cast(is_zero, x.dtype()), axes, {.keep_dims = true});
  const Output safe = select(is_zero, one, x);
  const Output rest = prod(safe, axes, {.keep_dims = true});
  const Output g = with_kept_dims(c, c.grad()) * rest;
  const Output no_zero = equal(zeros, zero);
  const Output one_zero = equal(zeros, one);
  const Output at_others = select(no_zero, g, zero) / safe;
  c.set(0, select(is_zero, select(one_zero, g, zero), at_others));
}

void l2_loss_gradient(GradientContext& c) { c.set(0, c.grad() * c.input(0)); }

Op reduction(std::string name, const std::vector<DType>& types) {
  return Op(std::move(name))
      .input("x", "T")
      .input("axes", DType::i64)
      .output("y", "T")
      .type("T", types)
      .attr("keep_dims", false)
      .shape(reduce_shape);
}

Op arg_extreme(std::string name) {
  return Op(std::move(name))
      .input("x", "T")
      .input("axis", DType::i64)
      .output("index", DType::i64)
      .type("T", kRealTypes)
      .attr("select_last_index", false)
      .shape(arg_shape)
      .no_gradient();
}

}  // namespace

void register_reduce_ops(OpRegistry& ops) {
  ops.add(reduction("Sum", kRealTypes).gradient(sum_gradient));
  ops.add(reduction("Mean", kRealTypes).gradient(mean_gradient));
  ops.add(reduction("Max", kRealTypes).gradient(extremum_gradient));
  ops.add(reduction("Min", kRealTypes).gradient(extremum_gradient));
  ops.add(reduction("Prod", kRealTypes).gradient(prod_gradient));
  ops.add(reduction("All", {DType::boolean}).no_gradient());
  ops.add(reduction("Any", {DType::boolean}).no_gradient());
  ops.add(arg_extreme("ArgMax"));
  ops.add(arg_extreme("ArgMin"));
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
