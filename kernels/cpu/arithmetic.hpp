// Arithmetic on single elements: IEEE for floating types, modulo 2^bits for integers (no overflow is an
// error).
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace troupe {

// The type integer arithmetic happens in: unsigned, and not narrower than int, so that nothing overflows.
template <class T>
using Wrapping = std::common_type_t<std::make_unsigned_t<T>, unsigned>;

struct AddOp {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
    else
      return a + b;
  }
};

struct SubOp {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<Wrapping<T>>(a) - static_cast<Wrapping<T>>(b));
    else
      return a - b;
  }
};

struct MulOp {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
    else
      return a * b;
  }
};

// Integers: rounds towards zero; the divisor must not be 0; the least value divided by -1 is itself.
struct DivOp {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (!std::is_integral_v<T>)
      return a / b;
    else if constexpr (std::is_signed_v<T>)
      return b == T{-1} ? SubOp{}(T{0}, a) : static_cast<T>(a / b);
    else
      return static_cast<T>(a / b);
  }
};

// NaN if either operand is.
struct MaximumOp {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>)
      return a > b ? a : b;
    else
      return ((a > b) | (a != a)) ? a : b;
  }
};

struct MinimumOp {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>)
      return a < b ? a : b;
    else
      return ((a < b) | (a != a)) ? a : b;
  }
};

struct SquaredDifferenceOp {
  template <class T>
  T operator()(T a, T b) const {
    const T d = SubOp{}(a, b);
    return MulOp{}(d, d);
  }
};

// Integers: the exponent must not be negative.
struct PowOp {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      T result = 1;
      for (; b > 0; b = static_cast<T>(b >> 1)) {
        if (b & 1) result = MulOp{}(result, a);
        a = MulOp{}(a, a);
      }
      return result;
    } else {
      return std::pow(a, b);
    }
  }
};

}  // namespace troupe
