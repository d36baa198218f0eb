// Arrays: shapes, slices, joins, rows.
#include <troupe/graph/ops/array_shapes.hpp>
#include <troupe/graph/ops/families.hpp>
#include <troupe/graph/ops/gradients.hpp>
#include <troupe/graph/ops/values.hpp>

namespace troupe {
namespace {

void reshape_gradient(GradientContext& c) { c.set(0, reshape_like(c.grad(), c.input(0))); }

void transpose_gradient(GradientContext& c) {
  const Integers& perm = c.attributes().integers("perm");
  Integers inverse(perm.size());
  for (std::size_t i = 0; i < perm.size(); ++i)
    inverse[static_cast<std::size_t>(perm[i])] = static_cast<std::int64_t>(i);
  c.set(0, transpose(c.grad(), inverse));
}

void concat_gradient(GradientContext& c) {
  const std::int64_t axis = c.attributes().integer("axis");
  Integers sizes;
  for (int i = 0; i < c.num_inputs(); ++i) {
    const Shape& x = c.input(i).shape();
    if (!x.has_rank() || x[static_cast<int>(axis)] == kUnknown)
      fail(Code::unimplemented, "the size of input {} along axis {} must be known: its shape is {}", i, axis,
           x.to_string());
    sizes.push_back(x[static_cast<int>(axis)]);
  }
  const Outputs parts = split_sizes(c.grad(), axis, sizes);
  for (int i = 0; i < c.num_inputs(); ++i) c.set(i, parts[static_cast<std::size_t>(i)]);
}

Outputs all_gradients(GradientContext& c) {
  Outputs out;
  for (int i = 0; i < c.num_outputs(); ++i) out.push_back(c.grad(i));
  return out;
}
void split_gradient(GradientContext& c) { c.set(0, concat(all_gradients(c), c.attributes().integer("axis"))); }
void unstack_gradient(GradientContext& c) { c.set(0, stack(all_gradients(c), c.attributes().integer("axis"))); }
void stack_gradient(GradientContext& c) {
  const Outputs parts = add_outputs("Unstack", {c.grad()},
                                    {{"axis", c.attributes().integer("axis")}, {"N", std::int64_t{c.num_inputs()}}});
  for (int i = 0; i < c.num_inputs(); ++i) c.set(i, parts[static_cast<std::size_t>(i)]);
}

void slice_gradient(GradientContext& c) {
  c.set(0, add_op("SliceGrad", {c.grad(), c.input(0)}, {{"begin", c.attributes().integers("begin")}}));
}
// dy's size is unknown only where a slice extends to the end.
void slice_grad_gradient(GradientContext& c) {
  const Integers& begin = c.attributes().integers("begin");
  const Shape& dy = c.input(0).shape();
  Integers size(begin.size(), -1);
  if (dy.has_rank()) size.assign(dy.dims().begin(), dy.dims().end());
  c.set(0, slice(c.grad(), begin, size));
}
void pad_gradient(GradientContext& c) {
  const Integers& after = c.attributes().integers("after");
  const Shape& x = c.input(0).shape();
  Integers size(after.size(), -1);
  for (std::size_t i = 0; i < after.size(); ++i) {
    const std::int64_t known = x.has_rank() ? x[static_cast<int>(i)] : kUnknown;
    if (known == kUnknown && after[i] != 0)
      fail(Code::unimplemented, "dimension {} is padded at its end, so its size must be known: {}", i, x.to_string());
    size[i] = known;
  }
  c.set(0, slice(c.grad(), c.attributes().integers("before"), size));
}

void tile_gradient(GradientContext& c) {
  c.set(0, add_op("TileGrad", {c.grad(), c.input(0)}, {{"multiples", c.attributes().integers("multiples")}}));
}
void tile_grad_gradient(GradientContext& c) { c.set(0, tile(c.grad(), c.attributes().integers("multiples"))); }

// Sparse: a list of the gathered rows.
void gather_gradient(GradientContext& c) {
  const Output table = c.input(0);
  const Output g = c.grad();
  const Output indices = reshape(cast(c.input(1), DType::i64), Shape{kUnknown});
  const Shape row = table.shape().has_rank() ? table.shape().without(0) : Shape::unknown_rank();
  if (row.fully_known() && row.has_rank() && row.num_elements() != 0) {
    c.set_sparse(0, indices, reshape(g, Shape{kUnknown}.concatenated(row)));
    return;
  }
  const Output row_shape = slice(shape_of(table), {1}, {-1});
  const Output shape = concat({reshape(element_count(indices), Shape{1}), row_shape}, 0);
  c.set_sparse(0, indices, reshape(g, shape));
}
void scatter_add_rows_gradient(GradientContext& c) { c.set(1, gather(c.grad(), c.input(0))); }
void fill_gradient(GradientContext& c) { c.set(1, sum(c.grad())); }

Op array_op(std::string name, std::vector<DType> types = {}) {
  return Op(std::move(name)).input("x", "T").output("y", "T").type("T", std::move(types));
}

void register_views(OpRegistry& ops) {
  ops.add(Op("Reshape")
              .input("x", "T")
              .input("shape", DType::i64)
              .output("y", "T")
              .type("T")
              .shape(shapes::reshape)
              .value(values::same)
              .gradient(reshape_gradient)
              .precision(PrecisionClass::follower));
  ops.add(Op("ReshapeLike")
              .input("x", "T")
              .input_shape("like", "T2")
              .output("y", "T")
              .type("T")
              .type("T2")
              .shape(shapes::reshape_like)
              .gradient(reshape_gradient)
              .precision(PrecisionClass::follower));
  ops.add(array_op("Squeeze")
              .attr("axes", Integers{})
              .shape(shapes::squeeze)
              .value(values::same)
              .gradient(reshape_gradient)
              .precision(PrecisionClass::follower));
  ops.add(array_op("ExpandDims")
              .attr("axis", AttrType::integer)
              .shape(shapes::expand_dims)
              .value(values::same)
              .gradient(reshape_gradient)
              .precision(PrecisionClass::follower));
  ops.add(array_op("Transpose")
              .attr("perm", Integers{})
              .shape(shapes::transpose)
              .gradient(transpose_gradient)
              .precision(PrecisionClass::follower));
}

void register_joins(OpRegistry& ops) {
  ops.add(Op("Concat")
              .input_list("xs", "T", "N")
              .output("y", "T")
              .type("T")
              .attr("axis", AttrType::integer)
              .shape(shapes::concat)
              .value(values::concat)
              .gradient(concat_gradient));
  ops.add(Op("Stack")
              .input_list("xs", "T", "N")
              .output("y", "T")
              .type("T")
              .attr("axis", AttrType::integer)
              .shape(shapes::stack)
              .value(values::stack)
              .gradient(stack_gradient));
  ops.add(Op("Split")
              .input("x", "T")
              .output_list("parts", "T", "N")
              .type("T")
              .attr("axis", AttrType::integer)
              .shape(shapes::split)
              .gradient(split_gradient));
  ops.add(Op("SplitSizes")
              .input("x", "T")
              .output_list("parts", "T", "N")
              .type("T")
              .attr("axis", AttrType::integer)
              .attr("sizes", AttrType::integers)
              .shape(shapes::split_sizes)
              .gradient(split_gradient));
  ops.add(Op("Unstack")
              .input("x", "T")
              .output_list("parts", "T", "N")
              .type("T")
              .attr("axis", AttrType::integer)
              .shape(shapes::unstack)
              .gradient(unstack_gradient));
}

void register_slices(OpRegistry& ops) {
  ops.add(array_op("Slice")
              .attr("begin", AttrType::integers)
              .attr("size", AttrType::integers)
              .shape(shapes::slice)
              .value(values::slice)
              .gradient(slice_gradient));
  ops.add(Op("SliceGrad")
              .input("dy", "T")
              .input("x", "T")
              .output("dx", "T")
              .type("T")
              .attr("begin", AttrType::integers)
              .shape(shapes::slice_grad)
              .gradient(slice_grad_gradient));
  ops.add(array_op("Pad", kDataTypes)
              .attr("before", AttrType::integers)
              .attr("after", AttrType::integers)
              .attr("value", 0.0)
              .shape(shapes::pad)
              .gradient(pad_gradient));
  ops.add(array_op("Tile").attr("multiples", AttrType::integers).shape(shapes::tile).gradient(tile_gradient));
  ops.add(Op("TileGrad")
              .input("dy", "T")
              .input("x", "T")
              .output("dx", "T")
              .type("T", kRealTypes)
              .attr("multiples", AttrType::integers)
              .shape(shapes::tile_grad)
              .gradient(tile_grad_gradient));
}

void register_rows(OpRegistry& ops) {
  ops.add(Op("Gather")
              .input("table", "T")
              .input("indices", "Tindices")
              .output("rows", "T")
              .type("T")
              .type("Tindices", kIndexTypes)
              .shape(shapes::gather)
              .value(values::gather)
              .gradient(gather_gradient));
  ops.add(Op("ScatterAddRows")
              .input("indices", DType::i64)
              .input("values", "T")
              .input("like", "T")
              .output("y", "T")
              .type("T", kRealTypes)
              .shape(shapes::scatter_add_rows)
              .gradient(scatter_add_rows_gradient));
}

void register_makers(OpRegistry& ops) {
  ops.add(Op("OneHot")
              .input("indices", "Tindices")
              .output("y", "T")
              .type("T", kDataTypes, DType::f32)
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
              .shape(shapes::fill)
              .value(values::stretch)
              .gradient(fill_gradient));
  ops.add(Op("Range")
              .input("start", "T")
              .input("limit", "T")
              .input("delta", "T")
              .output("y", "T")
              .type("T", {DType::f32, DType::f64, DType::i32, DType::i64})
              .shape(shapes::range)
              .value(values::range)
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
