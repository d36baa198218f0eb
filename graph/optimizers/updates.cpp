#include "troupe/graph/optimizers/updates.hpp"

namespace troupe {

Output apply_rule(const OptimizerRule& rule, Outputs inputs, const Gradient& gradient, Name name,
                  SlotUpdates slot_updates) {
  const std::string rule_name(rule_kind(rule).name);
  const Output var = inputs.front();
  if (!var.valid()) invalid_argument("Apply{}: the variable is not a tensor", rule_name);
  if (!gradient) invalid_argument("Apply{}: there is no gradient for variable '{}'", rule_name, var.name());
  if (gradient.is_dense()) {
    inputs.push_back(gradient.dense);
  } else {
    inputs.insert(inputs.end(), {gradient.indices, gradient.values});
  }
  Attributes attributes = attributes_of(rule);
  if (gradient.is_sparse()) attributes.set("exact", slot_updates == SlotUpdates::exact);
  return add_target(*var.graph, {.op = (gradient.is_dense() ? "Apply" : "SparseApply") + rule_name,
                                 .name = std::move(name),
                                 .inputs = std::move(inputs),
                                 .attributes = std::move(attributes),
                                 .device = var.source().device,
                                 .colocate_with = var.source().name});
}

Output apply_sgd(Output var, Output lr, const Gradient& gradient, Name name) {
  return apply_rule(SgdRule{}, {var, lr}, gradient, std::move(name));
}
Output apply_momentum(Output var, Output accum, Output lr, const Gradient& gradient, MomentumRule rule, Name name) {
  return apply_rule(rule, {var, accum, lr}, gradient, std::move(name));
}
Output apply_adagrad(Output var, Output accum, Output lr, const Gradient& gradient, AdagradRule rule, Name name) {
  return apply_rule(rule, {var, accum, lr}, gradient, std::move(name));
}
Output apply_rmsprop(Output var, Output ms, Output mom, Output lr, const Gradient& gradient, RmsPropRule rule,
                     Name name) {
  return apply_rule(rule, {var, ms, mom, lr}, gradient, std::move(name));
}
Output apply_adam(Output var, Output m, Output v, Output lr, Output t, const Gradient& gradient, AdamRule rule,
                  Name name) {
  return apply_rule(rule, {var, m, v, lr, t}, gradient, std::move(name));
}

}  // namespace troupe
