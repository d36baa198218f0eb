// Builder API for sparse tensors: the coordinates of the elements that are there, their values, and the shape of the
// whole. The others are zeros. Memory, bytes on the wire and time follow the number of elements that are there.
//
//   SparseTensor x = sparse_placeholder(graph, DType::f32, {kUnknown, 784});
//   Output y = sparse_dense_matmul(x, w);
//   Feeds feeds;
//   feed(feeds, x, {.indices = ..., .values = ..., .dense_shape = ...});
//   session.run(feeds, {y});
//
// Steps, control flow, the wire and files see three tensors.
#pragma once

#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <troupe/graph/builder/core.hpp>
#include <troupe/graph/builder/text.hpp>

namespace troupe {

struct SparseTensor {
  Output indices{};      // i64 [n,rank]: in row-major order, each once, where a function does not say otherwise
  Output values{};       // [n]
  Output dense_shape{};  // i64 [rank]

  DType dtype() const { return values.dtype(); }
  Shape shape() const;  // dense_shape as far as it is known
};

// The same with values: what a step is fed, and gives.
struct SparseTensorValue {
  Tensor indices{};
  Tensor values{};
  Tensor dense_shape{};
};
// Throws invalid_argument, beginning with `what`, unless the dtypes and shapes of the three tensors fit together.
void check_sparse(std::string_view what, const SparseTensorValue& value);

// Of its three tensors; indices and dense_shape may be of i32. Throws invalid_argument if they do not fit together.
SparseTensor sparse_tensor(Output indices, Output values, Output dense_shape);
SparseTensor sparse_constant(Graph& graph, const SparseTensorValue& value, Name name = {});
// A value to be fed. Dimensions of the dense shape may be unknown. Nodes "name/indices", "name/values" and
// "name/shape"; a name that is taken is made unique.
SparseTensor sparse_placeholder(Graph& graph, DType dtype, const Shape& dense_shape, Name name = "sparse");

// Adds what a step is fed for `x` to its feeds. Throws invalid_argument if the value is of another dtype or shape.
void feed(std::vector<std::pair<Output, Tensor>>& feeds, const SparseTensor& x, const SparseTensorValue& value);
// What a step fetches for `x`, and the value that it gives.
Outputs parts_of(const SparseTensor& x);
SparseTensorValue sparse_value(std::span<const Tensor> parts);

// Functions below give elements in row-major order, and have gradients for values. Steps fail with invalid_argument,
// naming the element, for coordinates outside of the shape, and where a function needs an order that they do not have.

// ---- To and from dense tensors
struct SparseToDenseOptions {
  Output default_value{};  // a scalar of x's dtype; default: 0, of strings ""
  bool validate = true;    // false: in any order, and the last of several with the same coordinates counts
  Name name{};
};
Output sparse_to_dense(const SparseTensor& x, SparseToDenseOptions options = {});
SparseTensor dense_to_sparse(Output x, Name name = {});  // its elements that are not 0, or ""
// For ids (integers) [...,n]: bool [...,size], true at each id of a row.
Output sparse_to_indicator(const SparseTensor& ids, std::int64_t size, Name name = {});

// ---- Order
// In row-major order, for elements in any; those with the same coordinates keep their own.
SparseTensor sparse_reorder(const SparseTensor& x);
// The same with elements of the same coordinates added up.
SparseTensor sparse_coalesce(const SparseTensor& x);

// ---- Products
struct SparseMatMulOptions {
  bool adjoint_a = false;  // with the transpose of a
  bool adjoint_b = false;
  Name name{};
};
// a [m,k] b [k,n] -> dense [m,n]. Elements of a may be in any order, and repeated ones add up: each element of the
// result is summed in their order, whatever the number of threads.
Output sparse_dense_matmul(const SparseTensor& a, Output b, SparseMatMulOptions options = {});
// The elements of x y^T at `indices` [n,2], for x [m,k] and y [p,k]: [n].
Output sampled_matmul(Output indices, Output x, Output y, Name name = {});

// ---- Elementwise. Tensors of the same shape; elements that only one of them has stand beside zeros.
struct SparseAddOptions {
  double threshold = 0;  // sums of smaller magnitude are left out
};
SparseTensor sparse_add(const SparseTensor& a, const SparseTensor& b, SparseAddOptions options = {});
SparseTensor sparse_maximum(const SparseTensor& a, const SparseTensor& b);
SparseTensor sparse_minimum(const SparseTensor& a, const SparseTensor& b);
// The elements that both have.
SparseTensor sparse_multiply(const SparseTensor& a, const SparseTensor& b);
// Of b, which is broadcast to x's shape, at x's elements: x's zeros stay zeros.
SparseTensor sparse_dense_multiply(const SparseTensor& x, Output b);
SparseTensor sparse_dense_divide(const SparseTensor& x, Output b);
Output sparse_dense_add(const SparseTensor& x, Output b);  // dense; b has x's shape
// exp(x) / sum of exp(x) over the elements of each row [...,:].
SparseTensor sparse_softmax(const SparseTensor& x);

// ---- Reductions over axes, without any over all, of the elements that are there: 0 where there are none.
SparseTensor sparse_reduce_sum_sparse(const SparseTensor& x, const Integers& axes = {}, bool keep_dims = false);
SparseTensor sparse_reduce_max_sparse(const SparseTensor& x, const Integers& axes = {}, bool keep_dims = false);
Output sparse_reduce_sum(const SparseTensor& x, const Integers& axes = {}, bool keep_dims = false);
Output sparse_reduce_max(const SparseTensor& x, const Integers& axes = {}, bool keep_dims = false);

// ---- Shapes
// A box inside x: size[d] elements, or as many as there are, from begin[d] on in each dimension d; size -1: to the end.
SparseTensor sparse_slice(const SparseTensor& x, IntegersArg begin, IntegersArg size);
SparseTensor sparse_concat(const std::vector<SparseTensor>& xs, std::int64_t axis);
// Parts along the axis as equal as can be, the larger ones first.
std::vector<SparseTensor> sparse_split(const SparseTensor& x, std::int64_t axis, std::int64_t parts);
SparseTensor sparse_reshape(const SparseTensor& x, IntegersArg shape);  // one dimension may be -1
SparseTensor sparse_transpose(const SparseTensor& x, Integers perm = {});
SparseTensor sparse_expand_dims(const SparseTensor& x, std::int64_t axis);
// The elements where `keep`, bool [n], is true.
SparseTensor sparse_retain(const SparseTensor& x, Output keep);
// In the shape `shape`, which has all its elements; if it is invalid, in the smallest that has.
SparseTensor sparse_reset_shape(const SparseTensor& x, Output shape = {});
struct FilledRows {
  SparseTensor output{};
  Output empty_row_indicator{};  // bool [rows]
};
// With the element [row,0,...] = default_value, a scalar, in each row (of dimension 0) that has none.
FilledRows sparse_fill_empty_rows(const SparseTensor& x, Output default_value);

// ---- Rows of tables
// Its values by the rows of dimension 0, as embedding_lookup_sparse() takes ids: row_splits [rows + 1].
Ragged sparse_to_ragged(const SparseTensor& x);
// Sums of rows x[indices] with the same ids, which ascend; means; sums over the root of their number.
Output sparse_segment_sum(Output x, Output indices, Output ids, Name name = {});
Output sparse_segment_mean(Output x, Output indices, Output ids, Name name = {});
Output sparse_segment_sqrt_n(Output x, Output indices, Output ids, Name name = {});

}  // namespace troupe
