#include "troupe/graph/optimizers/optimizer_rules.hpp"

#include <array>

#include <troupe/messages/attributes.hpp>

namespace troupe {
namespace {

constexpr std::array<OptimizerRuleKind, std::variant_size_v<OptimizerRule>> kRules{{
    {"SGD", 0, false, [](const Attributes&) -> OptimizerRule { return SgdRule{}; }},
    {"Momentum", 1, false,
     [](const Attributes& a) -> OptimizerRule {
       return MomentumRule{.momentum = a.real("momentum"), .nesterov = a.boolean("nesterov")};
     }},
    {"Adagrad", 1, false,
     [](const Attributes& a) -> OptimizerRule { return AdagradRule{.epsilon = a.real("epsilon")}; }},
    {"RMSProp", 2, false,
     [](const Attributes& a) -> OptimizerRule {
       return RmsPropRule{.rho = a.real("rho"), .momentum = a.real("momentum"), .epsilon = a.real("epsilon")};
     }},
    {"Adam", 2, true,
     [](const Attributes& a) -> OptimizerRule {
       return AdamRule{.beta1 = a.real("beta1"), .beta2 = a.real("beta2"), .epsilon = a.real("epsilon")};
     }},
}};

Attributes written(const SgdRule&) { return {}; }
Attributes written(const MomentumRule& r) { return {{"momentum", r.momentum}, {"nesterov", r.nesterov}}; }
Attributes written(const AdagradRule& r) { return {{"epsilon", r.epsilon}}; }
Attributes written(const RmsPropRule& r) { return {{"rho", r.rho}, {"momentum", r.momentum}, {"epsilon", r.epsilon}}; }
Attributes written(const AdamRule& r) { return {{"beta1", r.beta1}, {"beta2", r.beta2}, {"epsilon", r.epsilon}}; }

}  // namespace

std::span<const OptimizerRuleKind> optimizer_rules() { return kRules; }

Attributes attributes_of(const OptimizerRule& rule) {
  return std::visit([](const auto& typed) { return written(typed); }, rule);
}

}  // namespace troupe
