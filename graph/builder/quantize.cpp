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

}  // namespace

Output quantize_linear(Output x, Output scale, Output zero_point, QuantizeOptions options) {
  return add_op("QuantizeLinear", {x, scale, zero_point}, {{"axis", options.axis}}, std::move(options.name));
}

Output dequantize_linear(Output x, Output scale, Output zero_point, QuantizeOptions options) {
  return add_op("DequantizeLinear", {x, scale, zero_point}, {{"axis", options.axis}}, std::move(options.name));
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
