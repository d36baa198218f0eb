#include "troupe/graph/optimizers/optimizers.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/builder/functions.hpp>
#include <troupe/graph/gradients/tape.hpp>
#include <troupe/graph/op_runner.hpp>
#include <troupe/graph/optimizers/updates.hpp>

namespace troupe {
namespace {

constexpr const char* kUpdateCount = "global_step";

// An unused name, relative to the scope.
std::string free_name(Graph& graph, const std::string& base) {
  return graph.unique_name(base).substr(graph.current_scope().size());
}

void check(const Graph& graph, std::span<const GradientAndVariable> gradients) {
  if (gradients.empty()) invalid_argument("apply_gradients: there are no variables to update");
  std::set<std::pair<const EagerValue*, int>> seen;
  for (const auto& [gradient, variable, moved_by] : gradients) {
    if (moved_by && !gradient.is_dense())
      invalid_argument("apply_gradients: the running average '{}' has a sparse gradient", variable.name);
    const Output flow = gradient.is_dense() ? gradient.dense : gradient.values;
    if (!flow.valid()) invalid_argument("apply_gradients: variable '{}' has no gradient", variable.name);
    if (!flow.graph->is_within(graph) || variable.handle.graph != &graph)
      invalid_argument("apply_gradients: variable '{}' or its gradient belongs to another graph", variable.name);
    if (!seen.emplace(variable.handle.eager.get(), variable.handle.node).second)
      invalid_argument("apply_gradients: variable '{}' is given twice; add its gradients first", variable.name);
  }
}

// Inputs of one Apply node, in the graph it is added to.
struct Update {
  OptimizerRule rule;
  Output var;
  Outputs slots;
  Output rate;
  Output number;  // for rules that count updates
  Gradient gradient;
  std::string name;
};

Output add_update(const Update& u, SlotUpdates slot_updates) {
  Outputs inputs{u.var};
  inputs.insert(inputs.end(), u.slots.begin(), u.slots.end());
  inputs.push_back(u.rate);
  if (rule_kind(u.rule).counts_updates) inputs.push_back(u.number);
  return apply_rule(u.rule, std::move(inputs), u.gradient, u.name, slot_updates);
}

using KeptVariables = EagerOptimizer::State;

// The Apply nodes of one call; with a loss scale, those of each device in a branch of an If: the host has to read its
// condition, and once is enough.
class Updates {
 public:
  Updates(Graph& graph, const Optimizer& optimizer, KeptVariables& kept, std::string name, const LossScale* scale)
      : graph_(graph),
        optimizer_(optimizer),
        kept_(kept),
        rate_(learning_rate(optimizer)),
        counts_(rule_kind(rule_of(optimizer, "")).counts_updates),
        name_(std::move(name)),
        scale_(scale) {
    if (const Node* factor = graph.find(kRateScale)) rate_factor_ = graph.output(*factor);
  }

  Output finish(std::span<const GradientAndVariable> gradients) {
    if (scale_) check_gradients(gradients);
    const std::vector<GradientAndVariable> all = with_averages(gradients);
    start_counting(all);
    for (const GradientAndVariable& g : all) {
      if (scale_ && !scale_->on_shards) {
        guard_update(g);
        continue;
      }
      done_.push_back(scale_ ? marked_update(g) : update(g));
      if (!graph_.is_eager()) graph_.add_control_edge(g.variable.read().source(), done_.back().source());
    }
    for (const auto& [device, guarded] : guarded_) add_guarded(device, guarded);
    finish_counting();
    if (scale_) done_.push_back(update_loss_scale(*scale_, verdict_, free_name(graph_, name_ + "/loss_scale")));
    return group(graph_, done_, name_);
  }

 private:
  void check_gradients(std::span<const GradientAndVariable> gradients) {
    std::vector<Gradient> flows;
    std::vector<VariableRef> variables;
    for (const GradientAndVariable& g : gradients) {
      flows.push_back(g.gradient);
      variables.push_back(g.variable);
    }
    const auto scope = graph_.scope(name_);
    finite_ = all_finite(flows, variables);
    verdict_ = one_or_nan(finite_);
    inverse_ = div(scalar_like(scale_->scale, 1), scale_->scale, "inverse_scale");
  }

