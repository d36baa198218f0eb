// Kernels that forward their input, and variables.
#include <troupe/kernels/cuda/state_launch.hpp>
#include <troupe/kernels/cuda/variables.hpp>

namespace troupe {
namespace {

void forward(KernelContext& context) { context.set_output(0, context.input(0)); }

void assign(KernelContext& context) {
  context.variable(0).assign(context.input(1));
  context.set_output(0, context.input(1));
}

void initialize(KernelContext& context) {
  Variable& variable = context.variable(0);
  if (!variable.initialized()) variable.assign(context.input(1));
  context.set_output(0, variable.value());
}

// variable += value, or -=, in place. Output: the new value.
template <bool kSubtract>
void assign_sum(KernelContext& context) {
  const Variable& variable = context.variable(0);
  const Tensor& value = context.input(1);
  if (value.dtype() != variable.dtype())
    invalid_argument("variable '{}' is of {}, but the update is of {}", variable.name(), name(variable.dtype()),
                     name(value.dtype()));
  if (value.shape() != variable.value().shape())
    invalid_argument("variable '{}' is {}, but the update is {}", variable.name(), variable.value().shape().to_string(),
                     value.shape().to_string());
  Tensor& stored = writable(context, 0);
  if (stored.num_elements() > 0)
    check_cuda(launch_assign_sum(stored.dtype(), kSubtract, stored.mutable_raw(), value.raw(), stored.num_elements(),
                                 cuda_device(context).fault(), cuda_device(context).stream()),
               kSubtract ? "AssignSubVariable" : "AssignAddVariable");
  context.set_output(0, stored);
}

}  // namespace

void register_cuda_state_kernels(KernelRegistry& registry) {
  add_cuda(registry, "Identity", {}, forward);
  add_cuda(registry, "StopGradient", {}, forward);
  add_cuda(registry, "CustomGradient", {}, [](const KernelInit& init) -> Kernel {
    return [count = static_cast<int>(init.output_types.size())](KernelContext& c) {
      for (int i = 0; i < count; ++i) c.set_output(i, c.input(i));
    };
  });
  add_cuda(registry, "NoOp", {}, [](KernelContext&) {});
  add_cuda(registry, "ReadVariable", {},
           [](KernelContext& context) { context.set_output(0, context.variable(0).value()); });
  add_cuda(registry, "AssignVariable", {}, assign, Replay::never);
  add_cuda(registry, "InitializeVariable", {}, initialize, Replay::never);
  const auto real = {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i8,
                     DType::u8,  DType::i16, DType::i32, DType::i64};
  add_cuda(registry, "AssignAddVariable", real, assign_sum<false>);
  add_cuda(registry, "AssignSubVariable", real, assign_sum<true>);
}

}  // namespace troupe
