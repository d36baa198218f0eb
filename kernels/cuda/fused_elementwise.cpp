// FusedElementwise: a program of elementwise ops in one kernel. Twin of kernels/cpu/fused_elementwise.cpp. Bits match
// those of separate ops: each result depends only on its operands and is rounded to its dtype.
#include <algorithm>
#include <array>

#include <troupe/devices/cuda/cuda_error.hpp>
#include <troupe/kernels/cuda/broadcast_plan.hpp>
#include <troupe/kernels/cuda/elementwise.hpp>
#include <troupe/kernels/cuda/fused_compiler.hpp>
#include <troupe/kernels/cuda/fused_elementwise_launch.hpp>

namespace troupe {
namespace {

struct Program {
  ElementwiseShapes shapes;
  FusedProgram code;
  int width;  // elements per item in aligned memory
};

Program compile(const KernelInit& init) {
  const auto steps = parse_elementwise(init.attributes.get<std::vector<std::string>>("program"), init.input_types);
  FusedProgram code = compile_fused(steps, init.input_types);
  std::size_t widest = size_of(code.dtype);
  for (DType t : init.input_types) widest = std::max(widest, size_of(t));
  const int width = code.wide ? 2 : static_cast<int>(16 / widest);
  return {.shapes{steps, init.input_types}, .code = std::move(code), .width = width};
}

// Inputs walked along the result, and how; the plan's items have one element.
FusedArguments arguments_of(const KernelContext& context, const Program& program, const Shape& shape,
                            std::int64_t total) {
  FusedArguments arguments;
  std::ranges::copy(program.code.steps, arguments.steps);
  arguments.num_steps = static_cast<int>(program.code.steps.size());
  arguments.places = program.code.places;
  arguments.wide = program.code.wide;
  arguments.dtype = program.code.dtype;
  std::array<Shape, kMaxFusedInputs> shapes;
  const int count = context.num_inputs();
  for (int i = 0; i < count; ++i) {
    const Tensor& tensor = context.input(i);
    const FusedWalk walk = tensor.num_elements() == total ? FusedWalk::flat
                           : tensor.num_elements() == 1   ? FusedWalk::one
                                                          : FusedWalk::stretched;
    arguments.inputs[i] = {tensor.raw(), tensor.dtype(), walk};
    shapes[static_cast<std::size_t>(i)] = tensor.shape();
  }
  arguments.plan = plan_items(shape, std::span(shapes).first(static_cast<std::size_t>(count)));
  return arguments;
}

// Launches for the elements after the last whole item.
void launch_rest(FusedArguments arguments, cudaStream_t stream) {
  const std::int64_t done = arguments.plan.items * arguments.plan.width;
  for (FusedInput& input : arguments.inputs)
    if (input.data && input.walk == FusedWalk::flat)
      input.data = static_cast<const std::byte*>(input.data) + done * static_cast<std::int64_t>(size_of(input.dtype));
  arguments.out = static_cast<std::byte*>(arguments.out) + done * static_cast<std::int64_t>(size_of(arguments.dtype));
  arguments.plan = single_items(arguments.plan, arguments.plan.rest);
  check_cuda(launch_fused(arguments, stream), "FusedElementwise");
}

void run(const Program& program, KernelContext& context) {
  const Shape shape = program.shapes.result(context);
  const std::int64_t total = shape.num_elements();
  if (total == 0) return context.set_output(0, context.allocate(program.code.dtype, shape));
  FusedArguments arguments = arguments_of(context, program, shape, total);
  const auto count = static_cast<std::size_t>(context.num_inputs());
  Tensor out = take_any_or_allocate(context, program.code.dtype, shape);
  arguments.out = out.mutable_raw();
  std::array<OperandMemory, kMaxFusedInputs> memory;
  for (std::size_t i = 0; i < count; ++i) memory[i] = {arguments.inputs[i].data, size_of(arguments.inputs[i].dtype)};
  // A second launch for the trailing elements would take longer than a small tensor does.
  constexpr std::int64_t kWorthTwoLaunches = 1 << 16;
  if (total % program.width == 0 || total >= kWorthTwoLaunches)
    widen_items(arguments.plan, program.width, std::span(memory).first(count),
                {arguments.out, size_of(arguments.dtype)});
  const cudaStream_t stream = cuda_device(context).stream();
  check_cuda(launch_fused(arguments, stream), "FusedElementwise");
  if (arguments.plan.rest > 0) launch_rest(arguments, stream);
  context.set_output(0, std::move(out));
}

}  // namespace

void register_cuda_fused_kernels(KernelRegistry& registry) {
  add_cuda(registry, "FusedElementwise", kFloatDTypes, [](const KernelInit& init) -> Kernel {
    return [program = compile(init)](KernelContext& context) { run(program, context); };
  });
}

}  // namespace troupe
