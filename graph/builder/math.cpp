#include "troupe/graph/builder/math.hpp"

#include <cmath>
#include <limits>
#include <numbers>

namespace troupe {

Output add(Output a, Output b, Name name) { return add_op("Add", {std::move(a), std::move(b)}, {}, std::move(name)); }
Output sub(Output a, Output b, Name name) { return add_op("Sub", {std::move(a), std::move(b)}, {}, std::move(name)); }
Output mul(Output a, Output b, Name name) { return add_op("Mul", {std::move(a), std::move(b)}, {}, std::move(name)); }
Output div(Output a, Output b, Name name) { return add_op("Div", {std::move(a), std::move(b)}, {}, std::move(name)); }
Output maximum(Output a, Output b, Name name) {
  return add_op("Maximum", {std::move(a), std::move(b)}, {}, std::move(name));
}
Output minimum(Output a, Output b, Name name) {
  return add_op("Minimum", {std::move(a), std::move(b)}, {}, std::move(name));
}
Output pow(Output a, Output b, Name name) { return add_op("Pow", {std::move(a), std::move(b)}, {}, std::move(name)); }
Output squared_difference(Output a, Output b, Name name) {
  return add_op("SquaredDifference", {std::move(a), std::move(b)}, {}, std::move(name));
}
Output floor_div(Output a, Output b, Name name) {
  return add_op("FloorDiv", {std::move(a), std::move(b)}, {}, std::move(name));
}
Output floor_mod(Output a, Output b, Name name) {
  return add_op("FloorMod", {std::move(a), std::move(b)}, {}, std::move(name));
}
Output truncate_mod(Output a, Output b, Name name) {
  return add_op("TruncateMod", {std::move(a), std::move(b)}, {}, std::move(name));
}
Output atan2(Output y, Output x, Name name) {
  return add_op("Atan2", {std::move(y), std::move(x)}, {}, std::move(name));
}
Output xlogy(Output a, Output b, Name name) {
  return add_op("Xlogy", {std::move(a), std::move(b)}, {}, std::move(name));
}
Output equal(Output a, Output b, Name name) {
  return add_op("Equal", {std::move(a), std::move(b)}, {}, std::move(name));
}
Output not_equal(Output a, Output b, Name name) {
  return add_op("NotEqual", {std::move(a), std::move(b)}, {}, std::move(name));
}
Output less(Output a, Output b, Name name) { return add_op("Less", {std::move(a), std::move(b)}, {}, std::move(name)); }
Output less_equal(Output a, Output b, Name name) {
  return add_op("LessEqual", {std::move(a), std::move(b)}, {}, std::move(name));
}
Output greater(Output a, Output b, Name name) {
  return add_op("Greater", {std::move(a), std::move(b)}, {}, std::move(name));
}
Output greater_equal(Output a, Output b, Name name) {
  return add_op("GreaterEqual", {std::move(a), std::move(b)}, {}, std::move(name));
}
Output logical_and(Output a, Output b, Name name) {
  return add_op("LogicalAnd", {std::move(a), std::move(b)}, {}, std::move(name));
}
Output logical_or(Output a, Output b, Name name) {
  return add_op("LogicalOr", {std::move(a), std::move(b)}, {}, std::move(name));
}
// Exclusive or of truth values is inequality.
Output logical_xor(Output a, Output b, Name name) {
  if (a.valid() && a.dtype() != DType::boolean)
    invalid_argument("logical_xor: the operands must be bool, not {}", troupe::name(a.dtype()));
  return not_equal(a, b, std::move(name));
}
Output bitwise_and(Output a, Output b, Name name) {
  return add_op("BitwiseAnd", {std::move(a), std::move(b)}, {}, std::move(name));
}
Output bitwise_or(Output a, Output b, Name name) {
  return add_op("BitwiseOr", {std::move(a), std::move(b)}, {}, std::move(name));
}
Output bitwise_xor(Output a, Output b, Name name) {
  return add_op("BitwiseXor", {std::move(a), std::move(b)}, {}, std::move(name));
}
Output bitwise_not(Output x, Name name) { return add_op("BitwiseNot", {std::move(x)}, {}, std::move(name)); }
Output left_shift(Output x, Output bits, Name name) {
  return add_op("LeftShift", {std::move(x), std::move(bits)}, {}, std::move(name));
}
Output right_shift(Output x, Output bits, Name name) {
  return add_op("RightShift", {std::move(x), std::move(bits)}, {}, std::move(name));
}

Output operator+(Output a, Output b) { return add(std::move(a), std::move(b)); }
Output operator+(Output a, double b) { return add(a, scalar_like(a, b)); }
Output operator+(double a, Output b) { return add(scalar_like(b, a), b); }
Output operator-(Output a, Output b) { return sub(std::move(a), std::move(b)); }
Output operator-(Output a, double b) { return sub(a, scalar_like(a, b)); }
Output operator-(double a, Output b) { return sub(scalar_like(b, a), b); }
Output operator*(Output a, Output b) { return mul(std::move(a), std::move(b)); }
Output operator*(Output a, double b) { return mul(a, scalar_like(a, b)); }
Output operator*(double a, Output b) { return mul(scalar_like(b, a), b); }
Output operator/(Output a, Output b) { return div(std::move(a), std::move(b)); }
Output operator/(Output a, double b) { return div(a, scalar_like(a, b)); }
Output operator/(double a, Output b) { return div(scalar_like(b, a), b); }
Output operator-(Output x) { return neg(std::move(x)); }

Output neg(Output x, Name name) { return add_op("Neg", {std::move(x)}, {}, std::move(name)); }
Output abs(Output x, Name name) { return add_op("Abs", {std::move(x)}, {}, std::move(name)); }
Output sign(Output x, Name name) { return add_op("Sign", {std::move(x)}, {}, std::move(name)); }
Output square(Output x, Name name) { return add_op("Square", {std::move(x)}, {}, std::move(name)); }
Output exp(Output x, Name name) { return add_op("Exp", {std::move(x)}, {}, std::move(name)); }
Output log(Output x, Name name) { return add_op("Log", {std::move(x)}, {}, std::move(name)); }
Output log1p(Output x, Name name) { return add_op("Log1p", {std::move(x)}, {}, std::move(name)); }
Output sqrt(Output x, Name name) { return add_op("Sqrt", {std::move(x)}, {}, std::move(name)); }
Output rsqrt(Output x, Name name) { return add_op("Rsqrt", {std::move(x)}, {}, std::move(name)); }
Output tanh(Output x, Name name) { return add_op("Tanh", {std::move(x)}, {}, std::move(name)); }
Output sigmoid(Output x, Name name) { return add_op("Sigmoid", {std::move(x)}, {}, std::move(name)); }
Output softplus(Output x, Name name) { return add_op("Softplus", {std::move(x)}, {}, std::move(name)); }
Output floor(Output x, Name name) { return add_op("Floor", {std::move(x)}, {}, std::move(name)); }
Output erf(Output x, Name name) { return add_op("Erf", {std::move(x)}, {}, std::move(name)); }
Output ceil(Output x, Name name) { return add_op("Ceil", {std::move(x)}, {}, std::move(name)); }
Output round(Output x, Name name) { return add_op("Round", {std::move(x)}, {}, std::move(name)); }
Output erfc(Output x, Name name) { return add_op("Erfc", {std::move(x)}, {}, std::move(name)); }
Output sin(Output x, Name name) { return add_op("Sin", {std::move(x)}, {}, std::move(name)); }
Output cos(Output x, Name name) { return add_op("Cos", {std::move(x)}, {}, std::move(name)); }
Output tan(Output x, Name name) { return add_op("Tan", {std::move(x)}, {}, std::move(name)); }
Output asin(Output x, Name name) { return add_op("Asin", {std::move(x)}, {}, std::move(name)); }
Output acos(Output x, Name name) { return add_op("Acos", {std::move(x)}, {}, std::move(name)); }
Output atan(Output x, Name name) { return add_op("Atan", {std::move(x)}, {}, std::move(name)); }
Output sinh(Output x, Name name) { return add_op("Sinh", {std::move(x)}, {}, std::move(name)); }
Output cosh(Output x, Name name) { return add_op("Cosh", {std::move(x)}, {}, std::move(name)); }
Output asinh(Output x, Name name) { return add_op("Asinh", {std::move(x)}, {}, std::move(name)); }
Output acosh(Output x, Name name) { return add_op("Acosh", {std::move(x)}, {}, std::move(name)); }
Output atanh(Output x, Name name) { return add_op("Atanh", {std::move(x)}, {}, std::move(name)); }
Output expm1(Output x, Name name) { return add_op("Expm1", {std::move(x)}, {}, std::move(name)); }
Output lgamma(Output x, Name name) { return add_op("Lgamma", {std::move(x)}, {}, std::move(name)); }
Output digamma(Output x, Name name) { return add_op("Digamma", {std::move(x)}, {}, std::move(name)); }
Output polygamma(Output x, std::int64_t n, Name name) {
  return add_op("Polygamma", {std::move(x)}, {{"n", n}}, std::move(name));
}
Output reciprocal(Output x, Name name) { return div(scalar_like(x, 1), x, std::move(name)); }
Output clip(Output x, Output low, Output high, Name name) {
  if (!low.valid() && !high.valid()) return identity(x, std::move(name));
  if (!high.valid()) return maximum(x, low, std::move(name));
  return minimum(low.valid() ? maximum(x, low) : x, high, std::move(name));
}
Output clip(Output x, double low, double high, Name name) {
  const Output least = scalar_like(x, low);
  return clip(x, least, scalar_like(x, high), std::move(name));
}
Output is_nan(Output x, Name name) { return not_equal(x, x, std::move(name)); }
Output is_inf(Output x, IsInfOptions options) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (options.negative && options.positive) {
    const Output magnitude = abs(x);
    return equal(magnitude, scalar_like(x, kInfinity), std::move(options.name));
  }
  // Without any, none equals NaN.
  const double wanted = options.positive ? kInfinity : options.negative ? -kInfinity : std::nan("");
  return equal(x, scalar_like(x, wanted), std::move(options.name));
}
Output is_finite(Output x, Name name) {
  const Output magnitude = abs(x);
  return less(magnitude, scalar_like(x, std::numeric_limits<double>::infinity()), std::move(name));
}
Output log2(Output x, Name name) {
  const Output logarithm = log(x);
  return div(logarithm, scalar_like(x, std::numbers::ln2), std::move(name));
}
Output log10(Output x, Name name) {
  const Output logarithm = log(x);
  return div(logarithm, scalar_like(x, std::numbers::ln10), std::move(name));
}
// A product with log(2) would be off by as many units as x has.
Output exp2(Output x, Name name) { return pow(scalar_like(x, 2), x, std::move(name)); }

