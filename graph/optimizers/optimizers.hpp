// Optimizers turn gradients into updates of variables.
//
//   Output train = minimize(loss, optimizers::Adam{.learning_rate = 1e-3});
//   session.run(feeds, {loss}, {train});
//
// The state that an optimizer keeps for a variable is a variable too ("dense/kernel/adam_m"): not trainable, with the
// same dtype (as in Keras: f16 and bf16 too, computed in f32 and rounded once), shape and device, initially zeros.
// Optimizers and their options: graph/optimizers/optimizer_options.hpp; formulas: graph/optimizers/optimizer_rules.hpp.
#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <troupe/graph/builder/variable.hpp>
#include <troupe/graph/gradients/autodiff.hpp>
#include <troupe/graph/optimizers/loss_scaling.hpp>
#include <troupe/graph/optimizers/optimizer_options.hpp>

namespace troupe {

// Attribute of an Apply node: it changes nothing if its gradient is not finite.
inline constexpr const char* kGuarded = "_guarded";
// An attribute of updates whose rate is the part of a running average: nothing scales it.
inline constexpr const char* kFixedRate = "_fixed_rate";
// The name of an f64 scalar. In a graph that has it, updates multiply their learning rates by it.
inline constexpr const char* kRateScale = "learning_rate_scale";

// Whether this is the name of a variable in which a graph counts the updates of one apply_gradients().
bool is_update_count(std::string_view name);

struct GradientAndVariable {
  Gradient gradient{};
  VariableRef variable{};
  // Set: the gradient is of a running average (graph/optimizers/running_average.hpp), moved by plain gradient descent
  // at this rate, regardless of the optimizer.
  std::optional<Schedule> moved_by{};
};

// The gradient of a scalar loss with respect to the read() of each variable. Throws invalid_argument naming the
// variables that the loss does not depend on.
std::vector<GradientAndVariable> compute_gradients(Output loss, std::span<const VariableRef> variables);

// Adds and returns a NoOp that updates every variable once, each after its read(). The learning rate is a Const,
// "learning_rate", for each dtype, or a LearningRate node if it changes. Adam and changing rates count updates in a
// variable, "global_step" (i64; in a second call "global_step_1"): the rate is computed from the count before the
// update, Adam's Apply nodes use that count plus one, and the variable is set to it afterwards. The NoOp has a name
// relative to the scope ("train") and the Apply nodes below it ("train/dense/kernel"). With an average of weights, it
// moves these as well. Throws invalid_argument if there are no variables, if one is repeated or has no gradient, and
// for invalid options, naming them.
Output apply_gradients(Graph& graph, const Optimizer& optimizer, std::span<const GradientAndVariable> gradients,
                       Name name = "train");

// The same for gradients of a scaled loss, which are divided by the scale, except those of running averages. If one is
// not finite, nothing is updated: no variable, no slot, not Adam's count; `scale` counts the step and halves. The
// updates are in branches of If nodes with the same names.
//
// With scale.on_shards, for graphs passed to shard_variables: the updates are plain Apply nodes with the attribute
// kGuarded, and if one gradient is not finite, all become NaN. A shard skips gradients that are not finite, so all
// shards skip alike, regardless of the slot. Throws unimplemented for sparse gradients, which may have no element to
// mark.
Output apply_scaled_gradients(Graph& graph, const Optimizer& optimizer, const LossScale& scale,
                              std::span<const GradientAndVariable> gradients, Name name = "train");

// Adds gradients and updates for all trainable variables that the loss's graph has now.
Output minimize(Output loss, const Optimizer& optimizer, Name name = "train");
Output minimize_scaled(Output loss, const Optimizer& optimizer, const LossScale& scale, Name name = "train");

// An optimizer in eager mode, with what it keeps from one update to the next: the slots of each variable, which it
// holds, and the number of updates. The bits are those of apply_gradients().
//
//   EagerOptimizer optimizer(optimizers::Adam{.learning_rate = 1e-3});
//   for (...) optimizer.minimize([&] { return mean(square(matmul(x, w.read()) - y)); }, {w});
class EagerOptimizer {
 public:
  // `scaling`: of losses whose gradients are in f16 (loss_scaling.hpp). Throws invalid_argument for invalid options,
  // naming them.
  explicit EagerOptimizer(Optimizer optimizer, std::optional<LossScaling> scaling = {});
  // From now on with these options, such as another learning rate. It keeps its state: throws invalid_argument for
  // another optimizer.
  void change(Optimizer optimizer);
  // Updates every variable once. Throws invalid_argument like apply_gradients(). With a scaling the gradients are of
  // scaled(loss); nothing changes but the scale if one is not finite.
  void apply(std::span<const GradientAndVariable> gradients);
  // The loss of now, of which it applies the gradients. Throws invalid_argument for a loss that is not a scalar, or
  // does not depend on a variable.
  Output minimize(const std::function<Output()>& loss, std::span<const VariableRef> variables);
  Output minimize(const std::function<Output()>& loss, std::initializer_list<VariableRef> variables) {
    return minimize(loss, std::span(variables.begin(), variables.size()));
  }
  // The loss times the scale of now; without a scaling itself. Throws invalid_argument for a tensor of a graph.
  Output scaled(const Output& loss);
  // Slots, averages of weights, the count, and the state of the scale, as far as they exist, in the order in which they
  // were made.
  std::vector<VariableRef> variables() const;

  // By the variable (null: the count) and the role of what is kept.
  struct Kept {
    Output of{};
    VariableRef variable{};
  };
  struct State {
    std::map<std::pair<const EagerValue*, std::string>, Kept> by_role{};
    std::vector<VariableRef> in_order{};
  };

 private:
  LossScale scale_of_now(Graph& graph);

  Optimizer optimizer_;
  const std::optional<LossScaling> scaling_;
  State state_;
  VariableRef scale_;  // without a handle until it is wanted
};

}  // namespace troupe
