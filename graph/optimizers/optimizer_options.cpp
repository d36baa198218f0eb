#include "troupe/graph/optimizers/optimizer_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include <troupe/graph/formats/text_call.hpp>
#include <troupe/graph/name_pattern.hpp>
#include <troupe/messages/overloaded.hpp>

namespace troupe {
namespace {

using namespace optimizers;

constexpr std::array<std::string_view, std::variant_size_v<Optimizer>> kOptimizerNames = {
    "sgd", "momentum", "adagrad", "rmsprop", "adam", "adamw", "adamax", "nadam", "adadelta", "ftrl", "lion"};

// Calls `visit(name, value)` for each option of an optimizer's own.
template <class Options, class Fn>
void each_option(Options& o, Fn visit) {
  if constexpr (requires { o.initial_accumulator; }) visit("initial_accumulator", o.initial_accumulator);
  if constexpr (requires { o.rho; }) visit("rho", o.rho);
  if constexpr (requires { o.momentum; }) visit("momentum", o.momentum);
  if constexpr (requires { o.nesterov; }) visit("nesterov", o.nesterov);
  if constexpr (requires { o.beta1; }) visit("beta1", o.beta1);
  if constexpr (requires { o.beta2; }) visit("beta2", o.beta2);
  if constexpr (requires { o.l1; }) visit("l1", o.l1);
  if constexpr (requires { o.l2; }) visit("l2", o.l2);
  if constexpr (requires { o.l2_shrinkage; }) visit("l2_shrinkage", o.l2_shrinkage);
  if constexpr (requires { o.beta; }) visit("beta", o.beta);
  if constexpr (requires { o.learning_rate_power; }) visit("learning_rate_power", o.learning_rate_power);
  if constexpr (requires { o.epsilon; }) visit("epsilon", o.epsilon);
  if constexpr (requires { o.centered; }) visit("centered", o.centered);
  if constexpr (requires { o.amsgrad; }) visit("amsgrad", o.amsgrad);
}

// The optimizer of that name, with its defaults.
template <std::size_t I = 0>
Optimizer optimizer_named(std::string_view name) {
  if constexpr (I == kOptimizerNames.size())
    invalid_argument("there is no optimizer '{}': expected one of {}", name, fmt::join(kOptimizerNames, ", "));
  else
    return name == kOptimizerNames[I] ? Optimizer(std::in_place_index<I>) : optimizer_named<I + 1>(name);
}

TextValue text_of(const WeightDecay& decay) {
  if (decay.only.empty() && decay.except.empty()) return decay.rate;
  TextCall out{"decay", {{"rate", decay.rate}}};
  if (!decay.only.empty()) out.add("only", decay.only);
  if (!decay.except.empty()) out.add("except", decay.except);
  return out;
}

const TextCall* call_in(const TextValue& text, std::string_view name) {
  const auto* const call = std::get_if<std::shared_ptr<const TextCall>>(&text.held);
  return call && (*call)->name == name ? call->get() : nullptr;
}

WeightDecay weight_decay_of(const TextValue& text) {
  WeightDecay out;
  const TextCall rate{"weight_decay", {{"rate", text}}};
  const TextCall* const decay = call_in(text, "decay");
  TextArguments arguments(decay ? *decay : rate);
  arguments.take("rate", out.rate);
  arguments.take("only", out.only);
  arguments.take("except", out.except);
  arguments.end();
  return out;
}

SlotUpdates slot_updates_of(const TextValue& text) {
  if (call_in(text, "exact")) return SlotUpdates::exact;
  if (call_in(text, "lazy")) return SlotUpdates::lazy;
  invalid_argument("slot_updates must be lazy or exact, not {}", to_string(text));
}

// The range of an option, and whether the value is in it.
struct Range {
  bool fits = true;
  const char* text = "";
};
Range range_of(std::string_view option, double value) {
  const bool finite = std::isfinite(value);
  if (option == "epsilon") return {finite && value > 0, "positive"};
  if (option == "learning_rate_power") return {finite && value <= 0, "0 or less"};
  for (const std::string_view decay : {"rho", "momentum", "beta1", "beta2"})
    if (option == decay) return {value >= 0 && value < 1, "in [0, 1)"};
  return {finite && value >= 0, "0 or more"};
}

void require_range(const Optimizer& optimizer, const char* option, double value) {
  const Range range = range_of(option, value);
  if (!range.fits) invalid_argument("optimizer {}: {} must be {}, not {}", name(optimizer), option, range.text, value);
}

OptimizerRule adam_rule(double beta1, double beta2, double epsilon, bool amsgrad, double decay) {
  if (amsgrad) return AmsGradRule{.beta1 = beta1, .beta2 = beta2, .epsilon = epsilon, .weight_decay = decay};
  return AdamRule{.beta1 = beta1, .beta2 = beta2, .epsilon = epsilon, .weight_decay = decay};
}
std::vector<OptimizerSlot> adam_slots(bool amsgrad) {
  if (amsgrad) return {{"m"}, {"v"}, {"vhat"}};
  return {{"m"}, {"v"}};
}

}  // namespace

double WeightDecay::rate_of(std::string_view variable) const {
  const auto matched = [&](const std::string& pattern) { return matches(pattern, variable); };
  if (!only.empty() && std::ranges::none_of(only, matched)) return 0;
  return std::ranges::any_of(except, matched) ? 0 : rate;
}

std::string name(const Optimizer& optimizer) { return std::string(kOptimizerNames[optimizer.index()]); }

const Schedule& learning_rate(const Optimizer& optimizer) {
  return std::visit([](const auto& o) -> const Schedule& { return o.learning_rate; }, optimizer);
}

SlotUpdates slot_updates(const Optimizer& optimizer) {
  return std::visit([](const auto& o) { return o.slot_updates; }, optimizer);
}

const std::optional<WeightAverage>& weight_average(const Optimizer& optimizer) {
  return std::visit([](const auto& o) -> const std::optional<WeightAverage>& { return o.average; }, optimizer);
}

const WeightDecay* weight_decay(const Optimizer& optimizer) {
  const auto decay = [](const auto& o) -> const WeightDecay* {
    if constexpr (requires { o.weight_decay; })
      return &o.weight_decay;
    else
      return nullptr;
  };
  return std::visit(decay, optimizer);
}

TextCall to_text(const Optimizer& optimizer) {
  TextCall out{name(optimizer), {{"learning_rate", learning_rate(optimizer).to_text()}}};
  const auto add = [&](const char* option, const auto& value) { out.add(option, value); };
  std::visit([&](const auto& o) { each_option(o, add); }, optimizer);
  const WeightDecay* const decay = weight_decay(optimizer);
  if (decay && (decay->rate != 0 || std::holds_alternative<AdamW>(optimizer))) out.add("weight_decay", text_of(*decay));
  if (slot_updates(optimizer) == SlotUpdates::exact) out.add("slot_updates", TextCall{"exact", {}});
  if (const auto& average = weight_average(optimizer)) out.add("average", to_text(*average));
  return out;
}

std::string to_string(const Optimizer& optimizer) { return to_string(to_text(optimizer)); }

Optimizer parse_optimizer(std::string_view text) {
  const TextCall call = parse_call(text);
  Optimizer out = optimizer_named(call.name);
  TextArguments arguments(call);
  const auto read = [&](auto& o) {
    if (const TextValue* rate = arguments.find("learning_rate")) o.learning_rate = Schedule::of(*rate);
    each_option(o, [&](const char* option, auto& to) { arguments.take(option, to); });
    if constexpr (requires { o.weight_decay; })
      if (const TextValue* decay = arguments.find("weight_decay")) o.weight_decay = weight_decay_of(*decay);
    if (const TextValue* updates = arguments.find("slot_updates")) o.slot_updates = slot_updates_of(*updates);
    if (const TextValue* average = arguments.find("average")) o.average = weight_average_of(*average);
  };
  try {
    std::visit(read, out);
    arguments.end();
  } catch (const Error& error) {
    throw error.within("optimizer " + call.name);
  }
  check_options(out);
  return out;
}

void check_options(const Optimizer& optimizer) {
  const Schedule& rate = learning_rate(optimizer);
  if (rate.is_constant())
    require_range(optimizer, "learning_rate", rate.rate(0));
  else if (const std::string problem = rate.problem(); !problem.empty())
    invalid_argument("optimizer {}: learning_rate: {}", name(optimizer), problem);
  const auto require = [&]<class T>(const char* option, const T& value) {
    if constexpr (std::is_same_v<T, double>) require_range(optimizer, option, value);
  };
  std::visit([&](const auto& o) { each_option(o, require); }, optimizer);
  if (const WeightDecay* decay = weight_decay(optimizer)) require_range(optimizer, "weight_decay", decay->rate);
  if (const auto& average = weight_average(optimizer))
    if (const std::string found = problem(*average); !found.empty())
      invalid_argument("optimizer {}: {}", name(optimizer), found);
}

OptimizerRule rule_of(const Optimizer& optimizer, std::string_view variable) {
  const WeightDecay* weights = weight_decay(optimizer);
  const double decay = weights ? weights->rate_of(variable) : 0;
  const Overloaded cases{
      [&](const SGD&) -> OptimizerRule { return SgdRule{.weight_decay = decay}; },
      [&](const Momentum& o) -> OptimizerRule {
        return MomentumRule{.momentum = o.momentum, .nesterov = o.nesterov, .weight_decay = decay};
      },
      [&](const Adagrad& o) -> OptimizerRule { return AdagradRule{.epsilon = o.epsilon, .weight_decay = decay}; },
      [&](const RMSProp& o) -> OptimizerRule {
        if (o.centered)
          return CenteredRmsPropRule{.rho = o.rho, .momentum = o.momentum, .epsilon = o.epsilon, .weight_decay = decay};
        return RmsPropRule{.rho = o.rho, .momentum = o.momentum, .epsilon = o.epsilon, .weight_decay = decay};
      },
      [&](const Adam& o) { return adam_rule(o.beta1, o.beta2, o.epsilon, o.amsgrad, decay); },
      [&](const AdamW& o) { return adam_rule(o.beta1, o.beta2, o.epsilon, o.amsgrad, decay); },
      [&](const Adamax& o) -> OptimizerRule {
        return AdamaxRule{.beta1 = o.beta1, .beta2 = o.beta2, .epsilon = o.epsilon, .weight_decay = decay};
      },
      [&](const Nadam& o) -> OptimizerRule {
        return NadamRule{.beta1 = o.beta1, .beta2 = o.beta2, .epsilon = o.epsilon, .weight_decay = decay};
      },
      [&](const Adadelta& o) -> OptimizerRule {
        return AdadeltaRule{.rho = o.rho, .epsilon = o.epsilon, .weight_decay = decay};
      },
      [&](const Ftrl& o) -> OptimizerRule {
        return FtrlRule{.l1 = o.l1,
                        .l2 = o.l2,
                        .l2_shrinkage = o.l2_shrinkage,
                        .beta = o.beta,
                        .learning_rate_power = o.learning_rate_power,
                        .weight_decay = decay};
      },
      [&](const Lion& o) -> OptimizerRule {
        return LionRule{.beta1 = o.beta1, .beta2 = o.beta2, .weight_decay = decay};
      },
  };
  return std::visit(cases, optimizer);
}

std::vector<OptimizerSlot> slots_of(const Optimizer& optimizer) {
  using Slots = std::vector<OptimizerSlot>;
  const Overloaded cases{
      [](const SGD&) { return Slots{}; },
      [](const Momentum&) { return Slots{{"accum"}}; },
      [](const Adagrad& o) {
        return Slots{{"accum", o.initial_accumulator}};
      },
      [](const RMSProp& o) {
        return o.centered ? Slots{{"ms"}, {"mom"}, {"mg"}} : Slots{{"ms"}, {"mom"}};
      },
      [](const Adam& o) { return adam_slots(o.amsgrad); },
      [](const AdamW& o) { return adam_slots(o.amsgrad); },
      [](const Adamax&) {
        return Slots{{"m"}, {"u"}};
      },
      [](const Nadam&) {
        return Slots{{"m"}, {"v"}};
      },
      [](const Adadelta&) {
        return Slots{{"accum"}, {"accum_update"}};
      },
      [](const Ftrl& o) {
        return Slots{{"accum", o.initial_accumulator}, {"linear"}};
      },
      [](const Lion&) { return Slots{{"m"}}; },
  };
  return std::visit(cases, optimizer);
}

}  // namespace troupe
