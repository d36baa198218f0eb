// The classes Tensor and Variable.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "apps/python/dtypes.hpp"
#include "apps/python/operands.hpp"
#include "apps/python/operators.hpp"
#include "apps/python/tensors.hpp"
#include <troupe/actors/eager/function.hpp>
#include <troupe/graph/builder/functions.hpp>
#include <troupe/graph/builder/math.hpp>

namespace troupe::python {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

// They live as long as Python.
PyTypeObject* tensor_type = nullptr;
PyTypeObject* variable_type = nullptr;

const Shape& shape_of_tensor(const PyTensor& t) { return t.output().shape(); }

std::int64_t elements_of(const Shape& shape) {
  if (!shape.fully_known()) fail(Code::failed_precondition, "the shape {} is not fully known", shape.to_string());
  return shape.num_elements();
}

PyVariable make_variable(nb::handle value, bool trainable, const std::string& name, nb::handle dtype) {
  const InitScope init;  // also in a function that is traced
  const CallGraph of{&eager_graph()};
  std::optional<DType> wanted;
  if (!dtype.is_none()) wanted = dtype_from(dtype);
  if (is_tensor(value) && !tensor_of(value).output().eager)
    invalid_argument(
        "Variable: the value is a tensor of a graph, or of a function that is traced; give an array, or a tensor of "
        "eager mode");
  // A variable may write to its memory, which nobody else can see.
  const Output initial = operand(of, value, wanted);
  if (!initial.valid()) invalid_argument("Variable: the value is None");
  VariableOptions options;
  options.name = name.empty() ? "variable" : name;
  options.initial_value = initial;
  options.trainable = trainable;
  return {variable(*of.graph, std::move(options)), trainable};
}

Output assigned(const PyVariable& v, nb::handle value) {
  const Output given = operand({&eager_graph()}, value, v.variable.dtype);
  if (!given.valid()) invalid_argument("variable '{}': the value is None", v.variable.name);
  return given;
}
template <auto method>
void assign(const PyVariable& v, nb::handle value) {
  call_released({&eager_graph()}, {assigned(v, value)}, [&](const Outputs& x) { return (v.variable.*method)(x[0]); });
}

}  // namespace

bool is_tensor(nb::handle value) { return Py_TYPE(value.ptr()) == tensor_type; }
bool is_variable(nb::handle value) { return Py_TYPE(value.ptr()) == variable_type; }
void PyTensor::fail_ended() {
  fail(
      Code::failed_precondition,
      "the tensor belongs to a graph that has ended. It was made in a layer's call(), in the body of a loop or branch, "
      "or while a function was traced: return it from there, and use what comes out");
}

PyTensor& tensor_of(nb::handle value) { return *nb::inst_ptr<PyTensor>(value); }

nb::object to_python(PyTensor tensor) {
  nb::object made = nb::inst_alloc(nb::handle(reinterpret_cast<PyObject*>(tensor_type)));
  new (nb::inst_ptr<PyTensor>(made)) PyTensor(std::move(tensor));
  nb::inst_mark_ready(made);
  return made;
}
nb::object to_python(const CallGraph& of, Output output) { return to_python({of.keep, std::move(output)}); }
nb::object to_python(const CallGraph& of, const Outputs& outputs) {
  nb::object made = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(outputs.size())));
  for (std::size_t i = 0; i < outputs.size(); ++i)
    PyTuple_SET_ITEM(made.ptr(), static_cast<Py_ssize_t>(i), to_python(of, outputs[i]).release().ptr());
  return made;
}

