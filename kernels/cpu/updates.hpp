// Update rules of optimizers on the CPU, dense and sparse.
//
// Every element is updated from its own value, slots and gradient alone, with IEEE operations only: an update
// of a whole variable and updates of any cut of it give the same bits.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <variant>

#include <troupe/devices/device.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

// var -= lr * g
struct SgdRule {};

// Polyak, "Some methods of speeding up the convergence of iteration methods" (1964); nesterov: Sutskever et
// al., "On the importance of initialization and momentum in deep learning" (ICML 2013), in the form that
// keeps the look-ahead point.
//   accum = momentum * accum + g;  var -= lr * (nesterov ? g + momentum * accum : accum)
struct MomentumRule {
  double momentum = 0.9;
  bool nesterov = false;
};

// Duchi, Hazan, Singer, "Adaptive subgradient methods" (JMLR 12, 2011), diagonal form.
//   accum += g^2;  var -= lr * g / (sqrt(accum) + epsilon)
struct AdagradRule {
  double epsilon = 1e-7;
};

// Tieleman, Hinton, "Lecture 6.5 - RMSProp" (2012), with momentum.
//   ms = rho * ms + (1 - rho) * g^2;  mom = momentum * mom + lr * g / sqrt(ms + epsilon);  var -= mom
struct RmsPropRule {
  double rho = 0.9;
  double momentum = 0;
  double epsilon = 1e-7;
};

// Kingma, Ba, "Adam" (ICLR 2015), section 2: the order of computation that moves the bias corrections into
// the rate.
//   m = beta1 * m + (1 - beta1) * g;  v = beta2 * v + (1 - beta2) * g^2
//   var -= alpha * m / (sqrt(v) + epsilon),  alpha = lr * sqrt(1 - beta2^t) / (1 - beta1^t) in double, then
//   rounded
struct AdamRule {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  std::int64_t step = 1;  // t: 1 for the first update
};

using OptimizerRule = std::variant<SgdRule, MomentumRule, AdagradRule, RmsPropRule, AdamRule>;

// Tensors a rule changes besides the variable: accum; ms and mom; m and v.
int num_slots(const OptimizerRule& rule);

// Tensors a rule changes at most: the variable and two slots.
inline constexpr std::size_t kMaxState = 3;

// Updates `state` in place: the variable and then its slots, all of one shape, f32 or f64; each in memory of
// its own. lr: one element; grad: shaped like the variable. Throws invalid_argument, before any change, if
// they do not fit.
void apply_update(Parallelism& parallelism, const OptimizerRule& rule, std::span<Tensor* const> state, const Tensor& lr,
                  const Tensor& grad);

// One of several updates by one rule.
struct VariableUpdate {
  std::array<Tensor*, kMaxState> state{};  // the variable and its slots
  const Tensor* grad = nullptr;
};

// apply_update() of each, all of one dtype, in one sweep over their elements: the same bits. Throws, before any
// change, what apply_update() would.
void apply_updates(Parallelism& parallelism, const OptimizerRule& rule, std::span<const VariableUpdate> updates,
                   const Tensor& lr);

// The same as apply_update() for rows `indices` (i64 [n]) of the variable with gradients `values` ([n, rest of the
// variable's shape]). The values of a row named several times are summed in order first; other rows and their slots do
// not change. Throws out_of_range for an index outside the variable, before any change.
void apply_sparse_update(Parallelism& parallelism, const OptimizerRule& rule, std::span<Tensor* const> state,
                         const Tensor& lr, const Tensor& indices, const Tensor& values);

// The same checks without the update, for callers that must not copy a variable in vain.
void check_update(const OptimizerRule& rule, std::span<const Tensor* const> state, const Tensor& lr,
                  const Tensor& grad);
void check_sparse_update(const OptimizerRule& rule, std::span<const Tensor* const> state, const Tensor& lr,
                         const Tensor& indices, const Tensor& values);

}  // namespace troupe
