// Arithmetic of two operands. Twin of kernels/cpu/math_binary.cpp, but for Div and Pow of integers: those are not defined for every operand, and
// to say which one is wrong the host would have to wait for it. They are placed on the CPU.
#include "kernels/cuda/elementwise.hpp"
#include "kernels/cuda/math_binary_launch.hpp"

namespace troupe {
namespace {

// `name` is kept: a literal.
void add_binary(KernelRegistry& registry, const char* name, std::initializer_list<DType> dtypes, BinaryOp op) {
  add_cuda(registry, name, dtypes, [name, op](const KernelInit&) -> Kernel {
    return [name, op](KernelContext& context) {
      const DType dtype = context.input(0).dtype();
      run_binary(context, name, dtype, [&, stream = cuda_device(context).stream()](const BinaryArguments& arguments) {
        return launch_binary(op, dtype, arguments, stream);
      });
    };
  });
}

}  // namespace

void register_cuda_math_binary_kernels(KernelRegistry& registry) {
  add_binary(registry, "Add", kRealDTypes, BinaryOp::add);
  add_binary(registry, "Sub", kRealDTypes, BinaryOp::sub);
  add_binary(registry, "Mul", kRealDTypes, BinaryOp::mul);
  add_binary(registry, "Maximum", kRealDTypes, BinaryOp::maximum);
  add_binary(registry, "Minimum", kRealDTypes, BinaryOp::minimum);
  add_binary(registry, "SquaredDifference", kRealDTypes, BinaryOp::squared_difference);
  add_binary(registry, "Div", kFloatDTypes, BinaryOp::div);
  add_binary(registry, "Pow", kFloatDTypes, BinaryOp::pow);
}

}  // namespace troupe
