#include "apps/python/errors.hpp"

#include <nanobind/stl/string.h>

#include <array>
#include <new>
#include <string>

#include "apps/python/bindings.hpp"
#include <troupe/messages/error.hpp>

namespace troupe::python {
namespace {

namespace nb = nanobind;

struct ErrorClass {
  Code code;
  const char* name;
  PyObject** also;  // what Python calls such an error; null: nothing more
};

// Names as in TensorFlow.
const std::array kErrorClasses{
    ErrorClass{Code::cancelled, "CancelledError", nullptr},
    ErrorClass{Code::unknown, "UnknownError", nullptr},
    ErrorClass{Code::invalid_argument, "InvalidArgumentError", &PyExc_ValueError},
    ErrorClass{Code::deadline_exceeded, "DeadlineExceededError", nullptr},
    ErrorClass{Code::not_found, "NotFoundError", &PyExc_LookupError},
    ErrorClass{Code::already_exists, "AlreadyExistsError", nullptr},
    ErrorClass{Code::permission_denied, "PermissionDeniedError", nullptr},
    ErrorClass{Code::resource_exhausted, "ResourceExhaustedError", &PyExc_MemoryError},
    ErrorClass{Code::failed_precondition, "FailedPreconditionError", nullptr},
    ErrorClass{Code::aborted, "AbortedError", nullptr},
    ErrorClass{Code::out_of_range, "OutOfRangeError", &PyExc_IndexError},
    ErrorClass{Code::unimplemented, "UnimplementedError", &PyExc_NotImplementedError},
    ErrorClass{Code::internal, "InternalError", nullptr},
    ErrorClass{Code::unavailable, "UnavailableError", nullptr},
    ErrorClass{Code::data_loss, "DataLossError", nullptr},
    ErrorClass{Code::unauthenticated, "UnauthenticatedError", nullptr},
};

// By the number of their code; they live as long as Python.
std::array<PyObject*, 17> class_of_code{};

void set_error(const Error& error) {
  PyObject* const type = class_of_code.at(static_cast<std::size_t>(error.code()));
  PyErr_SetObject(type, nb::str(error.message().data(), error.message().size()).ptr());
}

}  // namespace

void set_python_error(const std::exception_ptr& error) noexcept {
  try {
    std::rethrow_exception(error);
  } catch (nb::python_error& e) {
    e.restore();
  } catch (const Error& e) {
    set_error(e);
  } catch (const nb::builtin_exception& e) {
    PyErr_SetString(e.type() == nb::exception_type::type_error ? PyExc_TypeError : PyExc_RuntimeError, e.what());
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& e) {
    PyErr_SetString(PyExc_RuntimeError, e.what());
  }
}

void bind_errors(nb::module_& m) {
  PyObject* const base = PyErr_NewExceptionWithDoc(
      "troupe.Error", "An error of Troupe; `code` is the name of its kind, such as \"invalid_argument\".",
      PyExc_RuntimeError, nullptr);
  m.attr("Error") = nb::steal(base);
  class_of_code.fill(base);
  m.attr("Error").attr("code") = "unknown";
  for (const ErrorClass& c : kErrorClasses) {
    const nb::object bases = c.also ? nb::make_tuple(nb::handle(base), nb::handle(*c.also)) : nb::borrow(base);
    PyObject* const made = PyErr_NewException((std::string("troupe.") + c.name).c_str(), bases.ptr(), nullptr);
    nb::object type = nb::steal(made);
    type.attr("code") = std::string(name(c.code));
    class_of_code.at(static_cast<std::size_t>(c.code)) = type.ptr();
    m.attr(c.name) = type;
    (void)type.release();
  }
  nb::register_exception_translator([](const std::exception_ptr& p, void*) {
    try {
      std::rethrow_exception(p);
    } catch (const Error& e) {
      set_error(e);
    }
  });
}

}  // namespace troupe::python
