#include "apps/python/indexed_slices.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "apps/python/dtypes.hpp"
#include "apps/python/operands.hpp"
#include "apps/python/tensors.hpp"
#include <troupe/graph/builder/array.hpp>
#include <troupe/graph/builder/index.hpp>
#include <troupe/graph/builder/math.hpp>

namespace troupe::python {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

PyTypeObject* slices_type = nullptr;  // lives as long as Python

PyIndexedSlices make_slices(nb::handle values, nb::handle indices, nb::handle dense_shape) {
  const std::array given{values, indices};
  const CallGraph of = CallGraph::of(given);
  const auto tensor = [&](const Output& x) { return tensor_of(to_python(of, x)); };
  PyIndexedSlices out{tensor(operand(of, values)), tensor(operand(of, indices, DType::i64)), {}};
  const Shape &rows = out.values.output().shape(), &numbers = out.indices.output().shape();
  if (rows.has_rank() && numbers.has_rank() &&
      (rows.rank() == 0 || numbers.rank() != 1 || !numbers.compatible_with(Shape{rows.dim(0)})))
    invalid_argument("IndexedSlices: values {} and indices {} are not rows and their numbers", rows.to_string(),
                     numbers.to_string());
  if (dense_shape.is_none()) return out;
  out.shape = shape_of_dims(nb::cast<Dims>(dense_shape));
  if (rows.has_rank() && (out.shape->rank() != rows.rank() || !out.shape->without(0).compatible_with(rows.without(0))))
    invalid_argument("IndexedSlices: values {} are no rows of a tensor {}", rows.to_string(), out.shape->to_string());
  return out;
}

}  // namespace

bool is_indexed_slices(nb::handle value) { return Py_TYPE(value.ptr()) == slices_type; }

const PyIndexedSlices& indexed_slices_of(nb::handle value) {
  return *static_cast<const PyIndexedSlices*>(nb::inst_ptr<PyIndexedSlices>(value));
}

Output dense_of(const PyIndexedSlices& slices) {
  if (!slices.shape || !slices.shape->fully_known())
    fail(Code::failed_precondition, "IndexedSlices: the shape of the whole tensor is not known: give dense_shape");
  const Output& values = slices.values.output();
  Graph& graph = *values.graph;
  const Output dims = constant(graph, Tensor::of<std::int64_t>(Shape{slices.shape->rank()}, slices.shape->dims()));
  return scatter_add_rows(slices.indices.output(), values, fill(dims, scalar_like(values, 0)));
}

void bind_indexed_slices(nb::module_& m) {
  auto slices = nb::class_<PyIndexedSlices>(m, "IndexedSlices");
  slices_type = reinterpret_cast<PyTypeObject*>(slices.ptr());
  slices
      .def(
          "__init__",
          [](PyIndexedSlices* self, nb::handle values, nb::handle indices, nb::handle dense_shape) {
            new (self) PyIndexedSlices(make_slices(values, indices, dense_shape));
          },
          "values"_a, "indices"_a, "dense_shape"_a.none() = nb::none())
      .def_prop_ro("values", [](const PyIndexedSlices& s) { return to_python(s.values); })
      .def_prop_ro("indices", [](const PyIndexedSlices& s) { return to_python(s.indices); })
      .def_prop_ro("dense_shape",
                   [](const PyIndexedSlices& s) -> nb::object {
                     return s.shape ? nb::object(shape_tuple(*s.shape)) : nb::none();
                   })
      .def_prop_ro("dtype", [](const PyIndexedSlices& s) { return dtype_object(s.values.output().dtype()); })
      .def("to_tensor", [](const PyIndexedSlices& s) {
        std::optional<ReleasedForOp> released;
        if (s.values.output().eager) released.emplace();
        Output dense = dense_of(s);
        released.reset();
        return to_python({s.values.graph, std::move(dense)});
      });
}

}  // namespace troupe::python