// Of operands as parts of the larger one. The root's derivative at 0 is infinite: there the result is the constant 0.
Output hypot(Output a, Output b, Name name) {
  const Output first = abs(a);
  const Output greatest = stop_gradient(maximum(first, abs(b)));
  const Output zero = scalar_like(a, 0);
  const Output one = scalar_like(a, 1);
  const Output positive = greater(greatest, zero);
  const Output finite = logical_and(positive, is_finite(greatest));
  const Output unit = select(finite, greatest, one);
  const Output part = square(a / unit);
  const Output squares = part + square(b / unit);
  const Output none = equal(squares, zero);
  const Output safe = select(none, one, squares);
  return select(none, zero, unit * sqrt(safe), std::move(name));
}
// Of equal operands, maximum() has the gradient of the first, and so has minimum(): here that is b.
Output log_add_exp(Output a, Output b, Name name) {
  const Output high = maximum(a, b);
  const Output low = minimum(b, a);
  const Output finite = is_finite(high);
  const Output distance = select(finite, low - high, scalar_like(a, 0));
  return add(high, softplus(distance), std::move(name));
}
Output relu(Output x, Name name) { return add_op("Relu", {std::move(x)}, {}, std::move(name)); }
Output logical_not(Output x, Name name) { return add_op("LogicalNot", {std::move(x)}, {}, std::move(name)); }
Output zeros_like(Output x, Name name) { return add_op("ZerosLike", {std::move(x)}, {}, std::move(name)); }
Output ones_like(Output x, Name name) { return add_op("OnesLike", {std::move(x)}, {}, std::move(name)); }
Output leaky_relu(Output x, double alpha, Name name) {
  return add_op("LeakyRelu", {std::move(x)}, {{"alpha", alpha}}, std::move(name));
}
Output cast(Output x, DType to, Name name) {
  if (x.valid() && x.dtype() == to && name.empty()) return x;
  if (x.valid() && x.dtype() == DType::string && to != DType::string) return string_to_number(x, to, std::move(name));
  if (x.valid() && x.dtype() != DType::string && to == DType::string) return as_string(x, std::move(name));
  if (x.valid() && x.dtype() == DType::string) return identity(x, std::move(name));
  return add_op("Cast", {x}, {{"DstT", to}}, std::move(name));
}
Output as_string(Output x, Name name) { return add_op("AsString", {std::move(x)}, {}, std::move(name)); }
Output string_to_number(Output x, DType dtype, Name name) {
  return add_op("StringToNumber", {std::move(x)}, {{"T", dtype}}, std::move(name));
}
Output select(Output cond, Output a, Output b, Name name) {
  return add_op("Select", {std::move(cond), std::move(a), std::move(b)}, {}, std::move(name));
}

Output add_n(const Outputs& xs, Name name) { return add_op("AddN", xs, {}, std::move(name)); }
Output sum_to_like(Output x, Output like, Name name) {
  return add_op("SumToLike", {std::move(x), std::move(like)}, {}, std::move(name));
}
Output broadcast_like(Output x, Output like, Name name) {
  return add_op("BroadcastLike", {std::move(x), std::move(like)}, {}, std::move(name));
}
Output shape_of(Output x, Name name) { return add_op("Shape", {std::move(x)}, {}, std::move(name)); }
Output element_count(Output x, Name name) { return add_op("Size", {std::move(x)}, {}, std::move(name)); }

}  // namespace troupe
