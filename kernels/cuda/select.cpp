// Select and AddN. Twin of kernels/cpu/select.cpp.
#include <algorithm>
#include <array>

#include <troupe/devices/cuda/cuda_error.hpp>
#include <troupe/kernels/cuda/broadcast_plan.hpp>
#include <troupe/kernels/cuda/elementwise.hpp>
#include <troupe/kernels/cuda/select_launch.hpp>

namespace troupe {
namespace {

void select(KernelContext& context) {
  const std::array<Shape, 3> shapes{context.input(0).shape(), context.input(1).shape(), context.input(2).shape()};
  const Shape shape = broadcast(broadcast(shapes[0], shapes[1]), shapes[2]);
  const DType dtype = context.input(1).dtype();
  const std::size_t bytes = size_of(dtype);
  Tensor out = context.allocate(dtype, shape);
  if (out.num_elements() > 0) {
    const std::array<OperandMemory, 3> operands{
        {{context.input(0).raw(), 1}, {context.input(1).raw(), bytes}, {context.input(2).raw(), bytes}}};
    auto plan = plan_items(shape, shapes);
    widen_items(plan, static_cast<int>(16 / bytes), operands, {out.raw(), bytes});
    const SelectArguments arguments{operands[0].data, operands[1].data, operands[2].data, out.mutable_raw(), bytes,
                                    narrowed<3>(plan)};
    check_cuda(launch_select(arguments, cuda_device(context).stream()), "Select");
  }
  context.set_output(0, std::move(out));
}

// Adds the terms of one launch at a time; each later launch adds the sum so far and the next terms.
void add_n(KernelContext& context) {
  const Shape shape = context.input(0).shape();
  const DType dtype = context.input(0).dtype();
  const int count = context.num_inputs();
  std::vector<const void*> terms;
  for (int i = 0; i < count; ++i) {
    if (context.input(i).shape() != shape)
      invalid_argument("AddN: input {} is {}, input 0 is {}", i, context.input(i).shape().to_string(),
                       shape.to_string());
    terms.push_back(context.input(i).raw());
  }
  if (count == 1) return context.set_output(0, context.input(0));
  Tensor out = context.take_or_allocate(0, dtype, shape);
  AddNArguments arguments{.num_terms = 0, .out = out.mutable_raw(), .count = out.num_elements()};
  for (std::size_t done = 0; done < terms.size();) {
    arguments.num_terms = 0;
    if (done > 0) arguments.terms[arguments.num_terms++] = arguments.out;
    while (done < terms.size() && arguments.num_terms < kMaxTerms)
      arguments.terms[arguments.num_terms++] = terms[done++];
    check_cuda(launch_add_n(dtype, arguments, cuda_device(context).stream()), "AddN");
  }
  context.set_output(0, std::move(out));
}

}  // namespace

void register_cuda_select_kernels(KernelRegistry& registry) {
  add_cuda(registry, "Select", kDataDTypes, select);
  add_cuda(registry, "AddN", kRealDTypes, add_n);
}

}  // namespace troupe
