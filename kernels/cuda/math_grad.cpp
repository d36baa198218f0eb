// Gradients of activations. Twin of kernels/cpu/math_grad.cpp.
#include <troupe/kernels/cuda/elementwise.hpp>
#include <troupe/kernels/cuda/math_grad_launch.hpp>

namespace troupe {
namespace {

void run_grad(KernelContext& context, const char* name, GradOp op, double alpha) {
  check_gradient_shape(context.input(0).shape(), context.input(1).shape());
  const DType dtype = context.input(0).dtype();
  run_binary(context, name, dtype, [&, stream = cuda_device(context).stream()](const BinaryArguments& arguments) {
    return launch_grad(op, dtype, arguments, alpha, stream);
  });
}

// `name` must be a literal: it is kept.
void add_grad(KernelRegistry& registry, const char* name, std::initializer_list<DType> dtypes, GradOp op) {
  add_cuda(registry, name, dtypes, [name, op](const KernelInit&) -> Kernel {
    return [name, op](KernelContext& context) { run_grad(context, name, op, 0); };
  });
}

}  // namespace

void register_cuda_math_grad_kernels(KernelRegistry& registry) {
  add_grad(registry, "ReluGrad", kRealDTypes, GradOp::ReluGrad);
#define TROUPE_ADD(NAME) add_grad(registry, #NAME, kFloatDTypes, GradOp::NAME);
  TROUPE_FLOAT_GRADIENT_OPS(TROUPE_ADD)
  add_cuda(registry, "LeakyReluGrad", kFloatDTypes, [](const KernelInit& init) -> Kernel {
    return [alpha = init.attributes.real("alpha")](KernelContext& context) {
      run_grad(context, "LeakyReluGrad", GradOp::LeakyReluGrad, alpha);
    };
  });
}
#undef TROUPE_ADD

}  // namespace troupe
