// The kernel ApplyLossScale: advances the state [scale, good steps since it changed, steps skipped] by one step.
#include <algorithm>

#include <troupe/kernels/common/tensor_checks.hpp>
#include <troupe/kernels/cpu/families.hpp>
#include <troupe/kernels/cpu/finite.hpp>

namespace troupe {
namespace {

struct Growth {
  bool dynamic;
  double interval;
  double largest;
};

void take_step(double* state, bool good, const Growth& growth) {
  double &scale = state[0], &good_steps = state[1], &skipped = state[2];
  if (!good) ++skipped;
  if (!growth.dynamic) return;
  if (!good) {
    scale = std::max(scale / 2, 1.0);
    good_steps = 0;
  } else if (++good_steps >= growth.interval) {
    scale = std::min(scale * 2, growth.largest);
    good_steps = 0;
  }
}

}  // namespace

void register_loss_scale_kernels(KernelRegistry& registry) {
  registry.add({"ApplyLossScale", "CPU", {DType::f64}, [](const KernelInit& init) -> Kernel {
                  const Growth growth{init.attributes.boolean("dynamic"),
                                      static_cast<double>(init.attributes.integer("growth_interval")),
                                      init.attributes.real("largest")};
                  return [growth](KernelContext& ctx) {
                    check_tensor("ApplyLossScale: var", ctx.variable(0).value(), DType::f64, Shape{3});
                    const bool good = all_finite(ctx.parallelism(), ctx.input(1));
                    take_step(ctx.variable(0).writable(ctx.allocator()).mutable_data<double>(), good, growth);
                  };
                }});
}

}  // namespace troupe
