#include "apps/python/arguments.hpp"

namespace troupe::python {

namespace nb = nanobind;

namespace {

std::int64_t integer_of(nb::handle value, const char* function) {
  const nb::object index = nb::steal(PyNumber_Index(value.ptr()));
  if (!index) {
    PyErr_Clear();
    invalid_argument("{}: {} is not an integer", function, nb::repr(value).c_str());
  }
  const long long found = PyLong_AsLongLong(index.ptr());
  if (found == -1 && PyErr_Occurred()) {
    PyErr_Clear();
    invalid_argument("{}: {} is too large", function, nb::repr(value).c_str());
  }
  return found;
}

}  // namespace

std::optional<Integers> integers_of(nb::handle value, const char* function) {
  if (value.is_none()) return std::nullopt;
  if (PyLong_Check(value.ptr())) return Integers{integer_of(value, function)};
  if (is_tensor(value) || is_variable(value)) {
    const Tensor data = data_of(value, DType::i64);
    const auto values = data.values<std::int64_t>();
    return Integers(values.begin(), values.end());
  }
  if (!PySequence_Check(value.ptr()) || PyUnicode_Check(value.ptr())) return Integers{integer_of(value, function)};
  Integers out;
  for (const nb::handle item : nb::borrow<nb::sequence>(value)) out.push_back(integer_of(item, function));
  return out;
}

Shape shape_from(nb::handle value, const char* function) {
  const auto dims = integers_of(value, function);
  if (!dims) invalid_argument("{}: the shape is None", function);
  return Shape{std::span<const std::int64_t>(*dims)};
}

std::int64_t axis_of(std::int64_t axis, int rank, const char* function) {
  if (axis < -rank || axis >= rank)
    fail(Code::out_of_range, "{}: axis {} is out of range for a tensor of {} dimensions", function, axis, rank);
  return axis < 0 ? axis + rank : axis;
}

}  // namespace troupe::python
