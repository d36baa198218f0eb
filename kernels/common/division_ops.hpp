// Divisions that round otherwise than Div, and their remainders, on single elements. Integers: 0 for a divisor of 0,
// which callers reject.
#pragma once

#include <cmath>
#include <type_traits>

#include <troupe/kernels/common/elementwise_ops.hpp>

namespace troupe {

// The remainder of a quotient rounded towards 0, with the sign of a.
struct TruncateModOp {
  template <class T>
  TROUPE_HOST_DEVICE T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      return std::fmod(a, b);
    } else {
      if (b == T{0}) return T{0};
      if constexpr (std::is_signed_v<T>)
        if (b == T{-1}) return T{0};
      return static_cast<T>(a % b);
    }
  }
};

// The remainder of a quotient rounded down, with the sign of b.
struct FloorModOp {
  template <class T>
  TROUPE_HOST_DEVICE T operator()(T a, T b) const {
    const T rest = TruncateModOp{}(a, b);
    if constexpr (std::is_floating_point_v<T>) {
      if (rest == T{0}) return std::copysign(T{0}, b);
      return (rest < T{0}) != (b < T{0}) ? rest + b : rest;
    } else if constexpr (std::is_signed_v<T>) {
      return rest != T{0} && (rest < T{0}) != (b < T{0}) ? static_cast<T>(rest + b) : rest;
    } else {
      return rest;
    }
  }
};

// Integers: the minimum divided by -1 is itself.
struct FloorDivOp {
  template <class T>
  TROUPE_HOST_DEVICE T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      return std::floor(a / b);
    } else {
      const T quotient = DivOp{}(a, b);
      if constexpr (std::is_signed_v<T>) {
        const T rest = TruncateModOp{}(a, b);
        return rest != T{0} && (rest < T{0}) != (b < T{0}) ? static_cast<T>(quotient - 1) : quotient;
      } else {
        return quotient;
      }
    }
  }
};

}  // namespace troupe
