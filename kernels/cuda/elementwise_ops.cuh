// The elementwise ops on single elements, twins of kernels/cpu/{arithmetic,elementwise_ops}.hpp: IEEE for floating
// types, modulo 2^bits for integers. The elementary functions are CUDA's, within 4 ulp of the true value.
#pragma once

#include <cstdint>
#include <type_traits>

namespace troupe::device {

// The type integer arithmetic happens in: nothing overflows.
template <class T>
using Wrapping = std::common_type_t<std::make_unsigned_t<T>, unsigned>;

struct AddOp {
  template <class T>
  __device__ T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
    else
      return a + b;
  }
};

struct SubOp {
  template <class T>
  __device__ T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<Wrapping<T>>(a) - static_cast<Wrapping<T>>(b));
    else
      return a - b;
  }
};

struct MulOp {
  template <class T>
  __device__ T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
    else
      return a * b;
  }
};

// Integers: towards 0; anything for a divisor of 0.
struct DivOp {
  template <class T>
  __device__ T operator()(T a, T b) const {
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
  __device__ T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>)
      return a > b ? a : b;
    else
      return a > b || a != a ? a : b;
  }
};

struct MinimumOp {
  template <class T>
  __device__ T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>)
      return a < b ? a : b;
    else
      return a < b || a != a ? a : b;
  }
};

struct SquaredDifferenceOp {
  template <class T>
  __device__ T operator()(T a, T b) const {
    const T d = SubOp{}(a, b);
    return MulOp{}(d, d);
  }
};

// Not inlined: it is much code.
__device__ __noinline__ inline float called_pow(float a, float b) { return powf(a, b); }
__device__ __noinline__ inline double called_pow(double a, double b) { return pow(a, b); }
// Integers: anything for an exponent below 0.
struct PowOp {
  template <class T>
  __device__ T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      T result = 1;
      for (; b > 0; b = static_cast<T>(b >> 1)) {
        if ((b & 1) != 0) result = MulOp{}(result, a);
        a = MulOp{}(a, a);
      }
      return result;
    } else {
      return called_pow(a, b);
    }
  }
};

struct EqualOp {
  template <class T>
  __device__ bool operator()(T a, T b) const {
    return a == b;
  }
};
struct NotEqualOp {
  template <class T>
  __device__ bool operator()(T a, T b) const {
    return a != b;
  }
};
struct LessOp {
  template <class T>
  __device__ bool operator()(T a, T b) const {
    return a < b;
  }
};
struct LessEqualOp {
  template <class T>
  __device__ bool operator()(T a, T b) const {
    return a <= b;
  }
};
struct GreaterOp {
  template <class T>
  __device__ bool operator()(T a, T b) const {
    return a > b;
  }
};
struct GreaterEqualOp {
  template <class T>
  __device__ bool operator()(T a, T b) const {
    return a >= b;
  }
};
struct LogicalAndOp {
  __device__ bool operator()(bool a, bool b) const { return a && b; }
};
struct LogicalOrOp {
  __device__ bool operator()(bool a, bool b) const { return a || b; }
};
struct LogicalNotOp {
  __device__ bool operator()(bool x) const { return !x; }
};

struct NegOp {
  template <class T>
  __device__ T operator()(T x) const {
    if constexpr (std::is_integral_v<T>)
      return SubOp{}(T{0}, x);
    else
      return -x;
  }
};

struct AbsOp {
  __device__ float operator()(float x) const { return fabsf(x); }
  __device__ double operator()(double x) const { return fabs(x); }
  template <class T>
  __device__ T operator()(T x) const {
    if constexpr (std::is_unsigned_v<T>)
      return x;
    else
      return x < T{0} ? SubOp{}(T{0}, x) : x;
  }
};

// -1, 0 or 1; a zero keeps its sign, NaN stays.
struct SignOp {
  template <class T>
  __device__ T operator()(T x) const {
    T sign = x > T{0} ? T{1} : x;
    if constexpr (std::is_signed_v<T>) sign = x < T{0} ? T{-1} : sign;
    return sign;
  }
};

struct SquareOp {
  template <class T>
  __device__ T operator()(T x) const {
    return MulOp{}(x, x);
  }
};

struct ReluOp {
  template <class T>
  __device__ T operator()(T x) const {
    if constexpr (std::is_unsigned_v<T>)
      return x;
    else
      return x < T{0} ? T{0} : x;
  }
};

struct LeakyReluOp {
  double alpha;
  template <class T>
  __device__ T operator()(T x) const {
    return x < T{0} ? static_cast<T>(alpha) * x : x;
  }
};

struct ExpOp {
  __device__ float operator()(float x) const { return expf(x); }
  __device__ double operator()(double x) const { return exp(x); }
};
struct LogOp {
  __device__ float operator()(float x) const { return logf(x); }
  __device__ double operator()(double x) const { return log(x); }
};
struct Log1pOp {
  __device__ float operator()(float x) const { return log1pf(x); }
  __device__ double operator()(double x) const { return log1p(x); }
};
struct SqrtOp {
  __device__ float operator()(float x) const { return sqrtf(x); }
  __device__ double operator()(double x) const { return sqrt(x); }
};
struct RsqrtOp {
  __device__ float operator()(float x) const { return rsqrtf(x); }
  __device__ double operator()(double x) const { return rsqrt(x); }
};
struct TanhOp {
  __device__ float operator()(float x) const { return tanhf(x); }
  __device__ double operator()(double x) const { return tanh(x); }
};
struct FloorOp {
  __device__ float operator()(float x) const { return floorf(x); }
  __device__ double operator()(double x) const { return floor(x); }
};
struct ErfOp {
  __device__ float operator()(float x) const { return erff(x); }
  __device__ double operator()(double x) const { return erf(x); }
};

// 1 / (1 + exp(-x)), without overflow on either side.
struct SigmoidOp {
  template <class T>
  __device__ T operator()(T x) const {
    const T e = ExpOp{}(-AbsOp{}(x));
    return (x < T{0} ? e : T{1}) / (T{1} + e);
  }
};

// log(1 + exp(x)) = max(x, 0) + log1p(e), e = exp(-|x|).
struct SoftplusOp {
  template <class T>
  __device__ T operator()(T x) const {
    return (x < T{0} ? T{0} : x) + Log1pOp{}(ExpOp{}(-AbsOp{}(x)));
  }
};

struct ReluGradOp {
  template <class T>
  __device__ T operator()(T dy, T y) const {
    return y > T{0} ? dy : T{0};
  }
};
struct SigmoidGradOp {
  template <class T>
  __device__ T operator()(T dy, T y) const {
    return dy * y * (T{1} - y);
  }
};
struct TanhGradOp {
  template <class T>
  __device__ T operator()(T dy, T y) const {
    return dy * (T{1} - y * y);
  }
};
struct LeakyReluGradOp {
  double alpha;
  template <class T>
  __device__ T operator()(T dy, T x) const {
    return x > T{0} ? dy : static_cast<T>(alpha) * dy;
  }
};

}  // namespace troupe::device
