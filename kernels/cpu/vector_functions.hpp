// The rarer elementary functions of one element, in the manner of vector_math.hpp: the Math of
// kernels/common/rare_ops.hpp. Those that call the C library for float are slower, since loops of calls are not
// vectorised.
#pragma once

#include <numbers>

#include <troupe/kernels/common/rare_ops.hpp>
#include <troupe/kernels/cpu/vector_math.hpp>

namespace troupe {

struct VectorFunctions : VectorMath {
  static constexpr float kHalfPi = std::numbers::pi_v<float> / 2;
  static constexpr float kPi = std::numbers::pi_v<float>;
  static constexpr float kLn2 = std::numbers::ln2_v<float>;

  static double sin(double x) { return std::sin(x); }
  static double cos(double x) { return std::cos(x); }
  static double tan(double x) { return std::tan(x); }
  static double asin(double x) { return std::asin(x); }
  static double acos(double x) { return std::acos(x); }
  static double atan(double x) { return std::atan(x); }
  static double sinh(double x) { return std::sinh(x); }
  static double cosh(double x) { return std::cosh(x); }
  static double asinh(double x) { return std::asinh(x); }
  static double acosh(double x) { return std::acosh(x); }
  static double atanh(double x) { return std::atanh(x); }
  static double expm1(double x) { return std::expm1(x); }
  static double erfc(double x) { return std::erfc(x); }
  static float erfc(float x) { return static_cast<float>(std::erfc(static_cast<double>(x))); }
  static double lgamma(double x) {
    int sign = 0;  // lgamma() would write it to a global variable
    return ::lgamma_r(x, &sign);
  }
  static float lgamma(float x) { return static_cast<float>(lgamma(static_cast<double>(x))); }
  static double digamma(double x) { return digamma_of(x); }
  static float digamma(float x) { return static_cast<float>(digamma_of(static_cast<double>(x))); }

  // ---- sin, cos, tan

  // The largest |x| of the *_near functions; beyond it those of the C library compute.
  static constexpr float kNear = 1e8f;
  static bool is_near(float x) { return std::fabs(x) <= kNear; }  // not NaN

