// The rarer elementary functions on single elements, as in elementwise_ops.hpp. `Math` has a static function of each,
// for float and double.
#pragma once

#include <cmath>
#include <limits>

#include <troupe/kernels/common/host_device.hpp>

namespace troupe {

#define TROUPE_RARE_OP(NAME, FUNCTION)           \
  template <class Math>                          \
  struct NAME##Op {                              \
    template <class T>                           \
    TROUPE_HOST_DEVICE T operator()(T x) const { \
      return Math::FUNCTION(x);                  \
    }                                            \
  };
TROUPE_RARE_OP(Sin, sin)
TROUPE_RARE_OP(Cos, cos)
TROUPE_RARE_OP(Tan, tan)
TROUPE_RARE_OP(Asin, asin)
TROUPE_RARE_OP(Acos, acos)
TROUPE_RARE_OP(Atan, atan)
TROUPE_RARE_OP(Sinh, sinh)
TROUPE_RARE_OP(Cosh, cosh)
TROUPE_RARE_OP(Asinh, asinh)
TROUPE_RARE_OP(Acosh, acosh)
TROUPE_RARE_OP(Atanh, atanh)
TROUPE_RARE_OP(Expm1, expm1)
TROUPE_RARE_OP(Erfc, erfc)
TROUPE_RARE_OP(Lgamma, lgamma)
TROUPE_RARE_OP(Digamma, digamma)
#undef TROUPE_RARE_OP

// The derivative of log |gamma(x)|: by recurrence to x >= 10, and there by the asymptotic series (Abramowitz & Stegun
// 6.3.18); for x < 1/2 by reflection. NaN at the poles, the integers up to 0.
TROUPE_HOST_DEVICE inline double digamma_of(double x) {
  double result = 0;
  if (x < 0.5) {
    const double whole = std::floor(x);
    if (x == whole) return std::numeric_limits<double>::quiet_NaN();
    result = -3.14159265358979323846 / std::tan(3.14159265358979323846 * (x - whole));
    x = 1 - x;
  }
  for (; x < 10; x += 1) result -= 1 / x;
  if (!(x < std::numeric_limits<double>::infinity())) return x;
  const double z = 1 / (x * x);
  double series = -1.0 / 12;
  series = series * z + 691.0 / 32760;
  series = series * z - 1.0 / 132;
  series = series * z + 1.0 / 240;
  series = series * z - 1.0 / 252;
  series = series * z + 1.0 / 120;
  series = series * z - 1.0 / 12;
  return result + (std::log(x) - 0.5 / x + series * z);
}

}  // namespace troupe
