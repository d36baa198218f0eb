// The elementwise ops of one operand, and the gradients of activations, on single elements: what both their own
// kernels and FusedElementwise compute. See arithmetic.hpp for those of two operands.
#pragma once

#include <troupe/kernels/cpu/arithmetic.hpp>
#include <troupe/kernels/cpu/vector_math.hpp>

namespace troupe {

struct NegOp {
  template <class T>
  T operator()(T x) const {
    if constexpr (std::is_integral_v<T>)
      return SubOp{}(T{0}, x);
    else
      return -x;
  }
};

struct AbsOp {
  template <class T>
  T operator()(T x) const {
    if constexpr (std::is_integral_v<T>)
      return x < T{0} ? SubOp{}(T{0}, x) : x;
    else
      return std::fabs(x);
  }
};

// -1, 0 or 1; a zero keeps its sign, NaN stays.
struct SignOp {
  template <class T>
  T operator()(T x) const {
    T sign = x > T{0} ? T{1} : x;
    if constexpr (std::is_signed_v<T>) sign = x < T{0} ? T{-1} : sign;
    return sign;
  }
};

struct SquareOp {
  template <class T>
  T operator()(T x) const {
    return MulOp{}(x, x);
  }
};

struct ReluOp {
  template <class T>
  T operator()(T x) const {
    return x < T{0} ? T{0} : x;
  }
};

struct ExpOp {
  template <class T>
  T operator()(T x) const {
    return vector_math::exp(x);
  }
};

struct LogOp {
  template <class T>
  T operator()(T x) const {
    return vector_math::log(x);
  }
};

struct Log1pOp {
  template <class T>
  T operator()(T x) const {
    return vector_math::log1p(x);
  }
};

struct SqrtOp {
  template <class T>
  T operator()(T x) const {
    return std::sqrt(x);
  }
};

struct RsqrtOp {
  template <class T>
  T operator()(T x) const {
    return vector_math::rsqrt(x);
  }
};

struct TanhOp {
  template <class T>
  T operator()(T x) const {
    return vector_math::tanh(x);
  }
};

struct SigmoidOp {
  template <class T>
  T operator()(T x) const {
    return vector_math::sigmoid(x);
  }
};

struct SoftplusOp {
  template <class T>
  T operator()(T x) const {
    return vector_math::softplus(x);
  }
};

struct FloorOp {
  template <class T>
  T operator()(T x) const {
    return std::floor(x);
  }
};

struct ErfOp {
  template <class T>
  T operator()(T x) const {
    return vector_math::erf(x);
  }
};

struct ReluGradOp {
  template <class T>
  T operator()(T dy, T y) const {
    return y > 0 ? dy : static_cast<T>(0);
  }
};

struct SigmoidGradOp {
  template <class T>
  T operator()(T dy, T y) const {
    return dy * y * (1 - y);
  }
};

struct TanhGradOp {
  template <class T>
  T operator()(T dy, T y) const {
    return dy * (1 - y * y);
  }
};

}  // namespace troupe
