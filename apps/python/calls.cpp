#include "apps/python/calls.hpp"

#include <fmt/format.h>
#include <nanobind/stl/string.h>

#include <string>

namespace troupe::python {
namespace {

namespace nb = nanobind;

std::string text_of(nb::handle object) { return nb::cast<std::string>(nb::str(object)); }

// " (words.py:12)": the innermost line on the way to the error that is not of this package.
std::string place_of(const nb::python_error& error) {
  const std::string package = text_of(nb::module_::import_("troupe").attr("__path__")[0]) + "/";
  std::string place;
  nb::object trace = nb::borrow(error.traceback());
  for (; trace.is_valid() && !trace.is_none(); trace = trace.attr("tb_next")) {
    const std::string file = text_of(trace.attr("tb_frame").attr("f_code").attr("co_filename"));
    if (!file.starts_with(package) || place.empty())
      place = fmt::format(" ({}:{})", file.substr(file.rfind('/') + 1), text_of(trace.attr("tb_lineno")));
  }
  return place;
}

}  // namespace

Error error_of_python(nb::python_error& error) {
  // The interpreter raises it again, in its own thread.
  if (error.matches(PyExc_KeyboardInterrupt)) PyErr_SetInterrupt();
  try {
    const std::string type = text_of(error.type().attr("__name__"));
    nb::object value = nb::borrow(error.value());
    // Python makes the exception late: of the arguments that there are until then.
    if (PyTuple_Check(value.ptr())) value = error.type()(*nb::borrow<nb::tuple>(value));
    const std::string text = text_of(value);
    return {Code::unknown, fmt::format("{}{}{}{}", type, text.empty() ? "" : ": ", text, place_of(error))};
  } catch (const nb::python_error&) {
    return {Code::unknown, "a Python exception without a text"};
  }
}

}  // namespace troupe::python
