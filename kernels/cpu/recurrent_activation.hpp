// The activations of recurrent cells' gates, and their slopes as functions of the activated value: a gradient needs no
// other.
#pragma once

#include <cstdint>
#include <string_view>

namespace troupe {

enum class GateFunction : std::uint8_t {
  relu,
  tanh,
  sigmoid,
  affine,            // alpha x + beta
  leaky_relu,        // x < 0: alpha x
  thresholded_relu,  // x > alpha: x, else 0
  scaled_tanh,       // alpha tanh(beta x)
  hard_sigmoid,      // alpha x + beta, within [0, 1]
  elu,               // x < 0: alpha (exp(x) - 1)
  softsign,          // x / (1 + |x|)
  softplus,          // log(1 + exp(x))
};

// Throws invalid_argument for an unknown name ("scaled_tanh").
GateFunction parse_gate_function(std::string_view name);

struct GateActivation {
  GateFunction function = GateFunction::sigmoid;
  double alpha = 0;
  double beta = 0;
};

// values[i] = f(values[i]), within [-clip, clip] before if clip > 0.
template <class T>
void activate(GateActivation f, double clip, T* values, std::int64_t count);

// flow[i] *= the slope where activate() gave values[i]. leaky_relu and elu need alpha >= 0.
template <class T>
void multiply_slope(GateActivation f, double clip, const T* values, T* flow, std::int64_t count);

extern template void activate(GateActivation, double, float*, std::int64_t);
extern template void activate(GateActivation, double, double*, std::int64_t);
extern template void multiply_slope(GateActivation, double, const float*, float*, std::int64_t);
extern template void multiply_slope(GateActivation, double, const double*, double*, std::int64_t);

}  // namespace troupe