  // The gradients, and the moves of the averages of the trained weights.
  std::vector<GradientAndVariable> with_averages(std::span<const GradientAndVariable> gradients) {
    std::vector<GradientAndVariable> out(gradients.begin(), gradients.end());
    const std::optional<WeightAverage>& average = weight_average(optimizer_);
    if (!average) return out;
    for (const GradientAndVariable& g : gradients) {
      if (g.moved_by) continue;
      const VariableRef averaged = kept(g.variable.handle, "average", [&] { return average_variable(g.variable); });
      const auto device = graph_.on_device(averaged.handle.source().device);
      out.push_back({.gradient = {.dense = sub(averaged.read(), g.variable.read())},
                     .variable = averaged,
                     .moved_by = part_of_weights(*average)});
    }
    return out;
  }

  void start_counting(std::span<const GradientAndVariable> all) {
    const auto changes = [](const GradientAndVariable& g) { return g.moved_by && !g.moved_by->is_constant(); };
    if (!counts_ && rate_.is_constant() && std::ranges::none_of(all, changes)) return;
    count_ = kept({}, kUpdateCount, [&] {
      return variable(graph_,
                      {.name = free_name(graph_, kUpdateCount),
                       .initial_value = constant(graph_, std::int64_t{0}, free_name(graph_, "global_step/zero")),
                       .trainable = false});
    });
    one_ = scalar_like(count_.read(), 1, free_name(graph_, count_.name + "/one"));
    number_ = add(count_.read(), one_, free_name(graph_, count_.name + "/next"));
  }
  void finish_counting() {
    if (!number_.valid()) return;
    const auto after_updates = graph_.after(done_);
    const auto scope = graph_.scope(name_);
    // Added on the variable's device: steps are recorded with the memory of their variables. Added whether it counts or
    // not: an If for one number would cost more.
    done_.push_back(count_.assign_add(scale_ ? cast(finite_, count_.dtype) : one_));
  }

  Output update(const GradientAndVariable& g) {
    if (g.moved_by) {
      const Output moved = apply_sgd(g.variable.handle, rate(g), g.gradient, node_name(g));
      if (!graph_.is_eager()) graph_.set_attribute(moved.source(), kFixedRate, true);
      return moved;
    }
    Update u{.rule = rule_of(optimizer_, g.variable.name), .var = g.variable.handle};
    u.slots = slot_variables(g.variable);
    u.rate = rate(g);
    if (counts_) u.number = number_;
    u.gradient = g.gradient;
    u.name = node_name(g);
    return add_update(u, slot_updates(optimizer_));
  }

  // For a shard, which sees only the gradient.
  Output marked_update(const GradientAndVariable& g) {
    if (!g.gradient.is_dense())
      fail(Code::unimplemented,
           "variable '{}' has a sparse gradient, which loss scaling on shards does not support; use bf16",
           g.variable.name);
    if (!factor_.valid()) factor_ = mul(inverse_, verdict_, free_name(graph_, name_ + "/factor"));
    const Output factor = g.moved_by ? verdict_ : factor_;
    GradientAndVariable scaled = g;
    scaled.gradient.dense = mul(g.gradient.dense, cast(factor, g.gradient.dense.dtype()));
    const Output applied = update(scaled);
    graph_.set_attribute(applied.source(), kGuarded, true);
    return applied;
  }

  // Runs in the If of a device if all gradients are finite.
  struct Guarded {
    Outputs inputs;
    std::vector<std::function<void(const Outputs& in)>> changes;
    std::vector<VariableRef> variables;

    std::size_t take(Output input) {
      const auto known = std::ranges::find(inputs, input);
      const auto place = static_cast<std::size_t>(known - inputs.begin());
      if (known == inputs.end()) inputs.push_back(input);
      return place;
    }
  };