  // x = n pi/2 + r, |r| <= pi/4; n modulo 2^32. In double, with pi/2 in two parts: the first has so few bits that its
  // product with n is exact. No float is closer to a multiple of pi/2 than 2^-30, so that r keeps its digits.
  struct Turned {
    std::int32_t n;
    float r;
  };
  static Turned turn(float x) {
    constexpr double kRound = 0x1.8p52, kHigh = 0x1.921fb54p0, kLow = 0x1.10b4611a62633p-30;
    const auto wide = static_cast<double>(x);
    const double shifted = wide * 0x1.45f306dc9c883p-1 + kRound;
    const double n = shifted - kRound;
    return {static_cast<std::int32_t>(std::bit_cast<std::int64_t>(shifted)),
            static_cast<float>((wide - n * kHigh) - n * kLow)};
  }
  static float sin_turned(float r) {
    const float z = r * r;
    float p = -0.0001951665618f;
    p = p * z + 0.00833217334f;
    p = p * z - 0.1666665524f;
    return p * z * r + r;
  }
  static float cos_turned(float r) {
    const float z = r * r;
    float p = 2.443772973e-05f;
    p = p * z - 0.001388736186f;
    p = p * z + 0.04166664556f;
    return p * z * z + (1.0f - 0.5f * z);
  }
  static float with_sign(float x, bool negative) {
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) ^ (static_cast<std::uint32_t>(negative) << 31));
  }
  static float sin_near(float x) {
    const Turned t = turn(x);
    const float s = sin_turned(t.r), c = cos_turned(t.r);
    const float value = with_sign((t.n & 1) != 0 ? c : s, (t.n & 2) != 0);
    return x == 0.0f ? x : value;
  }
  static float cos_near(float x) {
    const Turned t = turn(x);
    const float s = sin_turned(t.r), c = cos_turned(t.r);
    return with_sign((t.n & 1) != 0 ? s : c, ((t.n + 1) & 2) != 0);
  }
  static float tan_near(float x) {
    const Turned t = turn(x);
    const float s = sin_turned(t.r), c = cos_turned(t.r);
    const float value = ((t.n & 1) != 0 ? c : s) / ((t.n & 1) != 0 ? -s : c);
    return x == 0.0f ? x : value;
  }
  static float sin(float x) { return is_near(x) ? sin_near(x) : std::sin(x); }
  static float cos(float x) { return is_near(x) ? cos_near(x) : std::cos(x); }
  static float tan(float x) { return is_near(x) ? tan_near(x) : std::tan(x); }

  // ---- their inverses

  // By atan(a) = pi/4 + atan((a - 1)/(a + 1)) = pi/2 + atan(-1/a), to arguments up to tan(pi/8).
  static float atan(float x) {
    const float a = std::fabs(x);
    const bool large = a > 2.4142136f, middle = a > 0.41421357f;
    const float numerator = large ? -1.0f : (middle ? a - 1.0f : a),
                denominator = large ? a : (middle ? a + 1.0f : 1.0f);
    const float t = numerator / denominator;
    const float z = t * t;
    float p = 0.08057877421f;
    p = p * z - 0.1387915164f;
    p = p * z + 0.199778676f;
    p = p * z - 0.3333295286f;
    const float value = (large ? kHalfPi : (middle ? kHalfPi / 2 : 0.0f)) + (p * z * t + t);
    return std::copysign(value, x);
  }

  // asin(s) for s = |x| up to 1/2, and for larger ones of s = sqrt((1 - |x|)/2), where asin(|x|) = pi/2 - 2 asin(s).
  struct ReducedAsin {
    bool large;
    float value;
  };
  static ReducedAsin reduce_asin(float x) {
    const float a = std::fabs(x);
    const bool large = a > 0.5f;
    const float z = large ? 0.5f * (1.0f - a) : a * a;
    const float s = large ? std::sqrt(z) : a;
    float p = 0.0422305502f;
    p = p * z + 0.02414098568f;
    p = p * z + 0.04547834396f;
    p = p * z + 0.07495232671f;
    p = p * z + 0.1666675359f;
    return {large, p * z * s + s};
  }
  static float asin(float x) {
    const ReducedAsin reduced = reduce_asin(x);
    return std::copysign(reduced.large ? kHalfPi - 2 * reduced.value : reduced.value, x);
  }
  static float acos(float x) {
    const ReducedAsin reduced = reduce_asin(x);
    const float twice = 2 * reduced.value;
    const float large = x < 0.0f ? kPi - twice : twice, small = kHalfPi - std::copysign(reduced.value, x);
    return reduced.large ? large : small;
  }

  // ---- hyperbolic

  // exp(x) - 1 = 2^n (exp(r) - 1) + (2^n - 1), computed as twice its half: 2^128 is no float.
  static float expm1(float x) {
    float clamped = x > 88.8f ? 88.8f : x;
    clamped = clamped < -20.0f ? -20.0f : clamped;
    const ReducedExp reduced = reduce_exp(clamped);
    const float less_one = reduced.tail() + reduced.r;
    const float scale = power_of_two(reduced.n - 1);
    const float half = scale * less_one + (scale - 0.5f);
    const float value = reduced.n == 0 ? less_one : half + half;
    return x == 0.0f ? x : value;
  }
  static float half_exp(float a) { return exp_scaled<-1>(a > 96.0f ? 96.0f : a); }  // exp(a) / 2, a >= 0
  static float sinh(float x) {
    const float a = std::fabs(x);
    const float z = a * a;
    float p = 2.816957476e-06f;
    p = p * z + 0.0001983615948f;
    p = p * z + 0.0083333496f;
    p = p * z + 0.1666666716f;
    const float small = p * z * a + a;
    const float half = half_exp(a);
    const float large = half - 0.25f / half;
    return std::copysign(a < 1.0f ? small : large, x);
  }
  static float cosh(float x) {
    const float half = half_exp(std::fabs(x));
    return half + 0.25f / half;
  }

  // log1p(a + a^2 / (1 + sqrt(a^2 + 1))); from 2^30, where a^2 might overflow, log(2 a).
  static float asinh(float x) {
    const float a = std::fabs(x);
    const bool large = a > 0x1p30f;
    const float square = a * a;
    const float value = log1p(large ? a : a + square / (1.0f + std::sqrt(square + 1.0f)));
    return std::copysign(large ? value + kLn2 : value, x);
  }
  static float acosh(float x) {
    const bool large = x > 0x1p30f;
    const float t = x - 1.0f;
    const float value = log1p(large ? x : t + std::sqrt(t * (t + 2.0f)));
    return x >= 1.0f ? (large ? value + kLn2 : value) : kNaN;
  }
  static float atanh(float x) {
    const float a = std::fabs(x);
    return std::copysign(0.5f * log1p(2 * a / (1.0f - a)), x);
  }
};

// VectorFunctions for arguments that are near, without branches.
struct NearFunctions : VectorFunctions {
  static float sin(float x) { return sin_near(x); }
  static float cos(float x) { return cos_near(x); }
  static float tan(float x) { return tan_near(x); }
};

}  // namespace troupe
