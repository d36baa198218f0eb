// Gradients of activations.
#include <troupe/kernels/cpu/elementwise.hpp>
#include <troupe/kernels/cpu/elementwise_families.hpp>
#include <troupe/kernels/cpu/families.hpp>

namespace troupe {
namespace {

template <class T, class Op>
void run_grad(KernelContext& context, Op op) {
  check_gradient_shape(context.input(0).shape(), context.input(1).shape());
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
  for_each_float_gradient([&](const char* name, auto op) { add_grad(registry, name, op); });
  add_factories(registry, "LeakyReluGrad", FloatTypes{}, []<class T>(const KernelInit& init) -> Kernel {
    const LeakyReluGradOp<Compute<T>> op{static_cast<Compute<T>>(init.attributes.real("alpha"))};
    return [op](KernelContext& context) { run_grad<T>(context, op); };
  });
}

}  // namespace troupe
