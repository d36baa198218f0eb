#include "apps/python/operators.hpp"

#include <cmath>

#include "apps/python/comparisons.hpp"
#include "apps/python/errors.hpp"
#include "apps/python/indexed_slices.hpp"
#include "apps/python/operands.hpp"
#include "apps/python/tensors.hpp"
#include <troupe/graph/builder/linear.hpp>
#include <troupe/graph/builder/math.hpp>
#include <troupe/messages/element_types.hpp>

namespace troupe::python {
namespace {

namespace nb = nanobind;

bool is_bool(const Output& x) { return x.dtype() == DType::boolean; }
Output as_integers(Output x) { return is_bool(x) ? cast(x, DType::i8) : x; }

// What an operator meets on its other side.
bool is_operand(nb::handle value) {
  if (is_tensor(value) || is_number(value) || is_variable(value) || is_indexed_slices(value)) return true;
  PyObject* const v = value.ptr();
  return PyList_Check(v) || PyTuple_Check(v) || PyUnicode_Check(v) || PyBytes_Check(v) || is_array(value);
}

PyObject* not_implemented() { return nb::borrow(Py_NotImplemented).release().ptr(); }

// fn() for a function that Python calls: errors become Python's.
template <class Fn>
PyObject* guarded(const Fn& fn) noexcept {
  try {
    return fn();
  } catch (...) {
    set_python_error(std::current_exception());
    return nullptr;
  }
}

// Whether an op of both needs no conversion, and is small.
bool is_fast(const PyTensor& a, const PyTensor& b) {
  const Output &x = a.output(), &y = b.output();
  return x.eager && y.eager && x.eager->dtype() == y.eager->dtype() && x.eager->dtype() != DType::boolean &&
         x.eager->shape().num_elements() + y.eager->shape().num_elements() < kReleaseFrom;
}

using BinaryFn = Output (*)(Output, Output);
PyObject* binary(PyObject* a, PyObject* b, const char* fast_op, BinaryFn fn) {
  if (fast_op && is_tensor(a) && is_tensor(b) && is_fast(tensor_of(a), tensor_of(b))) {
    NodeSpec spec;
    spec.op = fast_op;
    spec.inputs.reserve(2);
    spec.inputs.push_back(tensor_of(a).output());
    spec.inputs.push_back(tensor_of(b).output());
    return to_python({nullptr, std::move(eager_graph().apply(std::move(spec)).front())}).release().ptr();
  }
  if (!is_operand(a) || !is_operand(b)) return not_implemented();
  return call_promoted({a, b}, [&](const Outputs& x) { return fn(x[0], x[1]); }).release().ptr();
}

// `fast_op`: the op that fn adds for operands of one dtype, but bool.
template <BinaryFn fn, const char* fast_op = nullptr>
PyObject* slot_binary(PyObject* a, PyObject* b) noexcept {
  return guarded([&] { return binary(a, b, fast_op, fn); });
}
constexpr char kAdd[] = "Add", kSub[] = "Sub", kMul[] = "Mul", kMatMul[] = "MatMul";

Output plain_sub(Output a, Output b) {
  if (is_bool(a)) invalid_argument("-: a difference of bools has no meaning; use ^ or logical_xor");
  return sub(a, b);
}
Output plain_matmul(Output a, Output b) { return matmul(a, b); }
Output shift_left(Output a, Output b) { return left_shift(as_integers(a), as_integers(b)); }
Output shift_right(Output a, Output b) { return right_shift(as_integers(a), as_integers(b)); }

// Squares and roots are ops of their own, as in NumPy.
PyObject* slot_power(PyObject* a, PyObject* b, PyObject* modulus) noexcept {
  return guarded([&]() -> PyObject* {
    if (modulus != Py_None || !is_operand(a) || !is_operand(b)) return not_implemented();
    if (is_number(b) && !is_number(a)) {
      const double exponent = PyFloat_AsDouble(b);
      if (exponent == -1 && PyErr_Occurred()) PyErr_Clear();
      if (exponent == 2 || exponent == 0.5) {
        const nb::object powered = call_promoted({a, b}, [&](const Outputs& x) {
          if (exponent == 2) return square(as_integers(x[0]));
          return is_floating(x[0].dtype()) ? sqrt(x[0]) : numpy_power(x[0], x[1]);
        });
        return nb::object(powered).release().ptr();
      }
    }
    return binary(a, b, nullptr, numpy_power);
  });
}

PyObject* slot_compare(PyObject* a, PyObject* b, int comparison) noexcept {
  return guarded(
      [&] { return is_operand(a) && is_operand(b) ? compare(a, b, comparison).release().ptr() : not_implemented(); });
}

using UnaryFn = Output (*)(Output);
template <UnaryFn fn>
PyObject* slot_unary(PyObject* x) noexcept {
  return guarded([&] { return call({x}, [](const Outputs& xs) { return fn(xs[0]); }).release().ptr(); });
}
Output negative(Output x) {
  if (is_bool(x)) invalid_argument("-: the negative of bools has no meaning; use ~ or logical_not");
  return neg(x);
}
Output itself(Output x) { return x; }

// The only element of a tensor, as a number of Python.
nb::object number(PyObject* value) {
  const Tensor tensor = data_of(value);
  if (tensor.num_elements() != 1)
    invalid_argument("a tensor of {} elements is no number: only one of a single element is", tensor.num_elements());
  return nb::steal(element_object(tensor, 0));
}
PyObject* slot_int(PyObject* x) noexcept {
  return guarded([&] { return PyNumber_Long(number(x).ptr()); });
}
PyObject* slot_float(PyObject* x) noexcept {
  return guarded([&] { return PyNumber_Float(number(x).ptr()); });
}
PyObject* slot_index(PyObject* x) noexcept {
  return guarded([&] {
    const nb::object found = number(x);
    if (!PyLong_CheckExact(found.ptr())) nb::raise_type_error("only tensors of integers can be indices");
    return nb::object(found).release().ptr();
  });
}
int slot_bool(PyObject* x) noexcept {
  try {
    const Tensor tensor = data_of(x);
    if (tensor.num_elements() != 1)
      invalid_argument("a tensor of {} elements is neither true nor false: use troupe.any() or troupe.all()",
                       tensor.num_elements());
    return PyObject_IsTrue(nb::steal(element_object(tensor, 0)).ptr());
  } catch (...) {
    set_python_error(std::current_exception());
    return -1;
  }
}

Py_ssize_t slot_length(PyObject* x) noexcept {
  try {
    const Shape& shape =
        is_tensor(x) ? tensor_of(x).output().shape() : nb::cast<const PyVariable&>(nb::handle(x)).variable.shape;
    if (!shape.has_rank() || shape.rank() == 0 || shape[0] == kUnknown)
      nb::raise_type_error(shape.is_scalar() ? "a scalar has no len()" : "the first dimension is not known: no len()");
    return static_cast<Py_ssize_t>(shape[0]);
  } catch (...) {
    set_python_error(std::current_exception());
    return -1;
  }
}

// By identity, as == compares elements.
Py_hash_t slot_hash(PyObject* x) noexcept { return PyBaseObject_Type.tp_hash(x); }

}  // namespace

Output numpy_add(Output a, Output b) { return is_bool(a) ? logical_or(a, b) : add(a, b); }
Output numpy_multiply(Output a, Output b) { return is_bool(a) ? logical_and(a, b) : mul(a, b); }
Output numpy_divide(Output a, Output b) {
  return is_floating(a.dtype()) ? div(a, b) : div(cast(a, DType::f64), cast(b, DType::f64));
}
Output numpy_floor_divide(Output a, Output b) { return floor_div(as_integers(a), as_integers(b)); }
Output numpy_remainder(Output a, Output b) { return floor_mod(as_integers(a), as_integers(b)); }
// Integers of all sizes multiply alike, modulo 2^64.
Output numpy_power(Output a, Output b) {
  const DType dtype = is_bool(a) ? DType::i8 : a.dtype();
  if (is_floating(dtype)) return pow(a, b);
  return cast(pow(cast(a, DType::i64), cast(b, DType::i64)), dtype);
}
Output numpy_maximum(Output a, Output b) { return is_bool(a) ? logical_or(a, b) : maximum(a, b); }
Output numpy_minimum(Output a, Output b) { return is_bool(a) ? logical_and(a, b) : minimum(a, b); }
Output numpy_and(Output a, Output b) { return is_bool(a) ? logical_and(a, b) : bitwise_and(a, b); }
Output numpy_or(Output a, Output b) { return is_bool(a) ? logical_or(a, b) : bitwise_or(a, b); }
Output numpy_xor(Output a, Output b) { return is_bool(a) ? logical_xor(a, b) : bitwise_xor(a, b); }
Output numpy_invert(Output x) { return is_bool(x) ? logical_not(x) : bitwise_not(x); }
Output numpy_absolute(Output x) { return is_bool(x) || is_unsigned(x.dtype()) ? x : abs(x); }

PyType_Slot* operator_slots() {
  const auto as = [](auto* function) { return reinterpret_cast<void*>(function); };
  static PyType_Slot slots[] = {{Py_nb_add, as(slot_binary<numpy_add, kAdd>)},
                                {Py_nb_subtract, as(slot_binary<plain_sub, kSub>)},
                                {Py_nb_multiply, as(slot_binary<numpy_multiply, kMul>)},
                                {Py_nb_true_divide, as(slot_binary<numpy_divide>)},
                                {Py_nb_floor_divide, as(slot_binary<numpy_floor_divide>)},
                                {Py_nb_remainder, as(slot_binary<numpy_remainder>)},
                                {Py_nb_power, as(slot_power)},
                                {Py_nb_matrix_multiply, as(slot_binary<plain_matmul, kMatMul>)},
                                {Py_nb_and, as(slot_binary<numpy_and>)},
                                {Py_nb_or, as(slot_binary<numpy_or>)},
                                {Py_nb_xor, as(slot_binary<numpy_xor>)},
                                {Py_nb_lshift, as(slot_binary<shift_left>)},
                                {Py_nb_rshift, as(slot_binary<shift_right>)},
                                {Py_nb_negative, as(slot_unary<negative>)},
                                {Py_nb_positive, as(slot_unary<itself>)},
                                {Py_nb_absolute, as(slot_unary<numpy_absolute>)},
                                {Py_nb_invert, as(slot_unary<numpy_invert>)},
                                {Py_nb_bool, as(slot_bool)},
                                {Py_nb_int, as(slot_int)},
                                {Py_nb_float, as(slot_float)},
                                {Py_nb_index, as(slot_index)},
                                {Py_mp_length, as(slot_length)},
                                {Py_tp_richcompare, as(slot_compare)},
                                {Py_tp_hash, as(slot_hash)},
                                {0, nullptr}};
  return slots;
}

}  // namespace troupe::python
