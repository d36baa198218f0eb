// Functions of integers that stand for real numbers. The package has their public forms, with defaults and
// documentation.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "apps/python/arguments.hpp"
#include <troupe/graph/builder/conv.hpp>
#include <troupe/graph/builder/linear.hpp>
#include <troupe/graph/builder/quantize.hpp>

namespace troupe::python {

namespace nb = nanobind;
using namespace nb::literals;

void bind_quantized_functions(nb::module_& m) {
  const auto linear = [&](const char* name, Output (*fn)(Output, Output, Output, QuantizeOptions)) {
    m.def(name, [fn](nb::handle x, nb::handle scale, nb::handle zero_point, std::int64_t axis) {
      return call({x, scale, zero_point}, [&](const Outputs& xs) { return fn(xs[0], xs[1], xs[2], {.axis = axis}); });
    });
  };
  linear("quantize_linear", quantize_linear);
  linear("dequantize_linear", dequantize_linear);
  m.def("dynamic_quantize_linear", [](nb::handle x) {
    return call({x}, [](const Outputs& xs) {
      const DynamicallyQuantized out = dynamic_quantize_linear(xs[0]);
      return Outputs{out.y, out.scale, out.zero_point};
    });
  });
  m.def("fake_quantize",
        [](nb::handle x, nb::handle scale, nb::handle zero_point, double lowest, double highest, std::int64_t axis) {
          return call({x, scale, zero_point}, [&](const Outputs& xs) {
            return fake_quantize(xs[0], xs[1], xs[2], {.lowest = lowest, .highest = highest, .axis = axis});
          });
        });
  m.def(
      "matmul_integer",
      [](nb::handle a, nb::handle b, nb::handle a_zero_point, nb::handle b_zero_point) {
        return call({a, b, a_zero_point, b_zero_point},
                    [](const Outputs& xs) { return matmul_integer(xs[0], xs[1], xs[2], xs[3]); });
      },
      "a"_a, "b"_a, "a_zero_point"_a.none(), "b_zero_point"_a.none());
  m.def("qlinear_matmul", [](nb::handle a, nb::handle a_scale, nb::handle a_zero, nb::handle b, nb::handle b_scale,
                             nb::handle b_zero, nb::handle y_scale, nb::handle y_zero) {
    return call({a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero}, [](const Outputs& xs) {
      return qlinear_matmul({xs[0], xs[1], xs[2]}, {xs[3], xs[4], xs[5]}, xs[6], xs[7]);
    });
  });
  m.def("conv_integer", [](nb::handle x, nb::handle filter, nb::handle x_zero, nb::handle filter_zero,
                           const Integers& strides, const std::string& padding, const Integers& pads,
                           const Integers& dilations, std::int64_t groups, const std::string& data_format) {
    ConvOptions o;
    o.strides = strides;
    o.dilations = dilations;
    o.groups = groups;
    o.padding = pads.empty() ? parse_padding(padding) : Padding::explicit_pads;
    o.pads = pads;
    o.format = parse_data_format(data_format);
    return call({x, filter, x_zero, filter_zero},
                [&](const Outputs& xs) { return conv_integer(xs[0], xs[1], xs[2], xs[3], o); });
  });
}

}  // namespace troupe::python
