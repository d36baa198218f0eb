// The optimizers and their options. Formulas, constants: graph/optimizers/optimizer_rules.hpp.
//
//   optimizers::AdamW{.learning_rate = 3e-4, .weight_decay = {.rate = 0.1, .except = {"*/bias", "*norm*"}}}
//
// Common to all:
//   * weight_decay: decoupled, lr * rate * var is taken off before the update; Adam with it is AdamW.
//   * slot_updates: what a sparse gradient does to the rows it does not have. All are lazy by default. exact has the
//     bits of a dense gradient with zeros there, at the cost of one. Without weight decay SGD and Adagrad are the same
//     both ways. In mode allreduce gradients are dense, so updates exact.
//   * average: of the weights, kept beside them (graph/optimizers/weight_averages.hpp).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <troupe/graph/optimizers/optimizer_rules.hpp>
#include <troupe/graph/optimizers/schedules.hpp>
#include <troupe/graph/optimizers/updates.hpp>
#include <troupe/graph/optimizers/weight_averages.hpp>

namespace troupe {

struct TextCall;

// Patterns of whole variable names: * is any run of characters, ? is any one.
struct WeightDecay {
  double rate = 0;
  std::vector<std::string> only{};    // names that decay; none: all
  std::vector<std::string> except{};  // names that do not decay, even if in `only`

  double rate_of(std::string_view variable) const;
};

namespace optimizers {

struct SGD {
  Schedule learning_rate = 0.01;
  WeightDecay weight_decay{};
  SlotUpdates slot_updates = SlotUpdates::lazy;
  std::optional<WeightAverage> average{};
};
struct Momentum {
  Schedule learning_rate = 0.01;
  double momentum = MomentumRule{}.momentum;
  bool nesterov = MomentumRule{}.nesterov;
  WeightDecay weight_decay{};
  SlotUpdates slot_updates = SlotUpdates::lazy;
  std::optional<WeightAverage> average{};
};
struct Adagrad {
  Schedule learning_rate = 0.01;
  double initial_accumulator = 0.1;
  double epsilon = AdagradRule{}.epsilon;
  WeightDecay weight_decay{};
  SlotUpdates slot_updates = SlotUpdates::lazy;
  std::optional<WeightAverage> average{};
};
struct RMSProp {
  Schedule learning_rate = 1e-3;
  double rho = RmsPropRule{}.rho;
  double momentum = RmsPropRule{}.momentum;
  double epsilon = RmsPropRule{}.epsilon;
  bool centered = false;
  WeightDecay weight_decay{};
  SlotUpdates slot_updates = SlotUpdates::lazy;
  std::optional<WeightAverage> average{};
};
struct Adam {
  Schedule learning_rate = 1e-3;
  double beta1 = AdamRule{}.beta1;
  double beta2 = AdamRule{}.beta2;
  double epsilon = AdamRule{}.epsilon;
  bool amsgrad = false;
  SlotUpdates slot_updates = SlotUpdates::lazy;
  std::optional<WeightAverage> average{};
};
struct AdamW {
  Schedule learning_rate = 1e-3;
  double beta1 = AdamRule{}.beta1;
  double beta2 = AdamRule{}.beta2;
  double epsilon = AdamRule{}.epsilon;
  bool amsgrad = false;
  WeightDecay weight_decay{.rate = 0.004};
  SlotUpdates slot_updates = SlotUpdates::lazy;
  std::optional<WeightAverage> average{};
};
struct Adamax {
  Schedule learning_rate = 1e-3;
  double beta1 = AdamaxRule{}.beta1;
  double beta2 = AdamaxRule{}.beta2;
  double epsilon = AdamaxRule{}.epsilon;
  WeightDecay weight_decay{};
  SlotUpdates slot_updates = SlotUpdates::lazy;
  std::optional<WeightAverage> average{};
};
struct Nadam {
  Schedule learning_rate = 1e-3;
  double beta1 = NadamRule{}.beta1;
  double beta2 = NadamRule{}.beta2;
  double epsilon = NadamRule{}.epsilon;
  WeightDecay weight_decay{};
  SlotUpdates slot_updates = SlotUpdates::lazy;
  std::optional<WeightAverage> average{};
};
struct Adadelta {
  Schedule learning_rate = 1e-3;  // 1 in the paper
  double rho = AdadeltaRule{}.rho;
  double epsilon = AdadeltaRule{}.epsilon;
  WeightDecay weight_decay{};
  SlotUpdates slot_updates = SlotUpdates::lazy;
  std::optional<WeightAverage> average{};
};
struct Ftrl {
  Schedule learning_rate = 1e-3;
  double l1 = FtrlRule{}.l1;
  double l2 = FtrlRule{}.l2;
  double l2_shrinkage = FtrlRule{}.l2_shrinkage;
  double beta = FtrlRule{}.beta;
  double learning_rate_power = FtrlRule{}.learning_rate_power;
  double initial_accumulator = 0.1;
  WeightDecay weight_decay{};
  SlotUpdates slot_updates = SlotUpdates::lazy;
  std::optional<WeightAverage> average{};
};
struct Lion {
  Schedule learning_rate = 1e-3;
  double beta1 = LionRule{}.beta1;
  double beta2 = LionRule{}.beta2;
  WeightDecay weight_decay{};
  SlotUpdates slot_updates = SlotUpdates::lazy;
  std::optional<WeightAverage> average{};
};

}  // namespace optimizers

using Optimizer = std::variant<optimizers::SGD, optimizers::Momentum, optimizers::Adagrad, optimizers::RMSProp,
                               optimizers::Adam, optimizers::AdamW, optimizers::Adamax, optimizers::Nadam,
                               optimizers::Adadelta, optimizers::Ftrl, optimizers::Lion>;

// "sgd", "momentum", "adagrad", "rmsprop", "adam", "adamw", "adamax", "nadam", "adadelta", "ftrl", "lion".
std::string name(const Optimizer& optimizer);
const Schedule& learning_rate(const Optimizer& optimizer);
SlotUpdates slot_updates(const Optimizer& optimizer);
const std::optional<WeightAverage>& weight_average(const Optimizer& optimizer);
// Null for Adam, which has none.
const WeightDecay* weight_decay(const Optimizer& optimizer);

// As a call (graph/formats/text_call.hpp): "momentum(learning_rate=0.01, momentum=0.9, nesterov=false)". weight_decay
// is a rate, or decay(rate=0.1, only=[...], except=[...]); options common to all are left out where they do nothing.
TextCall to_text(const Optimizer& optimizer);
std::string to_string(const Optimizer& optimizer);
// What to_string() wrote; options left out have their defaults. Throws invalid_argument, naming the optimizer and the
// option, for anything else and for options out of range.
Optimizer parse_optimizer(std::string_view text);

// Throws invalid_argument naming the first option out of range.
void check_options(const Optimizer& optimizer);

// How the variable of that name is updated.
OptimizerRule rule_of(const Optimizer& optimizer, std::string_view variable);

// The state that an optimizer keeps for a variable, in the order of its rule.
struct OptimizerSlot {
  std::string role;
  double first = 0;  // the initial value
};
std::vector<OptimizerSlot> slots_of(const Optimizer& optimizer);

}  // namespace troupe
