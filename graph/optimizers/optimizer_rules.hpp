// The rules by which optimizers update variables, and their constants: the one place of their defaults. Apply<Rule>
// nodes have the constants as attributes.
//
// g: the gradient; lr: the learning rate; t: the number of the update, 1 for the first; the other names on the left are
// variables beside the one that is updated. Before each of these, weights decay (Loshchilov, Hutter, "Decoupled weight
// decay regularization", ICLR 2019), if weight_decay is not 0:
//   var -= lr weight_decay var
#pragma once

#include <span>
#include <string_view>
#include <variant>

namespace troupe {

class Attributes;

// var -= lr g
struct SgdRule {
  double weight_decay = 0;
};

// Polyak, "Some methods of speeding up the convergence of iteration methods" (1964); nesterov: Sutskever et al., "On
// the importance of initialization and momentum in deep learning" (ICML 2013), in the form that keeps the look-ahead
// point.
//   accum = momentum accum + g;  var -= lr (nesterov ? g + momentum accum : accum)
struct MomentumRule {
  double momentum = 0.9;
  bool nesterov = false;
  double weight_decay = 0;
};

// Duchi, Hazan, Singer, "Adaptive subgradient methods" (JMLR 12, 2011), diagonal form.
//   accum += g^2;  var -= lr g / (sqrt(accum) + epsilon)
struct AdagradRule {
  double epsilon = 1e-7;
  double weight_decay = 0;
};

// Tieleman, Hinton, "Lecture 6.5 - RMSProp" (2012), with momentum.
//   ms = rho ms + (1 - rho) g^2;  mom = momentum mom + lr g / sqrt(ms + epsilon);  var -= mom
struct RmsPropRule {
  double rho = 0.9;
  double momentum = 0;
  double epsilon = 1e-7;
  double weight_decay = 0;
};

// Kingma, Ba, "Adam" (ICLR 2015), section 2: the order of computation that moves the bias corrections into the rate.
//   m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
//   var -= alpha m / (sqrt(v) + epsilon),  alpha = lr sqrt(1 - beta2^t) / (1 - beta1^t) in double, then rounded
struct AdamRule {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-7;
  double weight_decay = 0;
};

// Zeiler, "ADADELTA: an adaptive learning rate method" (2012), with a rate, as 1 in the paper.
//   accum = rho accum + (1 - rho) g^2;  step = g sqrt(accum_update + epsilon) / sqrt(accum + epsilon)
//   accum_update = rho accum_update + (1 - rho) step^2;  var -= lr step
struct AdadeltaRule {
  double rho = 0.95;
  double epsilon = 1e-7;
  double weight_decay = 0;
};

// Follow the regularised leader: McMahan et al., "Ad click prediction: a view from the trenches" (KDD 2013), with
// TensorFlow's names and scale of the constants. A rate of 0 changes nothing.
//   next = accum + g^2;  p = -learning_rate_power
//   linear += g + 2 l2_shrinkage var - (next^p - accum^p) / lr var;  accum = next
//   var = (clip(linear, -l1, l1) - linear) / ((next^p + beta) / lr + 2 l2), 0 for 0 / 0
struct FtrlRule {
  double l1 = 0;
  double l2 = 0;
  double l2_shrinkage = 0;
  double beta = 0;
  double learning_rate_power = -0.5;  // 0 or less
  double weight_decay = 0;
};

// Chen et al., "Symbolic discovery of optimization algorithms" (NeurIPS 2023).
//   var -= lr sign(beta1 m + (1 - beta1) g);  m = beta2 m + (1 - beta2) g
struct LionRule {
  double beta1 = 0.9;
  double beta2 = 0.99;
  double weight_decay = 0;
};

// RMSProp by the variance of the gradients (Graves, "Generating sequences with recurrent neural networks", 2013).
//   mg = rho mg + (1 - rho) g;  as RMSProp, but with sqrt(ms - mg^2 + epsilon)
struct CenteredRmsPropRule {
  double rho = 0.9;
  double momentum = 0;
  double epsilon = 1e-7;
  double weight_decay = 0;
};

// Reddi, Kale, Kumar, "On the convergence of Adam and beyond" (ICLR 2018), with the corrections of Adam.
//   as Adam, but with sqrt(vhat) for sqrt(v);  vhat = max(vhat, v)
struct AmsGradRule {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-7;
  double weight_decay = 0;
};

// Kingma, Ba, "Adam", section 7.1.
//   m = beta1 m + (1 - beta1) g;  u = max(beta2 u, |g|);  var -= lr / (1 - beta1^t) m / (u + epsilon)
struct AdamaxRule {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-7;
  double weight_decay = 0;
};

// Dozat, "Incorporating Nesterov momentum into Adam" (ICLR 2016 workshop).
//   mu(t) = beta1 (1 - 0.96^t / 2);  P(t) = mu(1) ... mu(t);  m and v as in Adam
//   var -= lr (mu(t+1) / (1 - P(t+1)) m + (1 - mu(t)) / (1 - P(t)) g) / (sqrt(v / (1 - beta2^t)) + epsilon)
struct NadamRule {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-7;
  double weight_decay = 0;
};

using OptimizerRule = std::variant<SgdRule, MomentumRule, AdagradRule, RmsPropRule, AdamRule, AdadeltaRule, FtrlRule,
                                   LionRule, CenteredRmsPropRule, AmsGradRule, AdamaxRule, NadamRule>;

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
