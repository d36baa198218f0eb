// Arrays: shapes, slices, joins, rows.
#include "graph/ops/array_shapes.hpp"
#include "graph/ops/families.hpp"

namespace troupe {
namespace {

using Integers = std::vector<std::int64_t>;

Op unary(std::string name) { return Op(std::move(name)).input("x", "T").output("y", "T").type("T"); }

void register_views(OpRegistry& ops) {
  ops.add(Op("Reshape")
              .input("x", "T")
              .input("shape", DType::i64)
              .output("y", "T")
              .type("T")
              .shape(shapes::reshape));
  ops.add(Op("ReshapeLike")
              .input("x", "T")
              .input("like", "T2")
              .output("y", "T")
              .type("T")
              .type("T2")
              .shape(shapes::reshape_like));
  ops.add(unary("Squeeze").attr("axes", Integers{}).shape(shapes::squeeze));
  ops.add(unary("ExpandDims").attr("axis", AttrType::integer).shape(shapes::expand_dims));
  ops.add(unary("Transpose").attr("perm", Integers{}).shape(shapes::transpose));
}

void register_joins(OpRegistry& ops) {
  ops.add(Op("Concat")
              .input_list("xs", "T", "N")
              .output("y", "T")
              .type("T")
              .attr("axis", AttrType::integer)
              .shape(shapes::concat));
  ops.add(Op("Stack")
              .input_list("xs", "T", "N")
              .output("y", "T")
              .type("T")
              .attr("axis", AttrType::integer)
              .shape(shapes::stack));
  ops.add(Op("Split")
              .input("x", "T")
              .output_list("parts", "T", "N")
              .type("T")
              .attr("axis", AttrType::integer)
              .shape(shapes::split));
  ops.add(Op("SplitSizes")
              .input("x", "T")
              .output_list("parts", "T", "N")
              .type("T")
              .attr("axis", AttrType::integer)
              .attr("sizes", AttrType::integers)
              .shape(shapes::split_sizes));
  ops.add(Op("Unstack")
              .input("x", "T")
              .output_list("parts", "T", "N")
              .type("T")
              .attr("axis", AttrType::integer)
              .shape(shapes::unstack));
}

void register_slices(OpRegistry& ops) {
  ops.add(
      unary("Slice").attr("begin", AttrType::integers).attr("size", AttrType::integers).shape(shapes::slice));
  ops.add(Op("SliceGrad")
              .input("dy", "T")
              .input("x", "T")
              .output("dx", "T")
              .type("T")
              .attr("begin", AttrType::integers)
              .shape(shapes::slice_grad));
  ops.add(unary("Pad")
              .attr("before", AttrType::integers)
              .attr("after", AttrType::integers)
              .attr("value", 0.0)
              .shape(shapes::pad));
  ops.add(unary("Tile").attr("multiples", AttrType::integers).shape(shapes::tile));
  ops.add(Op("TileGrad")
              .input("dy", "T")
              .input("x", "T")
              .output("dx", "T")
              .type("T", kRealTypes)
              .attr("multiples", AttrType::integers)
              .shape(shapes::tile_grad));
}

void register_rows(OpRegistry& ops) {
  ops.add(Op("Gather")
              .input("table", "T")
              .input("indices", "Tindices")
              .output("rows", "T")
              .type("T")
              .type("Tindices", kIndexTypes)
              .shape(shapes::gather));
  ops.add(Op("ScatterAddRows")
              .input("indices", DType::i64)
              .input("values", "T")
              .input("like", "T")
              .output("y", "T")
              .type("T", kRealTypes)
              .shape(shapes::scatter_add_rows));
}

void register_makers(OpRegistry& ops) {
  ops.add(Op("OneHot")
              .input("indices", "Tindices")
              .output("y", "T")
              .type("T", {}, DType::f32)
              .type("Tindices", kIndexTypes)
              .attr("depth", AttrType::integer)
              .attr("on", 1.0)
              .attr("off", 0.0)
              .shape(shapes::one_hot)
              .no_gradient());
  ops.add(Op("Fill")
              .input("dims", DType::i64)
              .input("value", "T")
              .output("y", "T")
              .type("T")
              .shape(shapes::fill));
  ops.add(Op("Range")
              .input("start", "T")
              .input("limit", "T")
              .input("delta", "T")
              .output("y", "T")
              .type("T", {DType::f32, DType::f64, DType::i32, DType::i64})
              .shape(shapes::range)
              .no_gradient());
}

}  // namespace

void register_array_ops(OpRegistry& ops) {
  register_views(ops);
  register_joins(ops);
  register_slices(ops);
  register_rows(ops);
  register_makers(ops);
}

}  // namespace troupe
