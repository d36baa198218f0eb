#include "troupe/graph/builder/activations.hpp"

#include <cmath>
#include <numbers>

#include <troupe/graph/builder/math.hpp>

namespace troupe {
namespace {

Output is_positive(Output x) { return greater(x, scalar_like(x, 0)); }
// Keeps the exponent of the other branch from overflowing, whose gradient would be 0 times infinity.
Output negative_part(Output x) { return minimum(x, scalar_like(x, 0)); }

}  // namespace

Output elu(Output x, double alpha, Name name) {
  const Output positive = is_positive(x);
  const Output below = alpha * expm1(negative_part(x));
  return select(positive, x, below, std::move(name));
}

Output selu(Output x, SeluOptions options) {
  const Output positive = is_positive(x);
  const Output above = options.gamma * x;
  const Output below = options.gamma * options.alpha * expm1(negative_part(x));
  return select(positive, above, below, std::move(options.name));
}

Output celu(Output x, double alpha, Name name) {
  const Output positive = is_positive(x);
  const Output below = alpha * expm1(negative_part(x) / alpha);
  return select(positive, x, below, std::move(name));
}

Output gelu(Output x, GeluOptions options) {
  if (options.approximate) {  // (1 + tanh(u)) / 2 = sigmoid(2 u)
    const Output cube = 0.044715 * square(x) * x;
    const Output probability = sigmoid(2 * std::sqrt(2 / std::numbers::pi) * (x + cube));
    return mul(x, probability, std::move(options.name));
  }
  const Output probability = 0.5 * (1 + erf(std::numbers::sqrt2 / 2 * x));
  return mul(x, probability, std::move(options.name));
}

Output silu(Output x, Name name) {
  const Output gate = sigmoid(x);
  return mul(x, gate, std::move(name));
}

Output mish(Output x, Name name) {
  const Output gate = tanh(softplus(x));
  return mul(x, gate, std::move(name));
}

Output hard_sigmoid(Output x, HardSigmoidOptions options) {
  return clip(options.alpha * x + options.beta, 0, 1, std::move(options.name));
}

Output hard_swish(Output x, Name name) {
  const Output gate = hard_sigmoid(x, {.alpha = 1.0 / 6});
  return mul(x, gate, std::move(name));
}

Output softsign(Output x, Name name) { return add_op("Softsign", {std::move(x)}, {}, std::move(name)); }
Output relu6(Output x, Name name) { return clip(x, 0, 6, std::move(name)); }

Output prelu(Output x, Output slope, Name name) {
  const Output negative = less(x, scalar_like(x, 0));
  const Output below = slope * x;
  return select(negative, below, x, std::move(name));
}

Output thresholded_relu(Output x, double alpha, Name name) {
  const Output above = greater(x, scalar_like(x, alpha));
  return select(above, x, scalar_like(x, 0), std::move(name));
}

Output shrink(Output x, ShrinkOptions options) {
  if (is_integer(x.dtype())) {
    const DType dtype = x.dtype();
    const Output wide = shrink(cast(x, DType::f64), {.bias = options.bias, .threshold = options.threshold});
    return add_op("Cast", {wide}, {{"DstT", dtype}}, std::move(options.name));
  }
  const Output above = greater(x, scalar_like(x, options.threshold));
  const Output less_bias = x - options.bias;
  const Output upper = select(above, less_bias, scalar_like(x, 0));
  const Output below = less(x, scalar_like(x, -options.threshold));
  const Output more_bias = x + options.bias;
  return select(below, more_bias, upper, std::move(options.name));
}

}  // namespace troupe
