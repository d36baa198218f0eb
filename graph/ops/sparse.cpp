// Sparse tensors (graph/builder/sparse.hpp): coordinates [n,rank], values [n] and the shape of the whole [rank]. Ops
// that only move elements compute coordinates, and places of values for Gather, whose gradient is theirs.
#include <algorithm>

#include <troupe/graph/builder/sparse.hpp>
#include <troupe/graph/known_values.hpp>
#include <troupe/graph/ops/families.hpp>
#include <troupe/graph/ops/gradients.hpp>
#include <troupe/graph/ops/shapes.hpp>

namespace troupe {
namespace {

// ---- Shapes

// The shape of the whole in input `dims`, of as many dimensions as the coordinates in input `places` have.
Shape whole_shape(const ShapeContext& c, int places, int dims) {
  const Shape at = shapes::with_rank(c.input(places), 2, "indices");
  Shape whole = shapes::known_dims(c, dims, "dense_shape");
  if (at[1] == kUnknown) return whole;
  if (at[1] > kMaxRank) invalid_argument("indices of {} dimensions: there are at most {}", at[1], kMaxRank);
  return shapes::merge(whole, "dense_shape", Shape::unknown(static_cast<int>(at[1])), "a row of indices");
}

std::int64_t element_count_of(const ShapeContext& c, int places, int values) {
  const Shape at = shapes::with_rank(c.input(places), 2, "indices"),
              given = shapes::with_rank(c.input(values), 1, "values");
  return shapes::merge_dim(at[0], given[0], "the numbers of rows of indices and of values");
}

void sparse_to_dense_shape(ShapeContext& c) {
  element_count_of(c, 0, 1);
  shapes::with_rank(c.input(3), 0, "default_value");
  c.set_output(0, whole_shape(c, 0, 2));
}

void sparse_places_shape(ShapeContext& c) {
  const Shape whole = whole_shape(c, 0, 1), like = shapes::known_dims(c, 2, "like");
  if (whole.has_rank() && like.has_rank()) {
    if (like.rank() > whole.rank())
      invalid_argument("a dense tensor {} has more dimensions than the sparse one, {}", like.to_string(),
                       whole.to_string());
    for (int d = 1; d <= like.rank(); ++d)
      if (like[-d] != 1) shapes::merge_dim(like[-d], whole[-d], "a dimension of the dense and of the sparse tensor");
  }
  c.set_output(0, Shape{c.input(0).has_rank() ? c.input(0)[0] : kUnknown});
}

void sparse_matmul_shape(ShapeContext& c) {
  element_count_of(c, 0, 1);
  const Shape a = shapes::merge(whole_shape(c, 0, 2), "the sparse tensor", Shape::unknown(2), "a matrix"),
              b = shapes::with_rank(c.input(3), 2, "b");
  const int of_a = c.attributes().boolean("adjoint_a") ? 1 : 0, of_b = c.attributes().boolean("adjoint_b") ? 1 : 0;
  shapes::merge_dim(a[1 - of_a], b[of_b], "the inner dimensions of the product");
  c.set_output(0, Shape{a[of_a], b[1 - of_b]});
}

void sampled_shape(ShapeContext& c) {
  const Shape at = shapes::with_rank(c.input(0), 2, "indices"), x = shapes::with_rank(c.input(1), 2, "x"),
              y = shapes::with_rank(c.input(2), 2, "y");
  shapes::merge_dim(at[1], 2, "the columns of indices and 2");
  shapes::merge_dim(x[1], y[1], "the numbers of columns of x and y");
  c.set_output(0, Shape{at[0]});
}

void sparse_union_shape(ShapeContext& c) {
  const Shape whole = whole_shape(c, 0, 2);
  const Shape merged = shapes::merge(whole, "the first tensor", whole_shape(c, 1, 2), "the second");
  c.set_output(0, Shape{kUnknown, merged.has_rank() ? merged.rank() : kUnknown});
  c.set_output(1, Shape{kUnknown});
  c.set_output(2, Shape{kUnknown});
}

void sparse_groups_shape(ShapeContext& c) {
  const Shape whole = whole_shape(c, 0, 1);
  const auto& axes = c.attributes().integers("axes");
  if (whole.has_rank()) shapes::axes(axes, whole.rank());
  const std::int64_t n = shapes::with_rank(c.input(0), 2, "indices")[0];
  c.set_output(0, Shape{kUnknown, std::ssize(axes)});
  c.set_output(1, Shape{n});
  c.set_output(2, Shape{n});
}

void sparse_reshape_shape(ShapeContext& c) {
  whole_shape(c, 0, 1);
  const Shape count = shapes::with_rank(c.input(2), 1, "shape");
  if (count[0] > kMaxRank) invalid_argument("a shape has at most {} dimensions, not {}", kMaxRank, count[0]);
  c.set_output(0, count);
  c.set_output(1, Shape{c.input(0).has_rank() ? c.input(0)[0] : kUnknown, count[0]});
}

// The new shape, with what -1 stands for where all else is known.
std::optional<KnownIntegers> sparse_reshape_value(ValueContext& c) {
  const KnownIntegers *from = c.input(1), *to = c.input(2);
  if (!to || to->scalar) return std::nullopt;
  KnownIntegers out = *to;
  std::int64_t others = 1;
  std::optional<std::int64_t>* open = nullptr;
  for (auto& dim : out.values) {
    if (!dim || *dim >= 0) {
      others = dim && !__builtin_mul_overflow(others, *dim, &others) ? others : 0;
      continue;
    }
    if (open) return std::nullopt;
    open = &dim;
  }
  if (!open) return out;
  std::int64_t all = 1;
  bool known = from && from->complete() && others > 0;
  if (known)
    for (const std::int64_t dim : from->integers()) known = known && !__builtin_mul_overflow(all, dim, &all);
  *open = known && all % others == 0 ? std::optional(all / others) : std::nullopt;
  return out;
}

// ---- Gradients

void sparse_to_dense_gradient(GradientContext& c) {
  const Output g = c.grad();
  const Output places = add_op("SparsePlaces", {c.input(0), c.input(2), c.input(2)});
  const Output values = gather(reshape(g, Shape{kUnknown}), places);
  c.set(1, values);
  if (!c.needs(3)) return;
  const Output all = sum(g);
  c.set(3, all - sum(values));
}

Output product_of(Output indices, Output values, Output shape, Output b, bool adjoint) {
  return add_op("SparseDenseMatMul", {std::move(indices), std::move(values), std::move(shape), std::move(b)},
                {{"adjoint_a", adjoint}, {"adjoint_b", false}});
}

void sparse_matmul_gradient(GradientContext& c) {
  const bool adjoint_a = c.attributes().boolean("adjoint_a"), adjoint_b = c.attributes().boolean("adjoint_b");
  const Output g = c.grad();
  if (c.needs(1)) {
    const Output rows = adjoint_b ? transpose(c.input(3)) : c.input(3);
    c.set(1, add_op("SampledMatMul", {c.input(0), adjoint_a ? rows : g, adjoint_a ? g : rows}));
  }
  if (!c.needs(3)) return;
  const Output db = product_of(c.input(0), c.input(1), c.input(2), g, !adjoint_a);
  c.set(3, adjoint_b ? transpose(db) : db);
}

void sampled_gradient(GradientContext& c) {
  const Output x = c.input(1), y = c.input(2), g = c.grad();
  const Output rows = slice(shape_of(x), {0}, {1});
  const Output columns = slice(shape_of(y), {0}, {1});
  const Output shape = concat({rows, columns}, 0);
  if (c.needs(1)) c.set(1, product_of(c.input(0), g, shape, y, false));
  if (c.needs(2)) c.set(2, product_of(c.input(0), g, shape, x, true));
}

}  // namespace

void register_sparse_ops(OpRegistry& ops) {
  // The whole tensor. If `validate`, elements must be in row-major order, each once; else the last of several counts.
  ops.add(Op("SparseToDense")
              .input("indices", DType::i64)
              .input("values", "T")
              .input("dense_shape", DType::i64)
              .input("default_value", "T")
              .output("dense", "T")
              .type("T")
              .attr("validate", true)
              .shape(sparse_to_dense_shape)
              .gradient(sparse_to_dense_gradient));
  // The places of elements in a dense tensor of shape `like`, which is broadcast, as a vector.
  ops.add(Op("SparsePlaces")
              .input("indices", DType::i64)
              .input("dense_shape", DType::i64)
              .input("like", DType::i64)
              .output("places", DType::i64)
              .shape(sparse_places_shape)
              .no_gradient());
  ops.add(Op("SparseDenseMatMul")
              .input("indices", DType::i64)
              .input("values", "T")
              .input("dense_shape", DType::i64)
              .input("b", "T")
              .output("product", "T")
              .type("T", {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32, DType::i64})
              .attr("adjoint_a", false)
              .attr("adjoint_b", false)
              .shape(sparse_matmul_shape)
              .gradient(sparse_matmul_gradient));
  // The elements of x y^T at these coordinates.
  ops.add(Op("SampledMatMul")
              .input("indices", DType::i64)
              .input("x", "T")
              .input("y", "T")
              .output("values", "T")
              .type("T", kFloatTypes)
              .shape(sampled_shape)
              .gradient(sampled_gradient));
  // The coordinates of elements that one of two tensors of the same shape has, and their places in each: -1 if it has
  // none there.
  ops.add(Op("SparseUnion")
              .input("a_indices", DType::i64)
              .input("b_indices", DType::i64)
              .input("dense_shape", DType::i64)
              .output("indices", DType::i64)
              .output("a_places", DType::i64)
              .output("b_places", DType::i64)
              .shape(sparse_union_shape)
              .no_gradient());
  // Elements with the same coordinates along `axes` are a group: coordinates of groups in row-major order, the group of
  // each element, and elements in the order of their groups, those of a group in their own.
  ops.add(Op("SparseGroups")
              .input("indices", DType::i64)
              .input("dense_shape", DType::i64)
              .output("groups", DType::i64)
              .output("ids", DType::i64)
              .output("order", DType::i64)
              .attr("axes", AttrType::integers)
              .shape(sparse_groups_shape)
              .no_gradient());
  // The same elements in the same order in a tensor of another shape, one dimension of which may be -1.
  ops.add(Op("SparseReshape")
              .input("indices", DType::i64)
              .input("dense_shape", DType::i64)
              .input("shape", DType::i64)
              .output("new_shape", DType::i64)
              .output("new_indices", DType::i64)
              .shape(sparse_reshape_shape)
              .value(sparse_reshape_value)
              .no_gradient());
}

}  // namespace troupe
