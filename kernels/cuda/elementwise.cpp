#include "kernels/cuda/elementwise.hpp"

#include <array>

#include "devices/cuda/cuda_error.hpp"
#include "kernels/cuda/broadcast_plan.hpp"

namespace troupe {

Tensor take_any_or_allocate(KernelContext& context, DType dtype, const Shape& shape) {
  for (int i = 0; i < context.num_inputs(); ++i)
    if (context.input(i).dtype() == dtype && context.input(i).shape() == shape)
      if (Tensor taken = context.take_input(i); taken.valid()) return taken;
  return context.allocate(dtype, shape);
}

void run_binary(KernelContext& context, const char* op, DType out_dtype, FunctionRef<cudaError_t(const BinaryArguments&)> launch) {
  const std::array<Shape, 2> shapes{context.input(0).shape(), context.input(1).shape()};
  const Shape shape = broadcast(shapes[0], shapes[1]);
  const std::size_t bytes = size_of(context.input(0).dtype());
  const std::array<OperandMemory, 2> operands{{{context.input(0).raw(), bytes}, {context.input(1).raw(), bytes}}};
  Tensor out = take_any_or_allocate(context, out_dtype, shape);
  if (out.num_elements() > 0) {
    auto plan = plan_broadcast(shape, shapes);
    widen_items(plan, static_cast<int>(16 / bytes), operands, {out.raw(), size_of(out_dtype)});
    check_cuda(launch({operands[0].data, operands[1].data, out.mutable_raw(), narrowed<2>(plan)}), op);
  }
  context.set_output(0, std::move(out));
}

}  // namespace troupe