  void guard_update(const GradientAndVariable& g) {
    Guarded& group = guarded_[g.variable.handle.source().device];
    group.variables.push_back(g.variable);
    const std::string name = "apply/" + g.variable.name;
    const bool dense = g.gradient.is_dense();
    const std::size_t flow = group.take(dense ? g.gradient.dense : g.gradient.values),
                      var = group.take(g.variable.handle);
    if (g.moved_by) {
      const bool constant_rate = g.moved_by->is_constant();
      const std::size_t by_place = constant_rate ? 0 : group.take(rate(g));
      group.changes.push_back([=, by = g.moved_by->rate(0)](const Outputs& in) {
        apply_sgd(in[var], constant_rate ? scalar_like(in[flow], by) : in[by_place], {.dense = in[flow]}, name);
      });
      return;
    }
    const std::size_t inverse = group.take(inverse_), number = counts_ ? group.take(number_) : 0,
                      rate_place = constant_rate() ? 0 : group.take(rate(g)),
                      rows = dense ? 0 : group.take(g.gradient.indices);
    std::vector<std::size_t> slots;
    for (const Output& slot : slot_variables(g.variable)) slots.push_back(group.take(slot));
    group.changes.push_back([=, this, rule = rule_of(optimizer_, g.variable.name)](const Outputs& in) {
      Update u{.rule = rule, .var = in[var], .name = name};
      if (counts_) u.number = in[number];
      u.rate = constant_rate() ? scalar_like(in[flow], rate_.rate(0)) : in[rate_place];
      if (!dense) u.gradient.indices = in[rows];
      (dense ? u.gradient.dense : u.gradient.values) = mul(in[flow], cast(in[inverse], in[flow].dtype()));
      for (const std::size_t slot : slots) u.slots.push_back(in[slot]);
      add_update(u, slot_updates(optimizer_));
    });
  }

  void add_guarded(const std::string& device, const Guarded& guarded) {
    const auto change = [&](Graph&, const Outputs& in) -> Outputs {
      for (const auto& one : guarded.changes) one(in);
      return {};
    };
    const auto keep = [](Graph&, const Outputs&) { return Outputs{}; };
    const std::string name = free_name(graph_, name_ + "/updates");
    const auto there = graph_.on_device(device);
    if_else(finite_, guarded.inputs, change, keep, graph_.is_eager() ? Name() : Name(name));
    if (graph_.is_eager()) return;  // it has run, or is traced in the order of the program
    const Output node = graph_.output(graph_.get(graph_.current_scope() + name));
    for (const VariableRef& variable : guarded.variables)
      graph_.add_control_edge(variable.read().source(), node.source());
    done_.push_back(node);
  }

  std::string node_name(const GradientAndVariable& g) { return free_name(graph_, name_ + "/" + g.variable.name); }

  // A shard must find a Const or LearningRate here, and each dtype needs its own.
  Output rate(const GradientAndVariable& g) {
    const Schedule& schedule = g.moved_by ? *g.moved_by : rate_;
    Output& known = rates_[{g.variable.dtype, g.moved_by ? schedule.to_string() : ""}];
    if (known.valid()) return known;
    const std::string name = free_name(graph_, g.moved_by ? name_ + "/average_rate" : "learning_rate");
    if (schedule.is_constant()) {
      known = scalar_like(g.variable.read(), schedule.rate(0), name);
    } else {
      Attributes attributes = schedule.attributes();
      attributes.set("T", g.variable.dtype);
      known = add_op("LearningRate", {count_.read()}, std::move(attributes), name);
    }
    if (rate_factor_.valid() && !g.moved_by) {
      const Output wide = mul(cast(known, DType::f64), rate_factor_);
      known = cast(wide, g.variable.dtype, free_name(graph_, "scaled_learning_rate"));
    }
    return known;
  }
  bool constant_rate() const { return rate_.is_constant() && !rate_factor_.valid(); }

