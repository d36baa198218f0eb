#include "troupe/kernels/cuda/elementwise.hpp"

#include <array>

#include <troupe/devices/cuda/cuda_error.hpp>
#include <troupe/kernels/cuda/broadcast_plan.hpp>

namespace troupe {

void run_binary(KernelContext& context, const char* op, DType out_dtype,
                FunctionRef<cudaError_t(const BinaryArguments&)> launch) {
  const std::array<Shape, 2> shapes{context.input(0).shape(), context.input(1).shape()};
  const Shape shape = broadcast(shapes[0], shapes[1]);
  const std::size_t bytes = size_of(context.input(0).dtype());
  const std::array<OperandMemory, 2> operands{{{context.input(0).raw(), bytes}, {context.input(1).raw(), bytes}}};
  Tensor out = take_any_or_allocate(context, out_dtype, shape);
  if (out.num_elements() > 0) {
    auto plan = plan_items(shape, shapes);
    widen_items(plan, static_cast<int>(16 / bytes), operands, {out.raw(), size_of(out_dtype)});
    check_cuda(launch({operands[0].data, operands[1].data, out.mutable_raw(), narrowed<2>(plan)}), op);
  }
  context.set_output(0, std::move(out));
}

Tensor host_scalar(DType dtype, double value) {
  Tensor out(dtype, Shape{});
  const auto write = [&]<class T>(T made) { *out.mutable_data<T>() = made; };
  switch (dtype) {
    case DType::f32:
      write(static_cast<float>(value));
      break;
    case DType::f64:
      write(value);
      break;
    case DType::f16:
      write(Half(static_cast<float>(value)));
      break;
    case DType::bf16:
      write(BFloat16(static_cast<float>(value)));
      break;
    case DType::i8:
      write(static_cast<std::int8_t>(value));
      break;
    case DType::u8:
      write(static_cast<std::uint8_t>(value));
      break;
    case DType::i16:
      write(static_cast<std::int16_t>(value));
      break;
    case DType::i32:
      write(static_cast<std::int32_t>(value));
      break;
    case DType::i64:
      write(static_cast<std::int64_t>(value));
      break;
    case DType::boolean:
      write(static_cast<bool>(value));
      break;
    default:
      fail(Code::unimplemented, "dtype {} is not supported", name(dtype));
  }
  return out;
}

}  // namespace troupe