void bind_tensors(nb::module_& m) {
  nb::class_<Tensor>(m, "Data", "The value of a tensor, for functions of the module.")
      .def("array", [](const Tensor& t) { return to_array(t, true); })
      .def_prop_ro("dtype", [](const Tensor& t) { return std::string(name(t.dtype())); })
      .def_prop_ro("shape", [](const Tensor& t) { return shape_tuple(t.shape()); });
  m.def(
      "data_of",
      [](nb::handle value, nb::handle dtype) {
        return data_of(value, dtype.is_none() ? std::nullopt : std::optional(dtype_from(dtype)));
      },
      "value"_a, "dtype"_a = nb::none());

  auto tensor = nb::class_<PyTensor>(m, "Tensor", nb::type_slots(operator_slots()));
  tensor_type = reinterpret_cast<PyTypeObject*>(tensor.ptr());
  tensor.def_prop_ro("name", [](const PyTensor& t) { return t.output().name(); })
      .def_prop_ro("dtype", [](const PyTensor& t) { return dtype_object(t.output().dtype()); })
      .def_prop_ro("shape", [](const PyTensor& t) { return shape_tuple(shape_of_tensor(t)); })
      .def_prop_ro("ndim",
                   [](const PyTensor& t) -> std::optional<int> {
                     const Shape& shape = shape_of_tensor(t);
                     return shape.has_rank() ? std::optional(shape.rank()) : std::nullopt;
                   })
      .def_prop_ro("size", [](const PyTensor& t) { return elements_of(shape_of_tensor(t)); })
      .def_prop_ro("has_ended", &PyTensor::has_ended)
      .def_prop_ro("is_eager", [](const PyTensor& t) { return bool(t.output().eager); })
      .def("numpy", [](const PyTensor& t) { return to_array(t.output().value()); })
      .def("item",
           [](const PyTensor& t) {
             const Tensor& value = t.output().value();
             if (value.num_elements() != 1)
               invalid_argument("item: the tensor has {} elements, not one", value.num_elements());
             return nb::steal(element_object(value, 0));
           })
      .def("__dlpack__", [](const PyTensor& t, const nb::kwargs&) { return to_dlpack(t.output().value()); })
      .def("__dlpack_device__", [](const PyTensor&) { return nb::make_tuple(1, 0); });
  tensor.attr("__array_priority__") = 1000;  // arrays leave operators to tensors

  m.def(
      "tensor",
      [](nb::handle value, nb::handle dtype) {
        if (dtype.is_none() && is_tensor(value)) return nb::borrow(value);
        std::optional<DType> wanted;
        if (!dtype.is_none()) wanted = dtype_from(dtype);
        const CallGraph of = CallGraph::of(std::span(&value, 1));
        return to_python(of, operand(of, value, wanted));
      },
      "value"_a, "dtype"_a.none() = nb::none());
  m.def(
      "from_dlpack",
      [](nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu> array) {
        const CallGraph of{&eager_graph()};
        return to_python(of, constant(*of.graph, from_array(std::move(array))));
      },
      "x"_a);

  auto variable = nb::class_<PyVariable>(m, "Variable", nb::type_slots(operator_slots()));
  variable_type = reinterpret_cast<PyTypeObject*>(variable.ptr());
  variable
      .def(
          "__init__",
          [](PyVariable* self, nb::handle value, bool trainable, const std::string& name, nb::handle dtype) {
            new (self) PyVariable(make_variable(value, trainable, name, dtype));
          },
          "value"_a, "trainable"_a = true, "name"_a = "", "dtype"_a.none() = nb::none())
      .def_prop_ro("name", [](const PyVariable& v) { return v.variable.name; })
      .def_prop_ro("dtype", [](const PyVariable& v) { return dtype_object(v.variable.dtype); })
      .def_prop_ro("shape", [](const PyVariable& v) { return shape_tuple(v.variable.shape); })
      .def_prop_ro("ndim", [](const PyVariable& v) { return v.variable.shape.rank(); })
      .def_prop_ro("size", [](const PyVariable& v) { return elements_of(v.variable.shape); })
      .def_ro("trainable", &PyVariable::trainable)
      .def("read",
           [](const PyVariable& v) {
             return to_python({nullptr, v.variable.read()});
           })
      .def(
          "assign",
          [](nb::handle_t<PyVariable> v, nb::handle value) {
            assign<&VariableRef::assign>(nb::cast<const PyVariable&>(v), value);
            return nb::borrow(v);
          },
          "value"_a)
      .def(
          "assign_add",
          [](nb::handle_t<PyVariable> v, nb::handle value) {
            assign<&VariableRef::assign_add>(nb::cast<const PyVariable&>(v), value);
            return nb::borrow(v);
          },
          "value"_a)
      .def(
          "assign_sub",
          [](nb::handle_t<PyVariable> v, nb::handle value) {
            assign<&VariableRef::assign_sub>(nb::cast<const PyVariable&>(v), value);
            return nb::borrow(v);
          },
          "value"_a);
  variable.attr("__array_priority__") = 1000;
}

}  // namespace troupe::python
