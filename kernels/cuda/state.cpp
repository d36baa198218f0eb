// What forwards its input, and variables.
#include "kernels/cuda/cuda_kernels.hpp"

namespace troupe {
namespace {

void forward(KernelContext& context) { context.set_output(0, context.input(0)); }

}  // namespace

void register_cuda_state_kernels(KernelRegistry& registry) {
  add_cuda(registry, "Identity", {}, forward);
  add_cuda(registry, "StopGradient", {}, forward);
  add_cuda(registry, "NoOp", {}, [](KernelContext&) {});
  add_cuda(registry, "ReadVariable", {}, [](KernelContext& context) { context.set_output(0, context.variable(0).value()); });
  add_cuda(registry, "AssignVariable", {}, [](KernelContext& context) {
    context.variable(0).assign(context.input(1));
    context.set_output(0, context.input(1));
  });
  for (const char* op : {"Identity", "StopGradient"}) registry.set_reuse(op, "GPU", Reuse::view);
}

}  // namespace troupe
