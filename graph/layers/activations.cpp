#include "troupe/graph/layers/activations.hpp"

#include <troupe/graph/builder/builder.hpp>

namespace troupe {
namespace {

Output squareplus(Output x) {
  const Output root = sqrt(square(x) + 4.0);
  return (x + root) * 0.5;
}

Output sparse_plus(Output x) {
  const Output between = square(clip(x, -1, 1) + 1.0) * 0.25;
  const Output linear = greater_equal(x, scalar_like(x, 1));
  return select(linear, x, between);
}

Output glu(Output x) {
  const Outputs halves = split(x, -1, 2);
  return halves[0] * sigmoid(halves[1]);
}

struct NamedActivation {
  Activation activation;
  const char* name;
  Output (*apply)(Output);
};

constexpr NamedActivation kActivations[] = {
    {Activation::none, "none", [](Output x) { return x; }},
    {Activation::relu, "relu", [](Output x) { return relu(x); }},
    {Activation::leaky_relu, "leaky_relu", [](Output x) { return leaky_relu(x); }},
    {Activation::sigmoid, "sigmoid", [](Output x) { return sigmoid(x); }},
    {Activation::tanh, "tanh", [](Output x) { return tanh(x); }},
    {Activation::softplus, "softplus", [](Output x) { return softplus(x); }},
    {Activation::softmax, "softmax", [](Output x) { return softmax(x); }},
    {Activation::log_softmax, "log_softmax", [](Output x) { return log_softmax(x); }},
    {Activation::relu6, "relu6", [](Output x) { return relu6(x); }},
    {Activation::elu, "elu", [](Output x) { return elu(x); }},
    {Activation::selu, "selu", [](Output x) { return selu(x); }},
    {Activation::celu, "celu", [](Output x) { return celu(x); }},
    {Activation::gelu, "gelu", [](Output x) { return gelu(x); }},
    {Activation::gelu_approximate, "gelu_approximate", [](Output x) { return gelu(x, {.approximate = true}); }},
    {Activation::silu, "silu", [](Output x) { return silu(x); }},
    {Activation::mish, "mish", [](Output x) { return mish(x); }},
    {Activation::exponential, "exponential", [](Output x) { return exp(x); }},
    {Activation::softsign, "softsign", [](Output x) { return softsign(x); }},
    {Activation::log_sigmoid, "log_sigmoid", [](Output x) { return neg(softplus(neg(x))); }},
    {Activation::hard_sigmoid, "hard_sigmoid", [](Output x) { return hard_sigmoid(x, {.alpha = 1.0 / 6}); }},
    {Activation::hard_silu, "hard_silu", [](Output x) { return hard_swish(x); }},
    {Activation::hard_tanh, "hard_tanh", [](Output x) { return clip(x, -1, 1); }},
    {Activation::hard_shrink, "hard_shrink", [](Output x) { return shrink(x); }},
    {Activation::soft_shrink, "soft_shrink", [](Output x) { return shrink(x, {.bias = 0.5}); }},
    {Activation::tanh_shrink, "tanh_shrink", [](Output x) { return x - tanh(x); }},
    {Activation::squareplus, "squareplus", squareplus},
    {Activation::sparse_plus, "sparse_plus", sparse_plus},
    {Activation::sparse_sigmoid, "sparse_sigmoid", [](Output x) { return clip((x + 1.0) * 0.5, 0, 1); }},
    {Activation::glu, "glu", glu},
};

}  // namespace

std::string to_string(Activation activation) {
  for (const NamedActivation& known : kActivations)
    if (known.activation == activation) return known.name;
  invalid_argument("unknown activation {}", static_cast<int>(activation));
}

Activation activation_named(std::string_view name) {
  for (const NamedActivation& known : kActivations)
    if (known.name == name) return known.activation;
  invalid_argument("there is no activation '{}'", name);
}

Output activate(Output x, Activation activation) {
  for (const NamedActivation& known : kActivations)
    if (known.activation == activation) return known.apply(x);
  invalid_argument("unknown activation {}", static_cast<int>(activation));
}

}  // namespace troupe
