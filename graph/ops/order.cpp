// Order: sorts, search and counts.
#include <troupe/graph/ops/families.hpp>
#include <troupe/graph/ops/gradients.hpp>
#include <troupe/graph/ops/shapes.hpp>

namespace troupe {
namespace {

void sort_shape(ShapeContext& c) {
  const Shape& x = shapes::at_least_rank(c.input(0), 1, "x");
  if (x.has_rank()) shapes::axis(c.attributes().integer("axis"), x.rank());
  c.set_output(0, x);
}

void top_k_shape(ShapeContext& c) {
  const Shape& x = shapes::at_least_rank(c.input(0), 1, "x");
  if (!x.has_rank()) return;
  const int axis = shapes::axis(c.attributes().integer("axis"), x.rank());
  const auto k = shapes::known_scalar(c, 1);
  if (k && (*k < 0 || (x[axis] != kUnknown && *k > x[axis])))
    invalid_argument("k is {}, but axis {} of {} has {} elements", *k, axis, x.to_string(), x[axis]);
  Shape out = x;
  out.set_dim(axis, k ? *k : kUnknown);
  c.set_output(0, out);
  c.set_output(1, out);
}

void in_top_k_shape(ShapeContext& c) {
  const Shape predictions = shapes::with_rank(c.input(0), 2, "predictions"),
              targets = shapes::with_rank(c.input(1), 1, "targets");
  c.set_output(0, Shape{shapes::merge_dim(predictions[0], targets[0], "the numbers of predictions and targets")});
}

void unique_shape(ShapeContext& c) {
  const auto& axes = c.attributes().integers("axes");
  if (axes.size() > 1) invalid_argument("attribute 'axes' has {} entries, not one or none", axes.size());
  const Shape& x = c.input(0);
  for (int i = 1; i < 4; ++i) c.set_output(i, Shape{kUnknown});
  if (axes.empty()) {
    c.set_output(0, Shape{kUnknown});
    if (x.fully_known()) c.set_output(2, Shape{x.num_elements()});
  } else if (x.has_rank()) {
    const int axis = shapes::axis(axes[0], x.rank());
    Shape out = x;
    out.set_dim(axis, kUnknown);
    c.set_output(0, out);
    c.set_output(2, Shape{x[axis]});
  }
}

void search_sorted_shape(ShapeContext& c) {
  const Shape &sorted = shapes::at_least_rank(c.input(0), 1, "sorted"), &values = c.input(1);
  if (sorted.has_rank() && sorted.rank() > 1 && values.has_rank()) {
    shapes::with_rank(values, sorted.rank(), "values");
    shapes::merge(sorted.without(sorted.rank() - 1), "rows of sorted", values.without(values.rank() - 1),
                  "rows of values");
  }
  c.set_output(0, values);
}

void bincount_shape(ShapeContext& c) { c.set_output(0, Shape{kUnknown}); }

void histogram_shape(ShapeContext& c) {
  const Shape range = shapes::with_rank(c.input(1), 1, "range");
  shapes::merge_dim(range[0], 2, "the length of 'range' and 2");
  c.set_output(0, Shape{shapes::known_scalar(c, 2).value_or(kUnknown)});
}

// Gradients go back to where the elements came from.
void sort_gradient(GradientContext& c) {
  const std::int64_t axis = c.attributes().integer("axis");
  const Output order = arg_sort(c.input(0), {.axis = axis, .descending = c.attributes().boolean("descending")});
  const Output zeros = zeros_like(c.input(0));
  c.set(0, scatter_elements(zeros, order, c.grad(), {.axis = axis}));
}
// No index occurs twice; adding says so to the gradient of this gradient.
void top_k_gradient(GradientContext& c) {
  const Output zeros = zeros_like(c.input(0));
  c.set(0,
        scatter_elements(zeros, c.output(1), c.grad(), {.axis = c.attributes().integer("axis"), .reduction = "add"}));
}
void unique_gradient(GradientContext& c) {
  const auto& axes = c.attributes().integers("axes");
  const Output first = c.output(1);
  if (!axes.empty()) {
    const Attributes along = {{"axis", axes[0]}, {"batch_dims", std::int64_t{0}}, {"from_end", false}};
    return c.set(0, add_op("GatherGrad", {c.grad(), first, c.input(0)}, along));
  }
  const Output flat = reshape(c.input(0), Shape{kUnknown});
  const Output zeros = zeros_like(flat);
  const Output spread = scatter_elements(zeros, first, c.grad(), {.reduction = "add"});
  c.set(0, reshape_like(spread, c.input(0)));
}

void register_sorts(OpRegistry& ops) {
  const auto sort = [](std::string name) {
    return Op(std::move(name))
        .input("x", "T")
        .type("T", kDataTypes)
        .attr("axis", std::int64_t{-1})
        .attr("descending", false)
        .shape(sort_shape);
  };
  ops.add(sort("Sort").output("y", "T").gradient(sort_gradient));
  ops.add(sort("ArgSort").output("indices", DType::i64).no_gradient());
  ops.add(Op("TopK")
              .input("x", "T")
              .input("k", DType::i64)
              .output("values", "T")
              .output("indices", DType::i64)
              .type("T", kDataTypes)
              .attr("axis", std::int64_t{-1})
              .attr("largest", true)
              .shape(top_k_shape)
              .gradient(top_k_gradient));
  ops.add(Op("Unique")
              .input("x", "T")
              .output("values", "T")
              .output("indices", DType::i64)
              .output("inverse", DType::i64)
              .output("counts", DType::i64)
              .type("T", kTensorTypes)
              .attr("axes", Integers{})
              .attr("sorted", true)
              .shape(unique_shape)
              .gradient(unique_gradient));
}

void register_counts(OpRegistry& ops) {
  ops.add(Op("InTopK")
              .input("predictions", "T")
              .input("targets", "Tindices")
              .input("k", DType::i64)
              .output("hits", DType::boolean)
              .type("T", kFloatTypes)
              .type("Tindices", kIndexTypes)
              .shape(in_top_k_shape)
              .no_gradient());
  ops.add(Op("SearchSorted")
              .input("sorted", "T")
              .input("values", "T")
              .output("places", DType::i64)
              .type("T", kRealTypes)
              .attr("right", false)
              .shape(search_sorted_shape)
              .no_gradient());
  ops.add(Op("Bincount")
              .input("x", "T")
              .input("min_length", DType::i64)
              .output("counts", DType::i64)
              .type("T", kIndexTypes)
              .shape(bincount_shape)
              .no_gradient());
  ops.add(Op("HistogramFixedWidth")
              .input("values", "T")
              .input("range", "T")
              .input("bins", DType::i64)
              .output("counts", DType::i64)
              .type("T", {DType::f32, DType::f64, DType::i32, DType::i64})
              .shape(histogram_shape)
              .no_gradient());
}

}  // namespace

void register_order_ops(OpRegistry& ops) {
  register_sorts(ops);
  register_counts(ops);
}

}  // namespace troupe
