// Functions of sparse tensors, each given and returned as its three parts. The package has their public forms, with
// defaults and documentation.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "apps/python/arguments.hpp"
#include "apps/python/dtypes.hpp"
#include "apps/python/tensors.hpp"
#include <troupe/graph/builder/sparse.hpp>

namespace troupe::python {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

// Of what Python has: arrays of indices are of any integers.
nb::object py_sparse_tensor(nb::handle indices, nb::handle values, nb::handle dense_shape) {
  const nb::handle all[] = {indices, values, dense_shape};
  const CallGraph of = CallGraph::of(all);
  Outputs parts{operand(of, indices, DType::i64)};
  parts.push_back(operand(of, values));
  parts.push_back(operand(of, dense_shape, DType::i64));
  return to_python(of, parts_of(sparse_tensor(parts[0], parts[1], parts[2])));
}

SparseTensor sparse_of(const Outputs& parts, std::size_t first = 0) {
  return {.indices = parts[first], .values = parts[first + 1], .dense_shape = parts[first + 2]};
}

}  // namespace

void bind_sparse_functions(nb::module_& m) {
  m.def("sparse_tensor", &py_sparse_tensor, "indices"_a, "values"_a, "dense_shape"_a);
  m.def(
      "sparse_shape",
      [](const PyTensor& indices, const PyTensor& values, const PyTensor& dense_shape) {
        return shape_tuple(sparse_of({indices.output(), values.output(), dense_shape.output()}).shape());
      },
      "indices"_a, "values"_a, "dense_shape"_a);
  m.def(
      "sparse_placeholder",
      [](PyGraph& graph, nb::handle dtype, const Dims& shape, const std::string& name) {
        return to_python({graph.graph.get(), graph.graph},
                         parts_of(sparse_placeholder(*graph.graph, dtype_from(dtype), shape_of_dims(shape), name)));
      },
      "graph"_a, "dtype"_a, "shape"_a.none(), "name"_a);
}

}  // namespace troupe::python
