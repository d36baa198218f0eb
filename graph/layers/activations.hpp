// Activation functions by name, for layers' options. Those of Keras 3, with its constants.
#pragma once

#include <string>
#include <string_view>

#include <troupe/graph/builder/core.hpp>

namespace troupe {

enum class Activation {
  none,
  relu,
  leaky_relu,  // x where x > 0, else 0.2 x
  sigmoid,
  tanh,
  softplus,
  softmax,      // along the last dimension
  log_softmax,  // likewise
  relu6,
  elu,
  selu,
  celu,
  gelu,              // with erf
  gelu_approximate,  // with tanh
  silu,              // x sigmoid(x), also called swish
  mish,
  exponential,
  softsign,
  log_sigmoid,
  hard_sigmoid,    // relu6(x + 3) / 6
  hard_silu,       // x hard_sigmoid(x)
  hard_tanh,       // x clipped to [-1, 1]
  hard_shrink,     // x where |x| > 0.5, else 0
  soft_shrink,     // x less 0.5 in magnitude, at least 0
  tanh_shrink,     // x - tanh(x)
  squareplus,      // (x + sqrt(x^2 + 4)) / 2
  sparse_plus,     // 0 up to -1, (x + 1)^2 / 4, x from 1 on
  sparse_sigmoid,  // (x + 1) / 2 clipped to [0, 1]
  glu,             // a sigmoid(b) for the halves a and b of the last dimension
};
std::string to_string(Activation activation);
Activation activation_named(std::string_view name);  // throws invalid_argument
Output activate(Output x, Activation activation);

}  // namespace troupe
