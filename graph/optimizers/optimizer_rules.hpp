// The rules by which optimizers update variables, and their constants: the one place of their defaults. Apply<Rule>
// nodes have the constants as attributes.
//
// g: the gradient; lr: the learning rate; the other names on the left are variables beside the one that is updated.
#pragma once

#include <span>
#include <string_view>
#include <variant>

namespace troupe {

class Attributes;

// var -= lr g
struct SgdRule {};

// Polyak, "Some methods of speeding up the convergence of iteration methods" (1964); nesterov: Sutskever et al., "On
// the importance of initialization and momentum in deep learning" (ICML 2013), in the form that keeps the look-ahead
// point.
//   accum = momentum accum + g;  var -= lr (nesterov ? g + momentum accum : accum)
struct MomentumRule {
  double momentum = 0.9;
  bool nesterov = false;
};

// Duchi, Hazan, Singer, "Adaptive subgradient methods" (JMLR 12, 2011), diagonal form.
//   accum += g^2;  var -= lr g / (sqrt(accum) + epsilon)
struct AdagradRule {
  double epsilon = 1e-7;
};

// Tieleman, Hinton, "Lecture 6.5 - RMSProp" (2012), with momentum.
//   ms = rho ms + (1 - rho) g^2;  mom = momentum mom + lr g / sqrt(ms + epsilon);  var -= mom
struct RmsPropRule {
  double rho = 0.9;
  double momentum = 0;
  double epsilon = 1e-7;
};

// Kingma, Ba, "Adam" (ICLR 2015), section 2: the order of computation that moves the bias corrections into the rate.
// t, the number of the update, is 1 for the first.
//   m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
//   var -= alpha m / (sqrt(v) + epsilon),  alpha = lr sqrt(1 - beta2^t) / (1 - beta1^t) in double, then rounded
struct AdamRule {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-7;
};

using OptimizerRule = std::variant<SgdRule, MomentumRule, AdagradRule, RmsPropRule, AdamRule>;

struct OptimizerRuleKind {
  std::string_view name{};  // of the ops Apply<name>, Apply<name>Many and SparseApply<name>
  int slots{};              // variables beside the one that is updated
  bool counts_updates{};    // takes t
  OptimizerRule (*read)(const Attributes& attributes);
};

// In the order of OptimizerRule.
std::span<const OptimizerRuleKind> optimizer_rules();
inline const OptimizerRuleKind& rule_kind(const OptimizerRule& rule) { return optimizer_rules()[rule.index()]; }

Attributes attributes_of(const OptimizerRule& rule);

}  // namespace troupe
