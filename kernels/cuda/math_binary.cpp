// Binary arithmetic. Twin of kernels/cpu/math_binary.cpp. Integer Div and Pow are undefined for some operands: an
// earlier kernel detects those, and the step fails later (devices/cuda/cuda_faults.hpp).
#include <troupe/devices/cuda/cuda_error.hpp>
#include <troupe/kernels/cuda/elementwise.hpp>
#include <troupe/kernels/cuda/math_binary_launch.hpp>

namespace troupe {
namespace {

// `name` must be a literal: it is kept.
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

Error no_divisor(const CudaFault& fault) {
  return {Code::invalid_argument, fmt::format("integer division by zero: divisor {} is 0", fault.element)};
}
Error no_exponent(const CudaFault& fault) {
  return {Code::invalid_argument,
          fmt::format("integer power: exponent {} is negative ({})", fault.element, fault.value)};
}

void add_checked(KernelRegistry& registry, const char* name, std::initializer_list<DType> dtypes, BinaryOp op,
                 CudaFaultText text) {
  add_cuda(registry, name, dtypes, [name, op, text](const KernelInit&) -> Kernel {
    return [name, op, text](KernelContext& context) {
      const DType dtype = context.input(0).dtype();
      const Tensor& second = context.input(1);
      CudaDevice& device = cuda_device(context);
      if (broadcast(context.input(0).shape(), second.shape()).num_elements() > 0)
        check_cuda(launch_check_operand(op, dtype, second.raw(), second.num_elements(), device.fault_site(text),
                                        device.stream()),
                   name);
      run_binary(context, name, dtype, [&](const BinaryArguments& arguments) {
        return launch_binary(op, dtype, arguments, device.stream());
      });
    };
  });
}

}  // namespace

void register_cuda_math_binary_kernels(KernelRegistry& registry) {
#define TROUPE_ADD(NAME) add_binary(registry, #NAME, kRealDTypes, BinaryOp::NAME);
  TROUPE_ARITHMETIC_OPS(TROUPE_ADD)
  add_binary(registry, "Div", kFloatDTypes, BinaryOp::Div);
  add_binary(registry, "Pow", kFloatDTypes, BinaryOp::Pow);
  add_checked(registry, "Div", {DType::i8, DType::u8, DType::i16, DType::i32, DType::i64}, BinaryOp::Div, no_divisor);
  add_checked(registry, "Pow", {DType::i32, DType::i64}, BinaryOp::Pow, no_exponent);
}
#undef TROUPE_ADD

}  // namespace troupe
