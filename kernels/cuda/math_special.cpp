// Rarer elementwise ops. Twin of kernels/cpu/math_special.cpp and bitwise.cpp. A divisor of 0 is detected by an earlier
// kernel, and the step fails later (devices/cuda/cuda_faults.hpp).
#include <troupe/devices/cuda/cuda_error.hpp>
#include <troupe/kernels/cuda/elementwise.hpp>
#include <troupe/kernels/cuda/math_binary_launch.hpp>
#include <troupe/kernels/cuda/math_special_launch.hpp>

namespace troupe {
namespace {

constexpr std::initializer_list<DType> kIntegers{DType::i8, DType::u8, DType::i16, DType::i32, DType::i64};

void run_special(KernelContext& context, const char* name, SpecialOp op) {
  const DType dtype = context.input(0).dtype();
  run_binary(context, name, dtype, [&, stream = cuda_device(context).stream()](const BinaryArguments& arguments) {
    return launch_special(op, dtype, arguments, stream);
  });
}

Error zero_divisor(const CudaFault& fault) {
  return {Code::invalid_argument, fmt::format("integer division by zero: divisor {} is 0", fault.element)};
}

// `name` must be a literal: it is kept.
void add_special(KernelRegistry& registry, const char* name, std::initializer_list<DType> dtypes, SpecialOp op) {
  add_cuda(registry, name, dtypes, [name, op](const KernelInit&) -> Kernel {
    return [name, op](KernelContext& context) { run_special(context, name, op); };
  });
}

void add_divided(KernelRegistry& registry, const char* name, SpecialOp op) {
  add_special(registry, name, kFloatDTypes, op);
  add_cuda(registry, name, kIntegers, [name, op](const KernelInit&) -> Kernel {
    return [name, op](KernelContext& context) {
      const Tensor& divisor = context.input(1);
      CudaDevice& device = cuda_device(context);
      if (broadcast(context.input(0).shape(), divisor.shape()).num_elements() > 0)
        check_cuda(launch_check_operand(BinaryOp::Div, divisor.dtype(), divisor.raw(), divisor.num_elements(),
                                        device.fault_site(zero_divisor), device.stream()),
                   name);
      run_special(context, name, op);
    };
  });
}

// Runs launch(x, out, out's tensor, stream), elementwise.
template <class Launch>
void run_alone(KernelContext& context, const char* name, Launch launch) {
  const DType dtype = context.input(0).dtype();
  const Shape shape = context.input(0).shape();
  const std::byte* x = context.input(0).raw();
  Tensor out = context.take_or_allocate(0, dtype, shape);
  check_cuda(launch(x, out.mutable_raw(), out, cuda_device(context).stream()), name);
  context.set_output(0, std::move(out));
}

void bitwise_not(KernelContext& context) {
  run_alone(context, "BitwiseNot", [](const void* x, void* to, const Tensor& out, cudaStream_t stream) {
    return launch_bitwise_not(x, to, static_cast<std::int64_t>(out.num_bytes()), stream);
  });
}

Kernel make_polygamma(const KernelInit& init) {
  return [op = polygamma_op(init.node_name, init.attributes.integer("n"))](KernelContext& context) {
    run_alone(context, "Polygamma", [&](const void* x, void* to, const Tensor& out, cudaStream_t stream) {
      return launch_polygamma(op, out.dtype(), x, to, out.num_elements(), stream);
    });
  };
}

}  // namespace

void register_cuda_math_special_kernels(KernelRegistry& registry) {
  add_divided(registry, "FloorDiv", SpecialOp::FloorDiv);
  add_divided(registry, "FloorMod", SpecialOp::FloorMod);
  add_divided(registry, "TruncateMod", SpecialOp::TruncateMod);
  add_special(registry, "Atan2", kFloatDTypes, SpecialOp::Atan2);
  add_special(registry, "Xlogy", kFloatDTypes, SpecialOp::Xlogy);
  add_special(registry, "BitwiseAnd", kIntegers, SpecialOp::BitwiseAnd);
  add_special(registry, "BitwiseOr", kIntegers, SpecialOp::BitwiseOr);
  add_special(registry, "BitwiseXor", kIntegers, SpecialOp::BitwiseXor);
  add_special(registry, "LeftShift", kIntegers, SpecialOp::LeftShift);
  add_special(registry, "RightShift", kIntegers, SpecialOp::RightShift);
  add_cuda(registry, "BitwiseNot", kIntegers, bitwise_not);
  add_cuda(registry, "Polygamma", kFloatDTypes, make_polygamma);
}

}  // namespace troupe
