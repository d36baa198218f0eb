#include "apps/python/calls.hpp"

#include <fmt/format.h>
#include <nanobind/stl/string.h>

#include <string>

namespace troupe::python {
namespace {

namespace nb = nanobind;

std::string text_of(nb::handle object) { return nb::cast<std::string>(nb::str(object)); }

// " (words.py:12)": the line that raised it.
std::string place_of(const nb::python_error& error) {
  nb::object trace = nb::borrow(error.traceback());
  if (!trace.is_valid() || trace.is_none()) return "";
  while (!nb::object(trace.attr("tb_next")).is_none()) trace = trace.attr("tb_next");
  const std::string file = text_of(trace.attr("tb_frame").attr("f_code").attr("co_filename"));
  return fmt::format(" ({}:{})", file.substr(file.rfind('/') + 1), text_of(trace.attr("tb_lineno")));
}

}  // namespace

Error error_of_python(nb::python_error& error) {
  // The interpreter raises it again, in its own thread.
  if (error.matches(PyExc_KeyboardInterrupt)) PyErr_SetInterrupt();
  try {
    const std::string type = text_of(error.type().attr("__name__"));
    const std::string text = text_of(error.value());
    return {Code::unknown, fmt::format("{}{}{}{}", type, text.empty() ? "" : ": ", text, place_of(error))};
  } catch (const nb::python_error&) {
    return {Code::unknown, "a Python exception without a text"};
  }
}

}  // namespace troupe::python
