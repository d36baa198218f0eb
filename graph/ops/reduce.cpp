// Reductions.
#include <algorithm>

#include "graph/ops/families.hpp"
#include "graph/ops/shapes.hpp"

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

Op reduction(std::string name) {
  return Op(std::move(name))
      .input("x", "T")
      .output("y", "T")
      .type("T", kRealTypes)
      .attr("axes", std::vector<std::int64_t>{})
      .attr("keep_dims", false)
      .shape(reduce_shape);
}

}  // namespace

void register_reduce_ops(OpRegistry& ops) {
  for (const char* name : {"Sum", "Mean", "Max", "Min"}) ops.add(reduction(name));
  ops.add(Op("ArgMax")
              .input("x", "T")
              .output("index", DType::i64)
              .type("T", kRealTypes)
              .attr("axis", std::int64_t{0})
              .shape(arg_max_shape)
              .no_gradient());
  ops.add(Op("L2Loss").input("x", "T").output("loss", "T").type("T", kFloatTypes).shape(shapes::scalar()));
}

}  // namespace troupe
