#include "graph/optimizers.hpp"

#include <cmath>
#include <map>
#include <set>

#include "graph/training_ops.hpp"

namespace troupe {
namespace {

template <class... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};

// A name that is free, relative to the scope.
std::string free_name(Graph& graph, const std::string& base) {
  return graph.unique_name(base).substr(graph.current_scope().size());
}

void require(bool fits, const Optimizer& optimizer, const char* option, double value, const char* range) {
  if (!fits) invalid_argument("optimizer {}: {} must be {}, it is {}", name(optimizer), option, range, value);
}
void require_positive(const Optimizer& optimizer, const char* option, double value) {
  require(std::isfinite(value) && value > 0, optimizer, option, value, "positive");
}
void require_not_negative(const Optimizer& optimizer, const char* option, double value) {
  require(std::isfinite(value) && value >= 0, optimizer, option, value, "0 or more");
}
void require_decay(const Optimizer& optimizer, const char* option, double value) {
  require(value >= 0 && value < 1, optimizer, option, value, "in [0, 1)");
}

void check(const Optimizer& optimizer) {
  const auto rate = [](const auto& o) { return o.learning_rate; };
  require_not_negative(optimizer, "learning_rate", std::visit(rate, optimizer));
  const Overloaded cases{
      [](const optimizers::SGD&) {},
      [&](const optimizers::Momentum& o) { require_decay(optimizer, "momentum", o.momentum); },
      [&](const optimizers::Adagrad& o) {
        require_not_negative(optimizer, "initial_accumulator", o.initial_accumulator);
        require_positive(optimizer, "epsilon", o.epsilon);
      },
      [&](const optimizers::RMSProp& o) {
        require_decay(optimizer, "rho", o.rho);
        require_decay(optimizer, "momentum", o.momentum);
        require_positive(optimizer, "epsilon", o.epsilon);
      },
      [&](const optimizers::Adam& o) {
        require_decay(optimizer, "beta1", o.beta1);
        require_decay(optimizer, "beta2", o.beta2);
        require_positive(optimizer, "epsilon", o.epsilon);
      },
  };
  std::visit(cases, optimizer);
}

void check(const Graph& graph, std::span<const GradientAndVariable> gradients) {
  if (gradients.empty()) invalid_argument("apply_gradients: there are no variables to update");
  std::set<std::string> names;
  for (const auto& [gradient, variable] : gradients) {
    const Output flow = gradient.is_dense() ? gradient.dense : gradient.values;
    if (!flow.valid()) invalid_argument("apply_gradients: variable '{}' has no gradient", variable.name);
    if (flow.graph != &graph || variable.handle.graph != &graph)
      invalid_argument("apply_gradients: variable '{}' or its gradient belongs to another graph",
                       variable.name);
    if (!names.insert(variable.name).second)
      invalid_argument("apply_gradients: variable '{}' comes twice; add its gradients first", variable.name);
  }
}

// The Apply nodes of one call.
class Updates {
 public:
  Updates(Graph& graph, const Optimizer& optimizer, std::string name)
      : graph_(graph), optimizer_(optimizer), name_(std::move(name)) {}

  Output finish(std::span<const GradientAndVariable> gradients) {
    start_counting();
    for (const GradientAndVariable& g : gradients) {
      done_.push_back(std::visit([&](const auto& o) { return apply(o, g); }, optimizer_));
      graph_.add_control_edge(g.variable.read().source(), done_.back().source());
    }
    finish_counting();
    return group(graph_, done_, name_);
  }

 private:
  void start_counting() {
    if (!std::holds_alternative<optimizers::Adam>(optimizer_)) return;
    count_ = variable(
        graph_, {.name = "global_step",
                 .initial_value = constant(graph_, std::int64_t{0}, free_name(graph_, "global_step/zero")),
                 .trainable = false});
    number_ = add(count_.read(), scalar_like(count_.read(), 1, free_name(graph_, count_.name + "/one")),
                  free_name(graph_, count_.name + "/next"));
  }
  void finish_counting() {
    if (!number_.valid()) return;
    const auto after_updates = graph_.after(done_);
    const auto scope = graph_.scope(name_);
    done_.push_back(count_.assign(number_));
  }