  Outputs slot_variables(const VariableRef& of) {
    Outputs out;
    for (const OptimizerSlot& slot : slots_of(optimizer_)) out.push_back(slot_variable(of, slot));
    return out;
  }
  Output slot_variable(const VariableRef& of, const OptimizerSlot& slot) {
    return kept(of.handle, slot.role, [&] { return make_slot(of, slot); }).handle;
  }
  // "dense/kernel/adam_m".
  VariableRef make_slot(const VariableRef& of, const OptimizerSlot& slot) {
    const std::string local = free_name(graph_, of.name + "/" + troupe::name(optimizer_) + "_" + slot.role);
    const auto device = graph_.on_device(of.handle.source().device);
    VariableOptions options{.name = local, .shape = of.shape, .dtype = of.dtype, .trainable = false};
    if (slot.first != 0) {
      const auto scope = graph_.scope(local);
      const Output dims = constant(graph_, Tensor::of<std::int64_t>(Shape{of.shape.rank()}, of.shape.dims()));
      options.initial_value = fill(dims, scalar_like(of.read(), slot.first));
    }
    return variable(graph_, std::move(options));
  }

  // What an optimizer keeps for a variable, also if this is traced. In a graph each call makes its own.
  template <class Make>
  VariableRef kept(const Output& of, const std::string& role, const Make& make) {
    if (!graph_.is_eager()) return make();
    auto& known = kept_.by_role[{of.eager.get(), role}];
    if (!known.variable.handle.valid()) {
      const InitScope init;
      known = {of, make()};
      kept_.in_order.push_back(known.variable);
    }
    return known.variable;
  }

