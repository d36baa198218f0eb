#include <troupe/kernels/cpu/elementwise.hpp>
#include <troupe/kernels/cpu/elementwise_ops.hpp>
#include <troupe/kernels/cpu/families.hpp>

namespace troupe {
namespace {

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
  add_unary(registry, "Exp", types, ExpOp{});
  add_unary(registry, "Log", types, LogOp{});
  add_unary(registry, "Log1p", types, Log1pOp{});
  add_unary(registry, "Sqrt", types, SqrtOp{});
  add_unary(registry, "Rsqrt", types, RsqrtOp{});
  add_unary(registry, "Tanh", types, TanhOp{});
  add_unary(registry, "Sigmoid", types, SigmoidOp{});
  add_unary(registry, "Softplus", types, SoftplusOp{});
  add_unary(registry, "Floor", types, FloorOp{});
  add_unary(registry, "Erf", types, ErfOp{});
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
