// The scalars of Nadam's update t (graph/optimizers/optimizer_rules.hpp), for host and device code.
#pragma once

#include <cmath>

#include <troupe/kernels/common/host_device.hpp>

namespace troupe {

inline constexpr double kNadamDecay = 0.96;

// mu(t) = beta1 (1 - 0.96^t / 2).
TROUPE_HOST_DEVICE inline double nadam_momentum(double beta1, double t) {
  return beta1 * (1 - 0.5 * pow(kNadamDecay, t));
}

// mu(1) mu(2) ... mu(t), relative error below 1e-13, in the same time for any t: with q = 0.96 and the series of the
// logarithm, the sum over i of log(1 - q^i / 2) is that over k of -(q / 2)^k / k (1 - q^(k t)) / (1 - q^k).
TROUPE_HOST_DEVICE inline double nadam_momentum_product(double beta1, double t) {
  constexpr int kTerms = 50;  // the next is below 2^-51 / 51
  const double of_t = pow(kNadamDecay, t);
  double sum = 0, half = 1, power = 1, power_of_t = 1;
  for (int k = 1; k <= kTerms; ++k) {
    half *= 0.5 * kNadamDecay;
    power *= kNadamDecay;
    power_of_t *= of_t;
    sum += half / k * (1 - power_of_t) / (1 - power);
  }
  return pow(beta1, t) * exp(-sum);
}

// var -= (of_m m + of_g g) / (sqrt(of_v v) + epsilon)
struct NadamFactors {
  double of_m, of_g, of_v;
};
TROUPE_HOST_DEVICE inline NadamFactors nadam_factors(double beta1, double beta2, double rate, double t) {
  const double next = nadam_momentum(beta1, t + 1), product = nadam_momentum_product(beta1, t);
  return {rate * next / (1 - product * next), rate * (1 - nadam_momentum(beta1, t)) / (1 - product),
          1 / (1 - pow(beta2, t))};
}

}  // namespace troupe
