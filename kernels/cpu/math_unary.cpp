#include "kernels/cpu/arithmetic.hpp"
#include "kernels/cpu/elementwise.hpp"
#include "kernels/cpu/families.hpp"
#include "kernels/cpu/vector_math.hpp"

namespace troupe {
namespace {

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

template <class Types, class Op>
void add_unary(KernelRegistry& registry, const std::string& name, Types types, Op op) {
  add_kernels(registry, name, types, [op]<class T>(KernelContext& context) { run_unary<T>(context, op); });
}

void register_real(KernelRegistry& registry) {
  add_unary(registry, "Neg", RealTypes{}, NegOp{});
  add_unary(registry, "Abs", RealTypes{}, AbsOp{});
  add_unary(registry, "Sign", RealTypes{}, SignOp{});
  add_unary(registry, "Square", RealTypes{}, SquareOp{});
  add_unary(registry, "Relu", RealTypes{}, ReluOp{});
}

void register_float(KernelRegistry& registry) {
  const FloatTypes types;
  add_unary(registry, "Exp", types, [](auto x) { return vector_math::exp(x); });
  add_unary(registry, "Log", types, [](auto x) { return vector_math::log(x); });
  add_unary(registry, "Log1p", types, [](auto x) { return vector_math::log1p(x); });
  add_unary(registry, "Sqrt", types, [](auto x) { return std::sqrt(x); });
  add_unary(registry, "Rsqrt", types, [](auto x) { return vector_math::rsqrt(x); });
  add_unary(registry, "Tanh", types, [](auto x) { return vector_math::tanh(x); });
  add_unary(registry, "Sigmoid", types, [](auto x) { return vector_math::sigmoid(x); });
  add_unary(registry, "Softplus", types, [](auto x) { return vector_math::softplus(x); });
  add_unary(registry, "Floor", types, [](auto x) { return std::floor(x); });
  add_unary(registry, "Erf", types, [](auto x) { return vector_math::erf(x); });
  add_factories(registry, "LeakyRelu", types, []<class T>(const KernelInit& init) -> Kernel {
    const auto alpha = static_cast<Compute<T>>(init.attributes.real("alpha"));
    return [alpha](KernelContext& context) {
      run_unary<T>(context, [alpha](Compute<T> x) { return x < 0 ? alpha * x : x; });
    };
  });
}

}  // namespace

void register_math_unary_kernels(KernelRegistry& registry) {
  register_real(registry);
  register_float(registry);
  add_kernels(registry, "LogicalNot", Types<bool>{},
              []<class T>(KernelContext& context) { run_unary<T>(context, [](bool x) { return !x; }); });
}

}  // namespace troupe
