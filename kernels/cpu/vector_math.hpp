// Elementary functions without branches or tables, for loops that the compiler vectorises: an element's bits do not
// depend on its place in the loop (only IEEE operations, none contracted). Within 4 ulp of the exact value; infinities,
// NaN and denormal arguments and results are handled. double goes to the C library, one element at a time.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace troupe {

// e^x. x = n ln 2 + r with |r| <= ln 2 / 2; e^r by its Taylor polynomial of degree 7, whose remainder is below 2^-27.
inline float vexp(float x) {
  x = x > 89.0f ? 89.0f : x;  // both bounds lie where the result has overflowed to infinity or underflowed to 0
  x = x < -104.0f ? -104.0f : x;
  constexpr float kRound = 0x1.8p23f;  // adding it rounds to an integer, held in the low bits
  const float shifted = x * 0x1.715476p0f + kRound;
  const float n = shifted - kRound;
  float r = x - n * 0x1.62e400p-1f;  // 15 bits: the product is exact
  r = r - n * 0x1.7f7d1cp-20f;
  float p = 0x1.a01a02p-13f;
  p = p * r + 0x1.6c16c2p-10f;
  p = p * r + 0x1.111112p-7f;
  p = p * r + 0x1.555556p-5f;
  p = p * r + 0x1.555556p-3f;
  p = p * r + 0.5f;
  p = (p * r) * r + r + 1.0f;
  // 2^n in two factors, since n reaches from -150 to 129. Unsigned: for NaN the bits mean nothing but must not overflow.
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(kRound);
  const auto half = static_cast<std::uint32_t>(static_cast<std::int32_t>(bits) >> 1);
  const float low = std::bit_cast<float>((half + 127u) << 23);
  const float high = std::bit_cast<float>((bits - half + 127u) << 23);
  return p * low * high;
}

// ln x. x = 2^e m with m in [sqrt(1/2), sqrt(2)); with s = (m-1)/(m+1), ln m = 2 s + 2/3 s^3 + 2/5 s^5 + ...
inline float vlog(float x) {
  const bool tiny = x < 0x1p-126f;
  const float scaled = tiny ? x * 0x1p24f : x;
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(scaled);
  // Subtracting the bits of sqrt(1/2) moves the exponent's step from 1 to sqrt(1/2).
  const std::uint32_t offset = bits - 0x3f3504f3u;
  const std::int32_t exponent = static_cast<std::int32_t>(offset) >> 23;
  const float m = std::bit_cast<float>((offset & 0x007fffffu) + 0x3f3504f3u);
  const float e = static_cast<float>(exponent) - (tiny ? 24.0f : 0.0f);
  const float f = m - 1.0f;
  const float s = f / (2.0f + f);
  const float z = s * s;
  const float tail = z * (0x1.555556p-1f + z * (0x1.99999ap-2f + z * (0x1.24924ap-2f + z * (0x1.c71c72p-3f + z * 0x1.745d18p-3f))));
  // ln m = f - h + s (h + tail) with h = f^2 / 2: the leading term is exact.
  const float h = 0.5f * f * f;
  const float y = e * 0x1.62e400p-1f + (f - (h - (s * (h + tail) + e * 0x1.7f7d1cp-20f)));
  const float special = x == 0.0f ? -std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
  const bool finite = x < std::numeric_limits<float>::infinity();
  const float above = finite ? y : x;  // infinity and NaN stay
  return x <= 0.0f ? special : above;
}

// ln(1 + x) for x >= 0. The rounding error of 1 + x is put back to first order.
inline float vlog1p(float x) {
  const float w = 1.0f + x;
  const float lost = x - (w - 1.0f);
  const float y = vlog(w) + lost / w;
  return x < std::numeric_limits<float>::infinity() ? y : x;
}

inline double vexp(double x) { return std::exp(x); }
inline double vlog(double x) { return std::log(x); }
inline double vlog1p(double x) { return std::log1p(x); }

}  // namespace troupe
