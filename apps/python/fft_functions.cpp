// Fourier transforms along one axis. The package has their public forms, with defaults and documentation.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>

#include <optional>

#include "apps/python/operands.hpp"
#include <troupe/graph/builder/signal.hpp>

namespace troupe::python {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

using Length = std::optional<std::int64_t>;

Output length_of(const Length& length, Output x) {
  return length ? constant<std::int64_t>(*x.graph, *length) : Output();
}

}  // namespace

// Axes count without the last dimension of complex numbers.
void bind_fft_functions(nb::module_& m) {
  m.def(
      "fft_complex",
      [](nb::handle x, Length n, std::int64_t axis, bool inverse) {
        return call({x}, [&](const Outputs& xs) {
          const Output from = as_floating(xs[0]);
          return dft(from, {.axis = axis < 0 ? axis - 1 : axis, .length = length_of(n, from), .inverse = inverse});
        });
      },
      "x"_a, "n"_a.none(), "axis"_a, "inverse"_a);
  m.def(
      "fft_of_real",
      [](nb::handle x, Length n, std::int64_t axis) {
        return call({x}, [&](const Outputs& xs) {
          const Output from = as_floating(xs[0]);
          return rfft(from, {.axis = axis, .length = length_of(n, from)});
        });
      },
      "x"_a, "n"_a.none(), "axis"_a);
  m.def(
      "fft_to_real",
      [](nb::handle x, Length n, std::int64_t axis) {
        return call({x}, [&](const Outputs& xs) {
          const Output from = as_floating(xs[0]);
          return irfft(from, {.axis = axis, .length = length_of(n, from)});
        });
      },
      "x"_a, "n"_a.none(), "axis"_a);
}

}  // namespace troupe::python
