#include "troupe/graph/optimizers/updates.hpp"

namespace troupe {
namespace {

Output apply(const std::string& rule, Outputs inputs, const Gradient& gradient, Attributes attributes, Name name) {
  const Output var = inputs.front();
  if (!var.valid()) invalid_argument("Apply{}: the variable is not a tensor", rule);
  if (!gradient) invalid_argument("Apply{}: there is no gradient for variable '{}'", rule, var.name());
  if (gradient.is_dense()) {
    inputs.push_back(gradient.dense);
  } else {
    inputs.insert(inputs.end(), {gradient.indices, gradient.values});
  }
  return var.graph->output(var.graph->add({.op = (gradient.is_dense() ? "Apply" : "SparseApply") + rule,
                                           .name = std::move(name),
                                           .inputs = std::move(inputs),
                                           .attributes = std::move(attributes),
                                           .device = var.source().device,
                                           .colocate_with = var.source().name}));
}

}  // namespace

Output apply_sgd(Output var, Output lr, const Gradient& gradient, Name name) {
  return apply("SGD", {var, lr}, gradient, {}, std::move(name));
}
Output apply_momentum(Output var, Output accum, Output lr, const Gradient& gradient, MomentumOptions options) {
  return apply("Momentum", {var, accum, lr}, gradient, {{"momentum", options.momentum}, {"nesterov", options.nesterov}},
               std::move(options.name));
}
Output apply_adagrad(Output var, Output accum, Output lr, const Gradient& gradient, AdagradOptions options) {
  return apply("Adagrad", {var, accum, lr}, gradient, {{"epsilon", options.epsilon}}, std::move(options.name));
}
Output apply_rmsprop(Output var, Output ms, Output mom, Output lr, const Gradient& gradient, RMSPropOptions options) {
  return apply("RMSProp", {var, ms, mom, lr}, gradient,
               {{"rho", options.rho}, {"momentum", options.momentum}, {"epsilon", options.epsilon}},
               std::move(options.name));
}
Output apply_adam(Output var, Output m, Output v, Output lr, Output t, const Gradient& gradient, AdamOptions options) {
  return apply("Adam", {var, m, v, lr, t}, gradient,
               {{"beta1", options.beta1}, {"beta2", options.beta2}, {"epsilon", options.epsilon}},
               std::move(options.name));
}

}  // namespace troupe
