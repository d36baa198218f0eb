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
#define TROUPE_REAL(NAME) add_unary(registry, #NAME, kRealDTypes, UnaryOp::NAME);
#define TROUPE_FLOAT(NAME) add_unary(registry, #NAME, kFloatDTypes, UnaryOp::NAME);
  TROUPE_REAL_UNARY_OPS(TROUPE_REAL)
  TROUPE_FLOAT_UNARY_OPS(TROUPE_FLOAT)
  TROUPE_MATH_UNARY_OPS(TROUPE_FLOAT)
  TROUPE_RARE_UNARY_OPS(TROUPE_FLOAT)
  add_cuda(registry, "LeakyRelu", kFloatDTypes, [](const KernelInit& init) -> Kernel {
    return [alpha = init.attributes.real("alpha")](KernelContext& context) {
      run_unary(context, "LeakyRelu", UnaryOp::LeakyRelu, alpha);
    };
  });
  add_unary(registry, "LogicalNot", {DType::boolean}, UnaryOp::LogicalNot);
}
#undef TROUPE_FLOAT
#undef TROUPE_REAL

}  // namespace troupe
