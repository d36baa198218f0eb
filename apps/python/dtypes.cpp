#include "apps/python/dtypes.hpp"

#include <nanobind/stl/string.h>

#include <array>
#include <optional>
#include <string>
#include <utility>

#include "apps/python/bindings.hpp"
#include "apps/python/tensors.hpp"
#include <troupe/messages/error.hpp>

namespace troupe::python {
namespace {

namespace nb = nanobind;

struct PyDType {
  DType dtype;
};

constexpr std::pair<DType, std::string_view> kLongNames[] = {
    {DType::f32, "float32"},  {DType::f64, "float64"},  {DType::f16, "float16"}, {DType::bf16, "bfloat16"},
    {DType::i8, "int8"},      {DType::u8, "uint8"},     {DType::i16, "int16"},   {DType::i32, "int32"},
    {DType::i64, "int64"},    {DType::u16, "uint16"},   {DType::u32, "uint32"},  {DType::u64, "uint64"},
    {DType::boolean, "bool"}, {DType::string, "string"}};

// By number; they live as long as Python.
std::array<PyObject*, 17> objects{};

std::optional<DType> found_in(nb::handle value) {
  if (nb::isinstance<PyDType>(value)) return nb::cast<const PyDType&>(value).dtype;
  if (PyUnicode_Check(value.ptr())) return dtype_of_name(nb::cast<std::string>(value));
  const auto is = [&](auto& type) { return value.ptr() == reinterpret_cast<PyObject*>(&type); };
  if (is(PyFloat_Type)) return DType::f32;
  if (is(PyLong_Type)) return DType::i64;
  if (is(PyBool_Type)) return DType::boolean;
  if (is(PyUnicode_Type) || is(PyBytes_Type)) return DType::string;
  // A dtype of NumPy has a name; its types are names of dtypes.
  const nb::object text = nb::getattr(value, PyType_Check(value.ptr()) ? "__name__" : "name", nb::none());
  if (!PyUnicode_Check(text.ptr())) return std::nullopt;
  return dtype_of_name(nb::cast<std::string>(text));
}

}  // namespace

std::string_view long_name(DType dtype) {
  for (const auto& [known, text] : kLongNames)
    if (known == dtype) return text;
  return name(dtype);
}

std::optional<DType> dtype_of_name(std::string_view text) {
  for (const auto& [dtype, name] : kLongNames)
    if (name == text) return dtype;
  if (text == "str" || text == "object") return DType::string;
  const auto found = parse_dtype(text);
  return found && is_data(*found) ? found : std::nullopt;
}

DType dtype_from(nb::handle value) {
  if (const auto found = found_in(value)) return *found;
  invalid_argument("{} is no dtype: use troupe.float32, 'float32', numpy.float32 or the like", nb::repr(value).c_str());
}

nb::object dtype_object(DType dtype) { return nb::borrow(objects.at(static_cast<std::size_t>(dtype))); }

void bind_dtypes(nb::module_& m) {
  nb::class_<PyDType>(m, "DType", "The type of a tensor's elements.")
      .def_prop_ro(
          "name", [](const PyDType& d) { return std::string(long_name(d.dtype)); }, "As NumPy writes it: \"float32\".")
      .def_prop_ro(
          "itemsize", [](const PyDType& d) { return size_of(d.dtype); }, "Bytes of one element.")
      .def_prop_ro("is_floating", [](const PyDType& d) { return is_floating(d.dtype); })
      .def_prop_ro("is_integer", [](const PyDType& d) { return is_integer(d.dtype); })
      .def("__str__", [](const PyDType& d) { return std::string(long_name(d.dtype)); })
      .def("__repr__", [](const PyDType& d) { return "troupe." + std::string(long_name(d.dtype)); })
      .def("__hash__", [](const PyDType& d) { return static_cast<std::size_t>(d.dtype); })
      .def(
          "__eq__",
          [](const PyDType& d, nb::handle other) {
            const auto found = found_in(other);
            return found && *found == d.dtype;
          },
          nb::arg().none())
      .def("__reduce__", [](const PyDType& d) {
        return nb::make_tuple(nb::module_::import_("troupe").attr("as_dtype"),
                              nb::make_tuple(std::string(long_name(d.dtype))));
      });
  for (int i = 1; i < static_cast<int>(objects.size()); ++i) {
    const auto dtype = static_cast<DType>(i);
    nb::object made = nb::cast(PyDType{dtype});
    if (is_data(dtype)) m.attr(std::string(long_name(dtype)).c_str()) = made;
    objects.at(static_cast<std::size_t>(i)) = made.release().ptr();
  }
  m.def(
      "as_dtype", [](nb::handle value) { return dtype_object(dtype_from(value)); }, nb::arg("dtype"));
}

}  // namespace troupe::python
