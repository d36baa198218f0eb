#include "troupe/graph/optimizers/optimizer_rules.hpp"

#include <array>

#include <troupe/messages/attributes.hpp>

namespace troupe {
namespace {

// Calls `visit(name, value)` for each constant: rules are written and read alike.
template <class Rule, class Fn>
void each_constant(Rule& rule, Fn visit) {
  if constexpr (requires { rule.rho; }) visit("rho", rule.rho);
  if constexpr (requires { rule.momentum; }) visit("momentum", rule.momentum);
  if constexpr (requires { rule.nesterov; }) visit("nesterov", rule.nesterov);
  if constexpr (requires { rule.beta1; }) visit("beta1", rule.beta1);
  if constexpr (requires { rule.beta2; }) visit("beta2", rule.beta2);
  if constexpr (requires { rule.epsilon; }) visit("epsilon", rule.epsilon);
  if constexpr (requires { rule.l1; }) visit("l1", rule.l1);
  if constexpr (requires { rule.l2; }) visit("l2", rule.l2);
  if constexpr (requires { rule.l2_shrinkage; }) visit("l2_shrinkage", rule.l2_shrinkage);
  if constexpr (requires { rule.beta; }) visit("beta", rule.beta);
  if constexpr (requires { rule.learning_rate_power; }) visit("learning_rate_power", rule.learning_rate_power);
  visit("weight_decay", rule.weight_decay);
}

// A rule that was written without weight decay has none.
template <class Rule>
OptimizerRule read_rule(const Attributes& attributes) {
  Rule rule;
  each_constant(rule, [&]<class T>(std::string_view name, T& value) {
    if (name != "weight_decay" || attributes.has(name)) value = attributes.get<T>(name);
  });
  return rule;
}

constexpr std::array<OptimizerRuleKind, std::variant_size_v<OptimizerRule>> kRules{{
    {"SGD", 0, false, read_rule<SgdRule>},
    {"Momentum", 1, false, read_rule<MomentumRule>},
    {"Adagrad", 1, false, read_rule<AdagradRule>},
    {"RMSProp", 2, false, read_rule<RmsPropRule>},
    {"Adam", 2, true, read_rule<AdamRule>},
    {"Adadelta", 2, false, read_rule<AdadeltaRule>},
    {"Ftrl", 2, false, read_rule<FtrlRule>},
    {"Lion", 1, false, read_rule<LionRule>},
    {"CenteredRMSProp", 3, false, read_rule<CenteredRmsPropRule>},
    {"AMSGrad", 3, true, read_rule<AmsGradRule>},
    {"Adamax", 2, true, read_rule<AdamaxRule>},
    {"Nadam", 2, true, read_rule<NadamRule>},
}};

}  // namespace

std::span<const OptimizerRuleKind> optimizer_rules() { return kRules; }

Attributes attributes_of(const OptimizerRule& rule) {
  Attributes out;
  const auto write = [&](const auto& typed) {
    each_constant(typed, [&](const char* name, const auto& value) { out.set(name, value); });
  };
  std::visit(write, rule);
  return out;
}

}  // namespace troupe
