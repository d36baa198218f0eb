// Unary ops. Twin of kernels/cpu/math_unary.cpp.
#include <troupe/devices/cuda/cuda_error.hpp>
#include <troupe/kernels/cuda/elementwise.hpp>
#include <troupe/kernels/cuda/math_unary_launch.hpp>

namespace troupe {
namespace {

void run_unary(KernelContext& context, const char* name, UnaryOp op, double alpha) {
  const DType dtype = context.input(0).dtype();
  const Shape shape = context.input(0).shape();
  const std::byte* x = context.input(0).raw();
  Tensor out = context.take_or_allocate(0, dtype, shape);
  check_cuda(launch_unary(op, dtype, x, out.mutable_raw(), out.num_elements(), alpha, cuda_device(context).stream()),
             name);
  context.set_output(0, std::move(out));
}

// `name` must be a literal: it is kept.
void add_unary(KernelRegistry& registry, const char* name, std::initializer_list<DType> dtypes, UnaryOp op) {
  add_cuda(registry, name, dtypes, [name, op](const KernelInit&) -> Kernel {
    return [name, op](KernelContext& context) { run_unary(context, name, op, 0); };
  });
}

}  // namespace

void register_cuda_math_unary_kernels(KernelRegistry& registry) {
  add_unary(registry, "Neg", kRealDTypes, UnaryOp::neg);
  add_unary(registry, "Abs", kRealDTypes, UnaryOp::abs);
  add_unary(registry, "Sign", kRealDTypes, UnaryOp::sign);
  add_unary(registry, "Square", kRealDTypes, UnaryOp::square);
  add_unary(registry, "Relu", kRealDTypes, UnaryOp::relu);
  add_unary(registry, "Exp", kFloatDTypes, UnaryOp::exp);
  add_unary(registry, "Log", kFloatDTypes, UnaryOp::log);
  add_unary(registry, "Log1p", kFloatDTypes, UnaryOp::log1p);
  add_unary(registry, "Sqrt", kFloatDTypes, UnaryOp::sqrt);
  add_unary(registry, "Rsqrt", kFloatDTypes, UnaryOp::rsqrt);
  add_unary(registry, "Tanh", kFloatDTypes, UnaryOp::tanh);
  add_unary(registry, "Sigmoid", kFloatDTypes, UnaryOp::sigmoid);
  add_unary(registry, "Softplus", kFloatDTypes, UnaryOp::softplus);
  add_unary(registry, "Floor", kFloatDTypes, UnaryOp::floor);
  add_unary(registry, "Erf", kFloatDTypes, UnaryOp::erf);
  add_cuda(registry, "LeakyRelu", kFloatDTypes, [](const KernelInit& init) -> Kernel {
    return [alpha = init.attributes.real("alpha")](KernelContext& context) {
      run_unary(context, "LeakyRelu", UnaryOp::leaky_relu, alpha);
    };
  });
  add_unary(registry, "LogicalNot", {DType::boolean}, UnaryOp::logical_not);
}

}  // namespace troupe
