// Builder API for sparse tensors: the coordinates of the elements that are there, their values, and the shape of the
// whole. The others are zeros. Memory, bytes on the wire and time follow the number of elements that are there.
//
//   SparseTensor x = sparse_placeholder(graph, DType::f32, {kUnknown, 784});
//   Output y = 2 * x.values;
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
// A value to be fed. Dimensions of the dense shape may be unknown. Nodes "name/indices", "name/values" and "name/shape";
// a name that is taken is made unique.
SparseTensor sparse_placeholder(Graph& graph, DType dtype, const Shape& dense_shape, Name name = "sparse");

// Adds what a step is fed for `x` to its feeds. Throws invalid_argument if the value is of another dtype or shape.
void feed(std::vector<std::pair<Output, Tensor>>& feeds, const SparseTensor& x, const SparseTensorValue& value);
// What a step fetches for `x`, and the value that it gives.
Outputs parts_of(const SparseTensor& x);
SparseTensorValue sparse_value(std::span<const Tensor> parts);

}  // namespace troupe
