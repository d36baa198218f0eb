// Ensembles of decision trees.
#include <troupe/graph/ops/families.hpp>
#include <troupe/graph/ops/shapes.hpp>
#include <troupe/graph/tree_tables.hpp>

namespace troupe {
namespace {

void trees_shape(ShapeContext& c) {
  const Shape x = shapes::with_rank(c.input(0), 2, "x");
  const TreeTables t = tree_tables(c.attributes(), c.input_dtype(0));
  if (x[1] != kUnknown && x[1] < t.columns)
    invalid_argument("'x' is {}, but the trees look at {} columns", x.to_string(), t.columns);
  c.set_output(0, Shape{x[0], t.targets});
}

}  // namespace

void register_tree_ops(OpRegistry& ops) {
  Op op("TreeEnsemble");
  op.input("x", "T").output("y", "T").type("T", kWideFloatTypes);
  for (const char* name : {"roots", "tests", "features", "thresholds", "true_children", "false_children",
                           "nan_takes_true", "weight_splits", "weight_targets", "weights", "member_splits", "members"})
    op.attr(name, AttrType::tensor);
  ops.add(op.attr("targets", AttrType::integer).attr("aggregate", AttrType::string).shape(trees_shape).no_gradient());
}

}  // namespace troupe
