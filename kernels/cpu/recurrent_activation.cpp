#include "troupe/kernels/cpu/recurrent_activation.hpp"

#include <algorithm>
#include <cmath>

#include <troupe/kernels/cpu/vector_math.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

struct NamedGateFunction {
  std::string_view name;
  GateFunction function;
};
constexpr NamedGateFunction kGateFunctions[] = {
    {"relu", GateFunction::relu},
    {"tanh", GateFunction::tanh},
    {"sigmoid", GateFunction::sigmoid},
    {"affine", GateFunction::affine},
    {"leaky_relu", GateFunction::leaky_relu},
    {"thresholded_relu", GateFunction::thresholded_relu},
    {"scaled_tanh", GateFunction::scaled_tanh},
    {"hard_sigmoid", GateFunction::hard_sigmoid},
    {"elu", GateFunction::elu},
    {"softsign", GateFunction::softsign},
    {"softplus", GateFunction::softplus},
};

template <class T, class Fn>
void for_values(T* values, std::int64_t count, Fn fn) {
  for (std::int64_t i = 0; i < count; ++i) values[i] = fn(values[i]);
}

template <class T, class Fn>
void for_flow(const T* __restrict values, T* __restrict flow, std::int64_t count, Fn slope) {
  for (std::int64_t i = 0; i < count; ++i) flow[i] *= slope(values[i]);
}

}  // namespace

GateFunction parse_gate_function(std::string_view name) {
  for (const NamedGateFunction& known : kGateFunctions)
    if (known.name == name) return known.function;
  invalid_argument(
      "there is no activation '{}' of gates; known are relu, tanh, sigmoid, affine, leaky_relu, thresholded_relu, "
      "scaled_tanh, hard_sigmoid, elu, softsign and softplus",
      name);
}

template <class T>
void activate(GateActivation f, double clip, T* values, std::int64_t count) {
  using M = VectorMath;
  const T a = static_cast<T>(f.alpha), b = static_cast<T>(f.beta);
  if (clip > 0) {
    const T most = static_cast<T>(clip);
    for_values(values, count, [most](T x) { return x > most ? most : x < -most ? -most : x; });
  }
  switch (f.function) {
    case GateFunction::relu:
      return for_values(values, count, [](T x) { return x < 0 ? T{0} : x; });
    case GateFunction::tanh:
      return for_values(values, count, [](T x) { return M::tanh(x); });
    case GateFunction::sigmoid:
      return for_values(values, count, [](T x) { return 1 / (1 + M::exp(-x)); });
    case GateFunction::affine:
      return for_values(values, count, [a, b](T x) { return a * x + b; });
    case GateFunction::leaky_relu:
      return for_values(values, count, [a](T x) { return x < 0 ? a * x : x; });
    case GateFunction::thresholded_relu:
      return for_values(values, count, [a](T x) { return x <= a ? T{0} : x; });
    case GateFunction::scaled_tanh:
      return for_values(values, count, [a, b](T x) { return a * M::tanh(b * x); });
    case GateFunction::hard_sigmoid:
      return for_values(values, count, [a, b](T x) {
        const T y = a * x + b;
        return y < 0 ? T{0} : y > 1 ? T{1} : y;
      });
    case GateFunction::elu:
      return for_values(values, count, [a](T x) { return x < 0 ? a * (M::exp(x) - 1) : x; });
    case GateFunction::softsign:
      return for_values(values, count, [](T x) { return x / (1 + std::fabs(x)); });
    case GateFunction::softplus:
      return for_values(values, count, [](T x) { return M::softplus(x); });
  }
}

template <class T>
void multiply_slope(GateActivation f, double clip, const T* values, T* flow, std::int64_t count) {
  const T a = static_cast<T>(f.alpha), b = static_cast<T>(f.beta);
  if (clip > 0) {  // a clipped value is that of a bound; where others are too, the slope is 0 or nearly so
    T low = static_cast<T>(-clip), high = static_cast<T>(clip);
    activate(f, 0, &low, 1);
    activate(f, 0, &high, 1);
    for_flow(values, flow, count, [low, high](T y) { return (y == low) | (y == high) ? T{0} : T{1}; });
  }
  switch (f.function) {
    case GateFunction::relu:
      return for_flow(values, flow, count, [](T y) { return y > 0 ? T{1} : T{0}; });
    case GateFunction::tanh:
      return for_flow(values, flow, count, [](T y) { return 1 - y * y; });
    case GateFunction::sigmoid:
      return for_flow(values, flow, count, [](T y) { return y * (1 - y); });
    case GateFunction::affine:
      return for_flow(values, flow, count, [a](T) { return a; });
    case GateFunction::leaky_relu:
      return for_flow(values, flow, count, [a](T y) { return y > 0 ? T{1} : a; });
    case GateFunction::thresholded_relu:
      return for_flow(values, flow, count, [](T y) { return y == 0 ? T{0} : T{1}; });
    case GateFunction::scaled_tanh: {
      const T inverse = a == 0 ? T{0} : 1 / a;
      return for_flow(values, flow, count, [a, b, inverse](T y) { return b * (a - y * y * inverse); });
    }
    case GateFunction::hard_sigmoid:
      return for_flow(values, flow, count, [a](T y) { return (y > 0) & (y < 1) ? a : T{0}; });
    case GateFunction::elu:
      return for_flow(values, flow, count, [a](T y) { return y > 0 ? T{1} : y + a; });
    case GateFunction::softsign:
      return for_flow(values, flow, count, [](T y) { return (1 - std::fabs(y)) * (1 - std::fabs(y)); });
    case GateFunction::softplus:
      return for_flow(values, flow, count, [](T y) { return 1 - VectorMath::exp(-y); });
  }
}

template void activate(GateActivation, double, float*, std::int64_t);
template void activate(GateActivation, double, double*, std::int64_t);
template void multiply_slope(GateActivation, double, const float*, float*, std::int64_t);
template void multiply_slope(GateActivation, double, const double*, double*, std::int64_t);

}  // namespace troupe