  Output apply(const optimizers::SGD& o, const GradientAndVariable& g) {
    return apply_sgd(g.variable.handle, rate(o.learning_rate, g), g.gradient, node_name(g));
  }
  Output apply(const optimizers::Momentum& o, const GradientAndVariable& g) {
    return apply_momentum(g.variable.handle, slot(g, "accum"), rate(o.learning_rate, g), g.gradient,
                          {.momentum = o.momentum, .nesterov = o.nesterov, .name = node_name(g)});
  }
  Output apply(const optimizers::Adagrad& o, const GradientAndVariable& g) {
    return apply_adagrad(g.variable.handle, slot(g, "accum", o.initial_accumulator), rate(o.learning_rate, g),
                         g.gradient, {.epsilon = o.epsilon, .name = node_name(g)});
  }
  Output apply(const optimizers::RMSProp& o, const GradientAndVariable& g) {
    return apply_rmsprop(g.variable.handle, slot(g, "ms"), slot(g, "mom"), rate(o.learning_rate, g),
                         g.gradient,
                         {.rho = o.rho, .momentum = o.momentum, .epsilon = o.epsilon, .name = node_name(g)});
  }
  Output apply(const optimizers::Adam& o, const GradientAndVariable& g) {
    return apply_adam(g.variable.handle, slot(g, "m"), slot(g, "v"), rate(o.learning_rate, g), number_,
                      g.gradient,
                      {.beta1 = o.beta1, .beta2 = o.beta2, .epsilon = o.epsilon, .name = node_name(g)});
  }

  std::string node_name(const GradientAndVariable& g) {
    return free_name(graph_, name_ + "/" + g.variable.name);
  }

  // A shard must find a Const here, and each dtype needs its own.
  Output rate(double value, const GradientAndVariable& g) {
    Output& known = rates_[g.variable.dtype];
    if (!known.valid()) known = scalar_like(g.variable.read(), value, free_name(graph_, "learning_rate"));
    return known;
  }

  // "dense/kernel/adam_m", full of `value`.
  Output slot(const GradientAndVariable& g, const std::string& role, double value = 0) {
    const VariableRef& of = g.variable;
    const std::string local = free_name(graph_, of.name + "/" + troupe::name(optimizer_) + "_" + role);
    const auto device = graph_.on_device(of.handle.source().device);
    VariableOptions options{.name = local, .shape = of.shape, .dtype = of.dtype, .trainable = false};
    if (value != 0) {
      const auto scope = graph_.scope(local);
      const Output dims = constant(graph_, Tensor::of<std::int64_t>(Shape{of.shape.rank()}, of.shape.dims()));
      options.initial_value = fill(dims, scalar_like(of.read(), value));
    }
    return variable(graph_, std::move(options)).handle;
  }

  Graph& graph_;
  const Optimizer& optimizer_;
  std::string name_;
  std::map<DType, Output> rates_;
  VariableRef count_;  // Adam's
  Output number_;      // of this update, from 1
  Outputs done_;
};

}  // namespace

std::string name(const Optimizer& optimizer) {
  const Overloaded cases{
      [](const optimizers::SGD&) { return "sgd"; },
      [](const optimizers::Momentum&) { return "momentum"; },
      [](const optimizers::Adagrad&) { return "adagrad"; },
      [](const optimizers::RMSProp&) { return "rmsprop"; },
      [](const optimizers::Adam&) { return "adam"; },
  };
  return std::visit(cases, optimizer);
}

std::vector<GradientAndVariable> compute_gradients(Output loss, std::span<const VariableRef> variables) {
  if (!loss.valid()) invalid_argument("compute_gradients: the loss is not a tensor");
  if (loss.shape().has_rank() && !loss.shape().is_scalar())
    invalid_argument("compute_gradients: the loss '{}' is {}, but must be a scalar; take its mean or sum",
                     loss.name(), loss.shape().to_string());
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
    invalid_argument("the loss '{}' does not depend on {}; make them not trainable, or leave them out",
                     loss.name(), unconnected);
  return out;
}

Output apply_gradients(Graph& graph, const Optimizer& optimizer,
                       std::span<const GradientAndVariable> gradients, Name name) {
  check(optimizer);
  check(graph, gradients);
  return Updates(graph, optimizer, free_name(graph, name)).finish(gradients);
}

Output minimize(Output loss, const Optimizer& optimizer, Name name) {
  if (!loss.valid()) invalid_argument("minimize: the loss is not a tensor");
  std::vector<VariableRef> trainable;
  for (const VariableInfo& v : variables(*loss.graph))
    if (v.trainable) trainable.push_back(find_variable(*loss.graph, v.name));
  return apply_gradients(*loss.graph, optimizer, compute_gradients(loss, trainable), std::move(name));
}

}  // namespace troupe
