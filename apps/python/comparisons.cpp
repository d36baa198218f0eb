#include "apps/python/comparisons.hpp"

#include "apps/python/operands.hpp"
#include <troupe/graph/builder/math.hpp>
#include <troupe/messages/element_types.hpp>

namespace troupe::python {
namespace {

namespace nb = nanobind;

using Comparison = Output (*)(Output, Output, Name);
constexpr Comparison kComparisons[] = {less, less_equal, equal, not_equal, greater, greater_equal};

bool is_order(int which) { return which != Py_EQ && which != Py_NE; }
Output as_number(Output x) { return x.dtype() == DType::boolean ? cast(x, DType::i8) : x; }

// Where an integer of Python lies: -1 below all values of an integer dtype, 1 above, 0 among them.
int side_of(nb::handle integer, DType dtype) {
  int side = 0;
  const long long value = PyLong_AsLongLongAndOverflow(integer.ptr(), &side);
  if (side < 0) return side;
  if (side > 0) {
    if (dtype != DType::u64) return side;
    (void)PyLong_AsUnsignedLongLong(integer.ptr());
    if (!PyErr_Occurred()) return 0;
    PyErr_Clear();
    return side;
  }
  return dispatch(RealTypes{}, dtype, [&]<class T>() {
    if constexpr (std::is_integral_v<T>)
      if (!std::in_range<T>(value)) return value < 0 ? -1 : 1;
    return 0;
  });
}

// x with an integer on this side of all its values.
Output compare_outside(Output x, int side, int which) {
  const bool is_less = which == Py_LT || which == Py_LE;
  const bool holds = is_order(which) ? is_less == (side > 0) : which == Py_NE;
  return holds ? equal(x, x) : not_equal(x, x);
}

int mirrored(int which) {
  switch (which) {
    case Py_LT:
      return Py_GT;
    case Py_LE:
      return Py_GE;
    case Py_GT:
      return Py_LT;
    case Py_GE:
      return Py_LE;
    default:
      return which;
  }
}

}  // namespace

nb::object compare(nb::handle a, nb::handle b, int which) {
  if (PyLong_CheckExact(a.ptr()) && !is_number(b)) return compare(b, a, mirrored(which));
  if (PyLong_CheckExact(b.ptr()) && !is_number(a)) {
    const CallGraph of = CallGraph::of(std::span(&a, 1));
    const Output x = operand(of, a);
    if (is_integer(x.dtype()))
      if (const int side = side_of(b, x.dtype()))
        return to_python(
            of, call_released(of, {x}, [&](const Outputs& xs) { return compare_outside(xs[0], side, which); }));
  }
  return call_promoted({a, b}, [&](const Outputs& x) {
    return is_order(which) ? kComparisons[which](as_number(x[0]), as_number(x[1]), {})
                           : kComparisons[which](x[0], x[1], {});
  });
}

}  // namespace troupe::python
