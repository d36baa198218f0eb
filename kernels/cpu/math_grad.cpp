#include <troupe/kernels/cpu/elementwise.hpp>
#include <troupe/kernels/cpu/elementwise_ops.hpp>
#include <troupe/kernels/cpu/families.hpp>

namespace troupe {
namespace {

// Gradients are not broadcast: both inputs have one shape.
template <class T, class Op>
void run_grad(KernelContext& context, Op op) {
  if (context.input(0).shape() != context.input(1).shape())
    invalid_argument("the gradient is {}, but the value it belongs to is {}", context.input(0).shape().to_string(),
                     context.input(1).shape().to_string());
  run_binary<T, T>(context, op);
}

template <class Op>
void add_grad(KernelRegistry& registry, const std::string& name, Op op) {
  add_kernels(registry, name, FloatTypes{}, [op]<class T>(KernelContext& context) { run_grad<T>(context, op); });
}

}  // namespace

void register_math_grad_kernels(KernelRegistry& registry) {
  add_kernels(registry, "ReluGrad", RealTypes{},
              []<class T>(KernelContext& context) { run_grad<T>(context, ReluGradOp{}); });
  add_grad(registry, "SigmoidGrad", SigmoidGradOp{});
  add_grad(registry, "TanhGrad", TanhGradOp{});
  add_factories(registry, "LeakyReluGrad", FloatTypes{}, []<class T>(const KernelInit& init) -> Kernel {
    const auto alpha = static_cast<Compute<T>>(init.attributes.real("alpha"));
    return [alpha](KernelContext& context) {
      run_grad<T>(context, [alpha](Compute<T> dy, Compute<T> x) { return x > 0 ? dy : alpha * dy; });
    };
  });
}

}  // namespace troupe