  Graph& graph_;
  const Optimizer& optimizer_;
  KeptVariables& kept_;
  const Schedule& rate_;
  const bool counts_;  // updates take their number
  std::string name_;
  const LossScale* scale_;
  Output rate_factor_;                                     // f64; invalid: 1
  Output finite_;                                          // with a scale: whether this step may change anything
  Output verdict_;                                         // the same as a factor: 1 or NaN
  Output inverse_;                                         // with a scale: 1 / scale
  Output factor_;                                          // on shards: both
  std::map<std::pair<DType, std::string>, Output> rates_;  // by dtype; for running averages, also by their own rate
  VariableRef count_;                       // of updates; for rules that take it, and for a rate that changes
  Output number_;                           // of this update, from 1
  Output one_;                              // the increment of count_
  std::map<std::string, Guarded> guarded_;  // by device
  Outputs done_;
};

// For all trainable variables.
std::vector<GradientAndVariable> all_gradients(const char* what, Output loss) {
  if (!loss.valid()) invalid_argument("{}: the loss is not a tensor", what);
  std::vector<VariableRef> trainable;
  for (const VariableInfo& v : variables(*loss.graph))
    if (v.trainable) trainable.push_back(find_variable(*loss.graph, v.name));
  return compute_gradients(loss, trainable);
}

}  // namespace

bool is_update_count(std::string_view name) {
  if (!name.starts_with(kUpdateCount)) return false;
  name.remove_prefix(std::string_view(kUpdateCount).size());
  return name.empty() || (name.size() > 1 && name[0] == '_' &&
                          std::ranges::all_of(name.substr(1), [](char c) { return c >= '0' && c <= '9'; }));
}

std::vector<GradientAndVariable> compute_gradients(Output loss, std::span<const VariableRef> variables) {
  if (!loss.valid()) invalid_argument("compute_gradients: the loss is not a tensor");
  if (loss.shape().has_rank() && !loss.shape().is_scalar())
    invalid_argument("compute_gradients: the loss '{}' is {}, but must be a scalar; take its mean or sum", loss.name(),
                     loss.shape().to_string());
  Outputs reads;
  for (const VariableRef& v : variables) reads.push_back(v.read());
  const std::vector<Gradient> found = gradients(Outputs{loss}, reads);
  std::vector<GradientAndVariable> out;
  std::string unconnected;
  for (std::size_t i = 0; i < variables.size(); ++i) {
    if (!found[i]) unconnected += (unconnected.empty() ? "'" : ", '") + variables[i].name + "'";
    out.push_back({found[i], variables[i]});
  }
  if (!unconnected.empty())
    invalid_argument("the loss '{}' does not depend on {}; make them not trainable, or leave them out", loss.name(),
                     unconnected);
  return out;
}

Output apply_gradients(Graph& graph, const Optimizer& optimizer, std::span<const GradientAndVariable> gradients,
                       Name name) {
  if (graph.is_eager())
    fail(Code::failed_precondition, "apply_gradients: in eager mode an EagerOptimizer keeps the optimizer's state");
  check_options(optimizer);
  check(graph, gradients);
  KeptVariables none;
  return Updates(graph, optimizer, none, free_name(graph, name), nullptr).finish(gradients);
}

Output apply_scaled_gradients(Graph& graph, const Optimizer& optimizer, const LossScale& scale,
                              std::span<const GradientAndVariable> gradients, Name name) {
  check_options(optimizer);
  check(graph, gradients);
  if (scale.state.handle.graph != &graph)
    invalid_argument("apply_scaled_gradients: the loss scale belongs to another graph");
  KeptVariables none;
  return Updates(graph, optimizer, none, free_name(graph, name), &scale).finish(gradients);
}

EagerOptimizer::EagerOptimizer(Optimizer optimizer, std::optional<LossScaling> scaling)
    : optimizer_(std::move(optimizer)), scaling_(scaling) {
  check_options(optimizer_);
}

LossScale EagerOptimizer::scale_of_now(Graph& graph) {
  if (!scale_.handle.valid()) {
    const InitScope init;
    scale_ = loss_scale(graph, *scaling_).state;
  }
  return loss_scale_of(scale_, *scaling_);
}

Output EagerOptimizer::scaled(const Output& loss) {
  if (!scaling_) return loss;
  Graph* graph = loss.graph;
  while (graph && !graph->is_eager()) graph = graph->around();
  if (!graph) invalid_argument("EagerOptimizer: the loss is not of eager mode");
  return scale_of_now(*graph).scaled(loss);
}

void EagerOptimizer::change(Optimizer optimizer) {
  if (optimizer.index() != optimizer_.index())
    invalid_argument("EagerOptimizer: {} cannot become {}", name(optimizer_), name(optimizer));
  check_options(optimizer);
  optimizer_ = std::move(optimizer);
}

void EagerOptimizer::apply(std::span<const GradientAndVariable> gradients) {
  if (gradients.empty()) invalid_argument("EagerOptimizer: there are no variables to update");
  Graph* const graph = gradients.front().variable.handle.graph;
  if (!graph || !graph->is_eager())
    invalid_argument("EagerOptimizer: the variables are of a graph: use apply_gradients");
  check(*graph, gradients);
  const OpRecorder::Pause pause;
  std::optional<LossScale> scale;
  if (scaling_) scale = scale_of_now(*graph);
  Updates(*graph, optimizer_, state_, "train", scale ? &*scale : nullptr).finish(gradients);
}

Output EagerOptimizer::minimize(const std::function<Output()>& loss, std::span<const VariableRef> variables) {
  GradientTape tape;
  const Output value = loss();
  if (!value.valid() || !value.shape().is_scalar())
    invalid_argument("EagerOptimizer: the loss must be a scalar; take its mean or sum");
  Outputs handles;
  for (const VariableRef& variable : variables) handles.push_back(variable.handle);
  std::vector<Gradient> found = tape.gradients(Outputs{scaled(value)}, handles);
  std::vector<GradientAndVariable> gradients;
  for (std::size_t i = 0; i < variables.size(); ++i) {
    if (!found[i]) invalid_argument("EagerOptimizer: the loss does not depend on variable '{}'", variables[i].name);
    gradients.push_back({.gradient = std::move(found[i]), .variable = variables[i]});
  }
  apply(gradients);
  return value;
}

std::vector<VariableRef> EagerOptimizer::variables() const {
  std::vector<VariableRef> out = state_.in_order;
  if (scale_.handle.valid()) out.push_back(scale_);
  return out;
}

Output minimize(Output loss, const Optimizer& optimizer, Name name) {
  const auto gradients = all_gradients("minimize", loss);
  return apply_gradients(*loss.graph, optimizer, gradients, std::move(name));
}

Output minimize_scaled(Output loss, const Optimizer& optimizer, const LossScale& scale, Name name) {
  if (!loss.valid()) invalid_argument("minimize_scaled: the loss is not a tensor");
  const auto gradients = all_gradients("minimize_scaled", scale.scaled(loss));
  return apply_scaled_gradients(*loss.graph, optimizer, scale, gradients, std::move(name));
}

}  // namespace troupe
