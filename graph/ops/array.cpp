// Arrays: shapes, slices, joins, rows.
#include <limits>

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

// The size of x along the axis, a vector of one element.
Output size_along(Output x, std::int64_t axis) {
  const std::int64_t end = axis == -1 ? std::numeric_limits<std::int64_t>::max() : axis + 1;
  return strided_slice(shape_of(x), axis, end);
}

void concat_gradient(GradientContext& c) {
  const std::int64_t axis = c.attributes().integer("axis");
  Integers sizes;
  bool known = true;
  for (int i = 0; i < c.num_inputs(); ++i) {
    const Shape& x = c.input(i).shape();
    sizes.push_back(x.has_rank() ? x[static_cast<int>(axis)] : kUnknown);
    known = known && sizes.back() != kUnknown;
  }
  Outputs parts;
  if (known) {
    parts = split_sizes(c.grad(), axis, sizes);
  } else {
    Outputs computed;
    for (int i = 0; i < c.num_inputs(); ++i) computed.push_back(size_along(c.input(i), axis));
    const Output all = concat(computed, 0);
    parts = split_sizes(c.grad(), axis, all);
  }
  for (int i = 0; i < c.num_inputs(); ++i) c.set(i, parts[static_cast<std::size_t>(i)]);
}

void broadcast_to_gradient(GradientContext& c) { c.set(0, sum_to_like(c.grad(), c.input(0))); }

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

// Of `values`, {off, on}: a one-hot tensor for each says where it stands.
void one_hot_gradient(GradientContext& c) {
  const Output dy = c.grad();
  const Output at = one_hot(c.input(0), c.input(1), {.dtype = dy.dtype(), .axis = c.attributes().integer("axis")});
  const Output on = sum(dy * at);
  const Output off = sum(dy * (1.0 - at));
  c.set(2, stack({off, on}, 0));
}
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
              .attr("copy_zeros", false)
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
  using View = std::pair<const char*, ShapeFn>;
  for (const auto& [name, shape] : {View("Squeeze", shapes::squeeze), View("ExpandDims", shapes::expand_dims)})
    ops.add(Op(name)
                .input("x", "T")
                .input("axes", DType::i64)
                .output("y", "T")
                .type("T")
                .shape(shape)
                .value(values::same)
                .gradient(reshape_gradient)
                .precision(PrecisionClass::follower));
  ops.add(array_op("Transpose")
              .attr("perm", Integers{})
              .shape(shapes::transpose)
              .gradient(transpose_gradient)
              .precision(PrecisionClass::follower));
  ops.add(Op("BroadcastTo")
              .input("x", "T")
              .input("shape", DType::i64)
              .output("y", "T")
              .type("T")
              .shape(shapes::broadcast_to)
              .value(values::broadcast_to)
              .gradient(broadcast_to_gradient));
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
              .value(values::split)
              .gradient(split_gradient));
  ops.add(Op("SplitSizes")
              .input("x", "T")
              .input("sizes", DType::i64)
              .output_list("parts", "T", "N")
              .type("T")
              .attr("axis", AttrType::integer)
              .attr("N", AttrType::integer)
              .shape(shapes::split_sizes)
              .value(values::split)
              .gradient(split_gradient));
  ops.add(Op("Unstack")
              .input("x", "T")
              .output_list("parts", "T", "N")
              .type("T")
              .attr("axis", AttrType::integer)
              .shape(shapes::unstack)
              .value(values::split)
              .gradient(unstack_gradient));
}

// y_i = start + i delta.
void range_gradient(GradientContext& c) {
  const Output g = c.grad();
  if (c.needs(0)) c.set(0, sum(g));
  if (!c.needs(2)) return;
  const Output numbers = cast(range(element_count(g)), g.dtype());
  c.set(2, sum(g * numbers));
}

void register_makers(OpRegistry& ops) {
  ops.add(Op("OneHot")
              .input("indices", "Tindices")
              .input("depth", DType::i64)
              .input("values", "T")  // off, on
              .output("y", "T")
              .type("T", kDataTypes)
              .type("Tindices", kIndexTypes)
              .attr("axis", std::int64_t{-1})
              .shape(shapes::one_hot)
              .gradient(one_hot_gradient));
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
              .type("T", kRealTypes)
              .shape(shapes::range)
              .value(values::range)
              .gradient(range_gradient));
}

}  // namespace

void register_array_ops(OpRegistry& ops) {
  register_views(ops);
  register_joins(ops);
  register_makers(ops);
}

}  // namespace troupe
