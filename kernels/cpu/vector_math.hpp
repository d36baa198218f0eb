// Elementary functions of one element, within 4 ulp of the true value. For float they are branch-free arithmetic that
// the compiler vectorises: range reduction and a polynomial, following Cody and Waite, "Software Manual for the
// Elementary Functions" (1980). Coefficients are Chebyshev fits over the reduced range. For double, and for pow(), they
// are those of the C library. This is the Math of kernels/common/elementwise_ops.hpp.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace troupe {

struct VectorMath {
  static constexpr float kInfinity = std::numeric_limits<float>::infinity();
  static constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  // ln 2 as a short part, whose product with a small integer is exact, and the remainder.
  static constexpr float kLn2High = 0.693359375f;
  static constexpr float kLn2Low = -2.12194440e-4f;

  static float pow(float a, float b) { return std::pow(a, b); }
  static double pow(double a, double b) { return std::pow(a, b); }
  static double exp(double x) { return std::exp(x); }
  static double log(double x) { return std::log(x); }
  static double log1p(double x) { return std::log1p(x); }
  static double tanh(double x) { return std::tanh(x); }
  static double erf(double x) { return std::erf(x); }

  static float exp(float x) {
    float clamped = x > 89.0f ? 89.0f : x;
    clamped = clamped < -104.0f ? -104.0f : clamped;
    return exp_scaled<0>(clamped);
  }

  // x = n ln(2) + r, |r| <= ln(2)/2.
  struct ReducedExp {
    std::int32_t n;
    float r;
    // exp(r) - 1 - r
    float tail() const {
      float p = 0.001392768462f;
      p = p * r + 0.008364380693f;
      p = p * r + 0.04166654542f;
      p = p * r + 0.1666656963f;
      p = p * r + 0.5f;
      return p * r * r;
    }
  };
  static ReducedExp reduce_exp(float x) {
    constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer, in the low bits
    const float shifted = x * 1.44269504f + kRound;
    const auto n = std::bit_cast<std::int32_t>(shifted) - std::bit_cast<std::int32_t>(kRound);
    const float whole = shifted - kRound;
    return {n, (x - whole * kLn2High) - whole * kLn2Low};
  }
  static float power_of_two(std::int32_t n) { return std::bit_cast<float>(static_cast<std::uint32_t>(n + 127) << 23); }

  // 2^kPower exp(x) for x in [-104, 96]: 2^n exp(r), with the power applied as two factors, since n ranges from -150
  // to 139.
  template <std::int32_t kPower>
  static float exp_scaled(float x) {
    const ReducedExp reduced = reduce_exp(x);
    const float value = (reduced.tail() + reduced.r) + 1.0f;
    const std::int32_t n = reduced.n + kPower, half = n >> 1;
    return value * power_of_two(half) * power_of_two(n - half);
  }

  // log(x) + offset ln 2 for positive, normal x: log(x) = e ln 2 + log(1 + f), 1 + f in [sqrt(1/2), sqrt(2)).
  static float log_normal(float x, std::int32_t offset) {
    const auto bits = std::bit_cast<std::uint32_t>(x);
    // 0x3f3504f3 is sqrt(1/2): the exponent of x / sqrt(1/2), rounded down. (Unsigned: callers may pass any bits.)
    const std::int32_t e = static_cast<std::int32_t>(bits - 0x3f3504f3u) >> 23;
    const float f = std::bit_cast<float>(bits - (static_cast<std::uint32_t>(e) << 23)) - 1.0f;
    const auto exponent = static_cast<float>(e + offset);
    float p = 0.06971611471f;
    p = p * f - 0.1147973385f;
    p = p * f + 0.1168541992f;
    p = p * f - 0.1242568733f;
    p = p * f + 0.1424905765f;
    p = p * f - 0.1666780232f;
    p = p * f + 0.2000071575f;
    p = p * f - 0.2499999696f;
    p = p * f + 0.3333333118f;
    const float square = f * f;
    const float tail = p * f * square + exponent * kLn2Low - 0.5f * square;
    return (f + tail) + exponent * kLn2High;
  }

  static float log(float x) {
    const bool subnormal = x < std::numeric_limits<float>::min();
    float value = log_normal(subnormal ? x * 0x1p25f : x, subnormal ? -25 : 0);
    value = x == 0.0f ? -kInfinity : value;
    value = x == kInfinity ? kInfinity : value;
    return x >= 0.0f ? value : kNaN;
  }

  // log(u) for u = 1 + x rounded, plus the rounding error (Higham, "Accuracy and Stability", 1.14.1).
  static float log1p(float x) {
    const float u = 1.0f + x;
    const float lost = x - (u - 1.0f);
    float value = log(u);
    const float correction = lost / u;
    value = ((u > 0.0f) & (u < kInfinity)) ? value + correction : value;
    return x == 0.0f ? x : value;
  }

  static float tanh(float x) {
    const float a = std::fabs(x);
    const float t = x * x;
    float p = -0.006096299523f;
    p = p * t + 0.02099689404f;
    p = p * t - 0.05385084952f;
    p = p * t + 0.1333276934f;
    p = p * t - 0.3333332894f;
    const float small = p * t * x + x;
    const float large = std::copysign(1.0f - 2.0f / (exp(a + a) + 1.0f), x);
    return a < 0.625f ? small : large;
  }

  // Polynomials by Estrin's scheme: Horner's would wait for each product, and no other element is near enough to be
  // computed meanwhile.
  static float erf(float x) {
    const float t = x * x, t3 = t * t * t;
    const float low = (0.112837825f * t - 0.3761263847f) * t + 1.128379167f;
    const float middle = (-0.0008484080406f * t + 0.005221031808f) * t - 0.02686543073f;
    const float high = -9.667044571e-6f * t + 0.0001126595903f;
    const float small = ((high * t3 + middle) * t3 + low) * x;
    // 1 - exp(q) for |x| in [1, 4]; erf(4) rounds to 1.
    float a = std::fabs(x);
    a = a > 4.0f ? 4.0f : a;
    const float a3 = a * a * a;
    const float first = (0.6318260516f * a + 1.130233435f) * a - 0.0003201380497f;
    const float second = (0.004759596293f * a - 0.02642113601f) * a + 0.1100800829f;
    const float third = (-1.637151415e-6f * a + 4.605804269e-5f) * a - 0.0005968056257f;
    const float q = (third * a3 + second) * a3 + first;
    const float large = std::copysign(1.0f - exp(-q), x);
    return std::fabs(x) < 1.0f ? small : large;
  }

  // log(1 + exp(x)) = max(x, 0) + log1p(e), e = exp(-|x|).
  static double softplus(double x) { return (x < 0 ? 0 : x) + log1p(exp(-std::fabs(x))); }
  // Like log1p(), but e is in [0, 1], so there are no special cases.
  static float softplus(float x) {
    const float e = exp(-std::fabs(x));
    const float u = 1.0f + e;
    const float tail = log_normal(u, 0) + (e - (u - 1.0f)) / u;
    return (x < 0.0f ? 0.0f : x) + tail;
  }

  template <class T>
  static T rsqrt(T x) {
    return T{1} / std::sqrt(x);
  }
};

}  // namespace troupe
