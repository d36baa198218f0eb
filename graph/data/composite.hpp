// Components that are parts of one value: a sparse or a ragged tensor. Their names say it:
//
//   sparse   x.indices i64 [nnz, rank], x.values [nnz], x.dense_shape i64 [rank], in this order
//   ragged   x.values [n, ...], x.row_splits i64 [rows + 1], in this order
//
// An element of a pipeline may be sparse, of any rank; batches have sparse and ragged components
// (Pipeline::sparse_batch, Pipeline::ragged_batch).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <troupe/graph/data/pipeline.hpp>

namespace troupe::data {

// A component of elements, or the parts of one.
struct Composite {
  enum class Kind { tensor, sparse, ragged };
  Kind kind = Kind::tensor;
  std::string name{};
  std::size_t first = 0;  // where its parts begin in the schema
  std::size_t parts() const { return kind == Kind::sparse ? 3 : kind == Kind::ragged ? 2 : 1; }
};

std::vector<Composite> composites_of(const BatchSchema& schema);
// Throws invalid_argument: the stage takes tensors alone.
[[noreturn]] void refuse_composite(const Composite& composite);

BatchSchema sparse_parts(const std::string& name, DType dtype, std::int64_t rank);

// The components of `rows` elements of a schema together, for Pipeline::sparse_batch() and ragged_batch(). Throws
// invalid_argument for components that have another form.
BatchSchema uneven_schema(const BatchSchema& elements, Uneven uneven, std::int64_t rows);

}  // namespace troupe::data
