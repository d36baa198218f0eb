// Dtypes as Python sees them: objects of class DType, with NumPy's names.
#pragma once

#include <nanobind/nanobind.h>

#include <optional>
#include <string_view>

#include <troupe/messages/dtype.hpp>

namespace troupe::python {

// "float32", "bool": as NumPy writes it.
std::string_view long_name(DType dtype);
// Of "float32" or "f32".
std::optional<DType> dtype_of_name(std::string_view text);
// Of a DType, a name ("float32", "f32"), a type or dtype of NumPy, or float, int, bool and str of Python: f32, i64,
// bool and strings. Throws invalid_argument for anything else.
DType dtype_from(nanobind::handle value);
nanobind::object dtype_object(DType dtype);

}  // namespace troupe::python
