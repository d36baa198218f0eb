// Variables, and ops that forward their input.
#include <troupe/kernels/common/elementwise_ops.hpp>
#include <troupe/kernels/cpu/elementwise.hpp>
#include <troupe/kernels/cpu/families.hpp>

namespace troupe {
namespace {

// variable = op(variable, value), in place. The output is the new value.
template <class T, class Op>
void update(KernelContext& context, Op op) {
  Variable& variable = context.variable(0);
  const Tensor& value = context.input(1);
  if (value.shape() != variable.value().shape())
    invalid_argument("variable '{}' is {}, but the update is {}", variable.name(), variable.value().shape().to_string(),
                     value.shape().to_string());
  const T* change = value.data<T>();
  Tensor& stored = variable.writable(context.allocator());
  T* at = stored.mutable_data<T>();
  context.parallelism().parallel_for(stored.num_elements(), kElementGrain, [=](std::int64_t begin, std::int64_t end) {
    binary_stretch(at + begin, true, change + begin, true, at + begin, end - begin, op);
  });
  context.set_output(0, stored);
}

Kernel forward(const KernelInit&) {
  return [](KernelContext& context) { context.set_output(0, context.input(0)); };
}

}  // namespace

void register_state_kernels(KernelRegistry& registry) {
  add_untyped(registry, "Identity", forward);
  add_untyped(registry, "StopGradient", forward);
  add_untyped(registry, "CustomGradient", [](const KernelInit& init) -> Kernel {
    return [count = static_cast<int>(init.output_types.size())](KernelContext& c) {
      for (int i = 0; i < count; ++i) c.set_output(i, c.input(i));
    };
  });
  add_untyped(registry, "NoOp", [](const KernelInit&) -> Kernel { return [](KernelContext&) {}; });
  add_untyped(registry, "ReadVariable", [](const KernelInit&) -> Kernel {
    return [](KernelContext& context) { context.set_output(0, context.variable(0).value()); };
  });
  add_untyped(registry, "AssignVariable", [](const KernelInit&) -> Kernel {
    return [](KernelContext& context) {
      context.variable(0).assign(context.input(1));
      context.set_output(0, context.input(1));
    };
  });
  add_untyped(registry, "InitializeVariable", [](const KernelInit&) -> Kernel {
    return [](KernelContext& context) {
      Variable& variable = context.variable(0);
      if (!variable.initialized()) variable.assign(context.input(1));
      context.set_output(0, variable.value());
    };
  });
  add_kernels(registry, "AssignAddVariable", RealTypes{}, []<class T>(KernelContext& c) { update<T>(c, AddOp{}); });
  add_kernels(registry, "AssignSubVariable", RealTypes{}, []<class T>(KernelContext& c) { update<T>(c, SubOp{}); });
}

}  // namespace troupe
