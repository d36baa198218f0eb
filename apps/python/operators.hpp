// Operators of Python's tensors and variables: those of NumPy, with its rules of dtypes.
#pragma once

#include <nanobind/nanobind.h>

#include <troupe/graph/builder/core.hpp>

namespace troupe::python {

// Of operands of one dtype. Sums of bools are "or", products "and"; quotients of integers are f64.
Output numpy_add(Output a, Output b);
Output numpy_multiply(Output a, Output b);
Output numpy_divide(Output a, Output b);
Output numpy_floor_divide(Output a, Output b);
Output numpy_remainder(Output a, Output b);
Output numpy_power(Output a, Output b);
Output numpy_maximum(Output a, Output b);
Output numpy_minimum(Output a, Output b);
Output numpy_and(Output a, Output b);
Output numpy_or(Output a, Output b);
Output numpy_xor(Output a, Output b);
Output numpy_invert(Output x);
Output numpy_absolute(Output x);

// For nb::type_slots().
PyType_Slot* operator_slots();

}  // namespace troupe::python
