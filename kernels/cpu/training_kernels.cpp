// The kernels Apply<Rule> and SparseApply<Rule>. Inputs: the variable, its slots, lr, (Adam: t,) and then the
// gradient or indices and values.
#include <string>
#include <vector>

#include "kernels/cpu/families.hpp"
#include "kernels/cpu/tensor_checks.hpp"
#include "kernels/cpu/training.hpp"

namespace troupe {
namespace {

using RuleFactory = OptimizerRule (*)(const Attributes&);

// Adam's t comes with every update.
void take_step(OptimizerRule& rule, KernelContext& ctx, int& next_input) {
  auto* adam = std::get_if<AdamRule>(&rule);
  if (!adam) return;
  const Tensor& t = ctx.input(next_input++);
  if (t.dtype() != DType::i64 || t.num_elements() != 1)
    invalid_argument("Adam's t must be one i64, but is {}{}", name(t.dtype()), t.shape().to_string());
  adam->step = t.item<std::int64_t>();
}

std::vector<const Tensor*> values_of(KernelContext& ctx, int count) {
  std::vector<const Tensor*> out;
  for (int i = 0; i < count; ++i) out.push_back(&ctx.variable(i).value());
  return out;
}

std::vector<Tensor*> writable(KernelContext& ctx, int count) {
  std::vector<Tensor*> out;
  for (int i = 0; i < count; ++i) out.push_back(&ctx.variable(i).writable(ctx.allocator()));
  return out;
}

KernelFactory dense(RuleFactory make_rule) {
  return [make_rule](const KernelInit& init) -> Kernel {
    return [fixed = make_rule(init.attributes)](KernelContext& ctx) {
      OptimizerRule rule = fixed;
      const int variables = num_slots(rule) + 1;
      int next = variables;
      const Tensor& lr = ctx.input(next++);
      take_step(rule, ctx, next);
      const Tensor& grad = ctx.input(next);
      check_update(rule, values_of(ctx, variables), lr, grad);
      apply_update(ctx.parallelism(), rule, writable(ctx, variables), lr, grad);
    };
  };
}

KernelFactory sparse(RuleFactory make_rule) {
  return [make_rule](const KernelInit& init) -> Kernel {
    return [fixed = make_rule(init.attributes)](KernelContext& ctx) {
      OptimizerRule rule = fixed;
      const int variables = num_slots(rule) + 1;
      int next = variables;
      const Tensor& lr = ctx.input(next++);
      take_step(rule, ctx, next);
      const Tensor& indices = ctx.input(next);
      const Tensor& values = ctx.input(next + 1);
      check_sparse_update(rule, values_of(ctx, variables), lr, indices, values);
      apply_sparse_update(ctx.parallelism(), rule, writable(ctx, variables), lr, indices, values);
    };
  };
}

OptimizerRule sgd(const Attributes&) { return SgdRule{}; }
OptimizerRule momentum(const Attributes& a) { return MomentumRule{a.real("momentum"), a.boolean("nesterov")}; }
OptimizerRule adagrad(const Attributes& a) { return AdagradRule{a.real("epsilon")}; }
OptimizerRule rms_prop(const Attributes& a) {
  return RmsPropRule{a.real("rho"), a.real("momentum"), a.real("epsilon")};
}
OptimizerRule adam(const Attributes& a) { return AdamRule{a.real("beta1"), a.real("beta2"), a.real("epsilon")}; }

}  // namespace

void register_training_kernels(KernelRegistry& registry) {
  const auto add = [&](const std::string& name, RuleFactory rule) {
    registry.add({"Apply" + name, "CPU", {DType::f32, DType::f64}, dense(rule)});
    registry.add({"SparseApply" + name, "CPU", {DType::f32, DType::f64}, sparse(rule)});
  };
  add("SGD", sgd);
  add("Momentum", momentum);
  add("Adagrad", adagrad);
  add("RMSProp", rms_prop);
  add("Adam", adam);
}

}  // namespace troupe
