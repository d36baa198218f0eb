// Gradients of rows of a table as Python has them: class IndexedSlices.
#pragma once

#include <nanobind/nanobind.h>

#include <optional>

#include "apps/python/bindings.hpp"
#include <troupe/graph/gradient.hpp>

namespace troupe::python {

// Rows of a tensor whose others are zeros; repeated rows are summed.
struct PyIndexedSlices {
  PyTensor values, indices;      // [n, ...], [n] of i64
  std::optional<Shape> shape{};  // of the whole tensor, if it is known
  Gradient gradient() const { return {.indices = indices.output(), .values = values.output()}; }
};

bool is_indexed_slices(nanobind::handle value);
// Of a value that is_indexed_slices().
const PyIndexedSlices& indexed_slices_of(nanobind::handle value);
// The whole tensor. Throws failed_precondition if its shape is not known.
Output dense_of(const PyIndexedSlices& slices);

void bind_indexed_slices(nanobind::module_& m);

}  // namespace troupe::python
