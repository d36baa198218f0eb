// Elementwise ops on single elements, shared by CPU and GPU kernels, alone or as steps of FusedElementwise: IEEE for
// floating types, modulo 2^bits for integers.
//
// Elementary functions come from `Math`, supplied by each side: static functions exp, log, log1p, rsqrt, tanh, erf,
// softplus and pow of float and double, within 4 ulp of the true value. Rare ones are in rare_ops.hpp.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include <troupe/kernels/common/host_device.hpp>

namespace troupe {

// Type used for integer arithmetic: nothing overflows.
template <class T>
using Wrapping = std::common_type_t<std::make_unsigned_t<T>, unsigned>;

struct AddOp {
  template <class T>
  TROUPE_HOST_DEVICE T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
    else
      return a + b;
  }
};

struct SubOp {
  template <class T>
  TROUPE_HOST_DEVICE T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<Wrapping<T>>(a) - static_cast<Wrapping<T>>(b));
    else
      return a - b;
  }
};

struct MulOp {
  template <class T>
  TROUPE_HOST_DEVICE T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
    else
      return a * b;
  }
};

// Integers: rounds towards 0; the minimum divided by -1 is itself; 0 for a divisor of 0, which callers reject.
struct DivOp {
  template <class T>
  TROUPE_HOST_DEVICE T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      if (b == T{0}) return T{0};
      if constexpr (std::is_signed_v<T>)
        if (b == T{-1}) return SubOp{}(T{0}, a);
      return static_cast<T>(a / b);
    } else {
      return a / b;
    }
  }
};

// NaN if either operand is.
struct MaximumOp {
  template <class T>
  TROUPE_HOST_DEVICE T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>)
      return a > b ? a : b;
    else
      return ((a > b) | (a != a)) ? a : b;
  }
};

struct MinimumOp {
  template <class T>
  TROUPE_HOST_DEVICE T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>)
      return a < b ? a : b;
    else
      return ((a < b) | (a != a)) ? a : b;
  }
};

struct SquaredDifferenceOp {
  template <class T>
  TROUPE_HOST_DEVICE T operator()(T a, T b) const {
    const T d = SubOp{}(a, b);
    return MulOp{}(d, d);
  }
};

// Integers: 1 for an exponent below 0, which callers reject.
template <class Math>
struct PowOp {
  template <class T>
  TROUPE_HOST_DEVICE T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      T result = 1;
      for (; b > 0; b = static_cast<T>(b >> 1)) {
        if ((b & 1) != 0) result = MulOp{}(result, a);
        a = MulOp{}(a, a);
      }
      return result;
    } else {
      return Math::pow(a, b);
    }
  }
};

struct EqualOp {
  template <class T>
  TROUPE_HOST_DEVICE bool operator()(T a, T b) const {
    return a == b;
  }
};
struct NotEqualOp {
  template <class T>
  TROUPE_HOST_DEVICE bool operator()(T a, T b) const {
    return a != b;
  }
};
struct LessOp {
  template <class T>
  TROUPE_HOST_DEVICE bool operator()(T a, T b) const {
    return a < b;
  }
};
struct LessEqualOp {
  template <class T>
  TROUPE_HOST_DEVICE bool operator()(T a, T b) const {
    return a <= b;
  }
};
struct GreaterOp {
  template <class T>
  TROUPE_HOST_DEVICE bool operator()(T a, T b) const {
    return a > b;
  }
};
struct GreaterEqualOp {
  template <class T>
  TROUPE_HOST_DEVICE bool operator()(T a, T b) const {
    return a >= b;
  }
};
struct LogicalAndOp {
  TROUPE_HOST_DEVICE bool operator()(bool a, bool b) const { return a && b; }
};
struct LogicalOrOp {
  TROUPE_HOST_DEVICE bool operator()(bool a, bool b) const { return a || b; }
};
struct LogicalNotOp {
  TROUPE_HOST_DEVICE bool operator()(bool x) const { return !x; }
};

struct NegOp {
  template <class T>
  TROUPE_HOST_DEVICE T operator()(T x) const {
    if constexpr (std::is_integral_v<T>)
      return SubOp{}(T{0}, x);
    else
      return -x;
  }
};

struct AbsOp {
  template <class T>
  TROUPE_HOST_DEVICE T operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>)
      return std::fabs(x);
    else if constexpr (std::is_unsigned_v<T>)
      return x;
    else
      return x < T{0} ? SubOp{}(T{0}, x) : x;
  }
};

