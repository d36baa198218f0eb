#include "troupe/graph/builder/quantize.hpp"

#include <troupe/graph/builder/array.hpp>
#include <troupe/graph/builder/math.hpp>
#include <troupe/graph/builder/reduce.hpp>

namespace troupe {
namespace {

// A vector along `axis` of x in a shape that broadcasts to x's.
Output along_axis(Output vector, Output x, std::int64_t axis) {
  const Shape &given = vector.shape(), &shape = x.shape();
  if (given.has_rank() && given.is_scalar()) return vector;
  if (!given.has_rank() || !shape.has_rank() || given.rank() != 1)
    invalid_argument("'scale' and 'zero_point' must be scalars or vectors of known rank, not {}", given.to_string());
  if (axis < -shape.rank() || axis >= shape.rank())
    invalid_argument("axis {} is out of range: there are {} dimensions", axis, shape.rank());
  Output out = vector;
  for (std::int64_t after = (axis < 0 ? axis + shape.rank() : axis) + 1; after < shape.rank(); ++after)
    out = expand_dims(out, -1);
  return out;
}

Attributes product_attributes(const std::string& x, ByteSteps steps, const QuantizedProductOptions& options) {
  return {{"Y", options.dtype},       {x + "_scale", steps.scale},
          {x + "_zero", steps.zero},  {"y_scale", options.y.scale},
          {"y_zero", options.y.zero}, {"activation", std::string(options.relu ? "relu" : "none")}};
}

}  // namespace

Output quantized_matmul(Output a, ByteSteps a_steps, Output b, Output b_scale, Output bias,
                        QuantizedProductOptions options) {
  return add_op("QuantizedMatMul", {std::move(a), std::move(b), std::move(bias), std::move(b_scale)},
                product_attributes("a", a_steps, options), std::move(options.name));
}

Output dynamic_quantized_matmul(Output a, Output b, Output b_scale, Output bias, QuantizedProductOptions options) {
  return add_op("DynamicQuantizedMatMul", {std::move(a), std::move(b), std::move(bias), std::move(b_scale)},
                {{"activation", std::string(options.relu ? "relu" : "none")}}, std::move(options.name));
}

Output quantized_conv2d(Output x, ByteSteps x_steps, Output filter, Output filter_scale, Output bias,
                        const ConvOptions& windows, QuantizedProductOptions options,
                        const QuantizedResidual& residual) {
  Attributes attributes = product_attributes("x", x_steps, options);
  attributes.set("strides", windows.strides);
  attributes.set("dilations", windows.dilations);
  attributes.set("groups", windows.groups);
  attributes.set("padding", to_string(windows.padding));
  attributes.set("pads", windows.pads);
  attributes.set("data_format", to_string(windows.format));
  Outputs inputs{x, filter, bias, filter_scale};
  if (residual.values.valid()) {
    inputs.push_back(residual.values);
    attributes.set("residual_scale", residual.steps.scale);
    attributes.set("residual_zero", residual.steps.zero);
  }
  return add_op("QuantizedConv", inputs, std::move(attributes), std::move(options.name));
}

Output quantize_linear(Output x, Output scale, Output zero_point, QuantizeOptions options) {
  return add_op("QuantizeLinear", {std::move(x), std::move(scale), std::move(zero_point)}, {{"axis", options.axis}},
                std::move(options.name));
}

Output dequantize_linear(Output x, Output scale, Output zero_point, QuantizeOptions options) {
  return add_op("DequantizeLinear", {std::move(x), std::move(scale), std::move(zero_point)}, {{"axis", options.axis}},
                std::move(options.name));
}

DynamicallyQuantized dynamic_quantize_linear(Output x, Name name) {
  const Output zero = scalar_like(x, 0);
  const Output low = minimum(min(x), zero);
  const Output high = maximum(max(x), zero);
  const Output width = (high - low) / 255;
  const Output is_zero = equal(width, zero);
  const Output scale = select(is_zero, scalar_like(x, 1), width);
  const Output start = clip(-(low / scale), 0, 255);
  const Output zero_point = cast(round(start), DType::u8);
  return {quantize_linear(x, scale, zero_point, {.name = std::move(name)}), scale, zero_point};
}

Output fake_quantize(Output x, Output scale, Output zero_point, FakeQuantizeOptions options) {
  const Output step = along_axis(scale, x, options.axis);
  const Output zero = along_axis(zero_point, x, options.axis);
  const Output exact = x / step;
  const Output change = round(exact) - exact;  // no float between them: the sum with `exact` is the rounded value
  const Output rounded = exact + stop_gradient(change);
  const Output clipped = clip(rounded + zero, options.lowest, options.highest);
  const Output whole = clipped - zero;
  return mul(whole, step, std::move(options.name));
}

}  // namespace troupe
