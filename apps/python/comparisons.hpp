// Comparisons of tensors and numbers, as NumPy compares.
#pragma once

#include <nanobind/nanobind.h>

namespace troupe::python {

// `which`: Py_LT, Py_LE, Py_EQ, Py_NE, Py_GT or Py_GE. Of tensors, numbers and what becomes tensors, as NumPy compares:
// false is less than true, and an integer of Python may lie outside of the other's dtype.
nanobind::object compare(nanobind::handle a, nanobind::handle b, int which);

}  // namespace troupe::python
