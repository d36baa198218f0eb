// The gradient of one tensor.
#pragma once

#include <troupe/graph/graph.hpp>

namespace troupe {

// Dense: `dense` is valid. Sparse (of Gather's table): `values` holds rows of the gradient, `indices` (i64 [n]) their
// row numbers; repeated rows are summed. Neither: no gradient flows.
struct Gradient {
  Output dense{};
  Output indices{};
  Output values{};
  bool is_dense() const { return dense.valid(); }
  bool is_sparse() const { return values.valid(); }
  explicit operator bool() const { return is_dense() || is_sparse(); }
};

}  // namespace troupe
