// Rarer binary functions, and Polygamma, on single elements, for host and device code.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <string_view>

#include <troupe/kernels/common/host_device.hpp>

namespace troupe {

struct Atan2Op {
  template <class T>
  TROUPE_HOST_DEVICE T operator()(T a, T b) const {
    return std::atan2(a, b);
  }
};

// NaN if b is, also where a is 0.
struct XlogyOp {
  template <class T>
  TROUPE_HOST_DEVICE T operator()(T a, T b) const {
    return a == T{0} && b == b ? T{0} : a * std::log(b);
  }
};

// zeta(s, q), the sum of (q + k)^-s for k = 0, 1, ...: the first terms, and the rest by the formula of Euler and
// Maclaurin. s >= 2. For q < 0 all terms up to q + k >= 10 are added: NaN if they are too many.
TROUPE_HOST_DEVICE inline double zeta(int s, double q) {
  // B_2j / (2j)! for j = 1, 2, ...
  constexpr double kBernoulli[] = {1.0 / 12,          -1.0 / 720,
                                   1.0 / 30240,       -1.0 / 1209600,
                                   1.0 / 47900160,    -691.0 / 1307674368000,
                                   1.0 / 74724249600, -3617.0 / 10670622842880000};
  if ((q <= 0 && q == std::floor(q)) || q < -1e6 || q != q) return std::numeric_limits<double>::quiet_NaN();
  double sum = 0;
  const double far = 10.0 + s;
  for (; q < far; q += 1) sum += std::pow(q, -s);
  sum += std::pow(q, 1 - s) / (s - 1) + 0.5 * std::pow(q, -s);
  double factor = s, power = std::pow(q, -s - 1);
  for (int j = 0; j < 8; ++j) {
    sum += kBernoulli[j] * factor * power;
    factor *= (s + 2.0 * j + 1) * (s + 2.0 * j + 2);
    power /= q * q;
  }
  return sum;
}

// The n-th derivative of digamma: (-1)^(n + 1) n! zeta(n + 1, x).
struct PolygammaOp {
  int s = 2;          // n + 1
  double factor = 1;  // (-1)^(n + 1) n!

  template <class T>
  TROUPE_HOST_DEVICE T operator()(T x) const {
    return static_cast<T>(factor * zeta(s, static_cast<double>(x)));
  }
};
// Throws invalid_argument, naming the node, unless n is from 1 to 100.
PolygammaOp polygamma_op(std::string_view node, std::int64_t n);

}  // namespace troupe