// -1, 0 or 1; zero keeps its sign, NaN stays NaN.
struct SignOp {
  template <class T>
  TROUPE_HOST_DEVICE T operator()(T x) const {
    T sign = x > T{0} ? T{1} : x;
    if constexpr (std::is_signed_v<T>) sign = x < T{0} ? T{-1} : sign;
    return sign;
  }
};

struct SquareOp {
  template <class T>
  TROUPE_HOST_DEVICE T operator()(T x) const {
    return MulOp{}(x, x);
  }
};

struct ReluOp {
  template <class T>
  TROUPE_HOST_DEVICE T operator()(T x) const {
    if constexpr (std::is_unsigned_v<T>)
      return x;
    else
      return x < T{0} ? T{0} : x;
  }
};

// `alpha` is rounded to T.
template <class Slope>
struct LeakyReluOp {
  Slope alpha;
  template <class T>
  TROUPE_HOST_DEVICE T operator()(T x) const {
    return x < T{0} ? static_cast<T>(alpha) * x : x;
  }
};

struct SqrtOp {
  template <class T>
  TROUPE_HOST_DEVICE T operator()(T x) const {
    return std::sqrt(x);
  }
};

struct FloorOp {
  template <class T>
  TROUPE_HOST_DEVICE T operator()(T x) const {
    return std::floor(x);
  }
};

struct CeilOp {
  template <class T>
  TROUPE_HOST_DEVICE T operator()(T x) const {
    return std::ceil(x);
  }
};

// To the nearest integer, halves to the even one.
struct RoundOp {
  template <class T>
  TROUPE_HOST_DEVICE T operator()(T x) const {
    return std::nearbyint(x);
  }
};

struct SoftsignOp {
  template <class T>
  TROUPE_HOST_DEVICE T operator()(T x) const {
    return x / (T{1} + AbsOp{}(x));
  }
};

template <class Math>
struct ExpOp {
  template <class T>
  TROUPE_HOST_DEVICE T operator()(T x) const {
    return Math::exp(x);
  }
};

template <class Math>
struct LogOp {
  template <class T>
  TROUPE_HOST_DEVICE T operator()(T x) const {
    return Math::log(x);
  }
};

template <class Math>
struct Log1pOp {
  template <class T>
  TROUPE_HOST_DEVICE T operator()(T x) const {
    return Math::log1p(x);
  }
};

template <class Math>
struct RsqrtOp {
  template <class T>
  TROUPE_HOST_DEVICE T operator()(T x) const {
    return Math::rsqrt(x);
  }
};

template <class Math>
struct TanhOp {
  template <class T>
  TROUPE_HOST_DEVICE T operator()(T x) const {
    return Math::tanh(x);
  }
};

template <class Math>
struct ErfOp {
  template <class T>
  TROUPE_HOST_DEVICE T operator()(T x) const {
    return Math::erf(x);
  }
};

// 1 / (1 + exp(-x)), without overflow at either end.
template <class Math>
struct SigmoidOp {
  template <class T>
  TROUPE_HOST_DEVICE T operator()(T x) const {
    const T e = Math::exp(-AbsOp{}(x));
    return (x < T{0} ? e : T{1}) / (T{1} + e);
  }
};

// log(1 + exp(x)).
template <class Math>
struct SoftplusOp {
  template <class T>
  TROUPE_HOST_DEVICE T operator()(T x) const {
    return Math::softplus(x);
  }
};

struct ReluGradOp {
  template <class T>
  TROUPE_HOST_DEVICE T operator()(T dy, T y) const {
    return y > T{0} ? dy : T{0};
  }
};
struct SigmoidGradOp {
  template <class T>
  TROUPE_HOST_DEVICE T operator()(T dy, T y) const {
    return dy * y * (T{1} - y);
  }
};
struct TanhGradOp {
  template <class T>
  TROUPE_HOST_DEVICE T operator()(T dy, T y) const {
    return dy * (T{1} - y * y);
  }
};
template <class Slope>
struct LeakyReluGradOp {
  Slope alpha;
  template <class T>
  TROUPE_HOST_DEVICE T operator()(T dy, T x) const {
    return x > T{0} ? dy : static_cast<T>(alpha) * dy;
  }
};

}  // namespace troupe
