// Builder API for activations that are made of other elementwise ops, which a pass fuses into one loop. They work for
// every dtype of these ops, have gradients of any order, and overflow for no argument, nor do their gradients.
#pragma once

#include <troupe/graph/builder/core.hpp>

namespace troupe {

// x where x > 0, else alpha (exp(x) - 1): Clevert, Unterthiner & Hochreiter 2015.
Output elu(Output x, double alpha = 1, Name name = {});
struct SeluOptions {
  double alpha = 1.6732632423543772848170429916717;
  double gamma = 1.0507009873554804934193349852946;
  Name name{};
};
// gamma elu(x, alpha): Klambauer et al. 2017.
Output selu(Output x, SeluOptions options = {});
// x where x > 0, else alpha (exp(x / alpha) - 1): Barron 2017.
Output celu(Output x, double alpha = 1, Name name = {});
struct GeluOptions {
  bool approximate = false;  // with tanh instead of erf
  Name name{};
};
// x times the probability that a standard normal value is below x: Hendrycks & Gimpel 2016.
Output gelu(Output x, GeluOptions options = {});
Output silu(Output x, Name name = {});  // x sigmoid(x), also called swish
Output mish(Output x, Name name = {});  // x tanh(softplus(x)): Misra 2019
struct HardSigmoidOptions {
  double alpha = 0.2;
  double beta = 0.5;
  Name name{};
};
Output hard_sigmoid(Output x, HardSigmoidOptions options = {});  // alpha x + beta, clipped to [0, 1]
Output hard_swish(Output x, Name name = {});                     // x hard_sigmoid(x), alpha = 1/6: Howard et al. 2019
Output softsign(Output x, Name name = {});                       // x / (1 + |x|)
Output relu6(Output x, Name name = {});                          // x clipped to [0, 6]
Output prelu(Output x, Output slope, Name name = {});            // x where x >= 0, else slope x; any real dtype
Output thresholded_relu(Output x, double alpha = 1, Name name = {});  // x where x > alpha, else 0
struct ShrinkOptions {
  double bias = 0;
  double threshold = 0.5;
  Name name{};
};
// x + bias where x < -threshold, x - bias where x > threshold, else 0. Integers are computed in f64.
Output shrink(Output x, ShrinkOptions options = {});

}  // namespace troupe
