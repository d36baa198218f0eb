// Errors of Python: a class for each code, with our messages.
#pragma once

#include <nanobind/nanobind.h>

#include <exception>

namespace troupe::python {

// Makes an exception of C++ the error of this thread's interpreter; for functions that Python calls without nanobind.
void set_python_error(const std::exception_ptr& error) noexcept;

}  // namespace troupe::python
