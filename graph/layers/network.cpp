#include "troupe/graph/layers/network.hpp"

#include <algorithm>
#include <functional>
#include <set>

#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/layers/standard_layer.hpp>

namespace troupe {
namespace {

const char* title(const std::string& kind) { return kind == "sequential" ? "Sequential" : "Network"; }

// An unused name made of the kind; numbered from the second of a kind on.
std::string new_name(const NetworkPlan& plan, const std::string& kind) {
  std::set<std::string_view> taken;
  int number = 0;  // of members named by this kind
  for (const NetworkPlan::Member& m : plan.members) {
    taken.insert(m.name);
    if (m.name == kind || (m.layer->kind() == kind && m.name.starts_with(kind + "_"))) ++number;
  }
  std::string name = number == 0 ? kind : fmt::format("{}_{}", kind, number);
  while (taken.contains(name)) name = fmt::format("{}_{}", kind, ++number);
  return name;
}

// The member of the plan that is this layer, added if need be.
int member_of(NetworkPlan& plan, const LayerPtr& layer) {
  for (std::size_t i = 0; i < plan.members.size(); ++i) {
    const NetworkPlan::Member& known = plan.members[i];
    if (known.layer.get() == layer.get()) {
      if (!layer.name().empty() && known.name != layer.name())
        invalid_argument("one layer is named '{}' and '{}'", known.name, layer.name());
      return static_cast<int>(i);
    }
    if (known.name == layer.name()) invalid_argument("two layers are named '{}'", known.name);
  }
  plan.members.push_back({layer.name().empty() ? new_name(plan, layer->kind()) : layer.name(), layer});
  return static_cast<int>(plan.members.size()) - 1;
}

int value_count(const NetworkPlan& plan) {
  auto count = static_cast<int>(plan.inputs.size());
  for (const NetworkPlan::Call& call : plan.calls)
    count += plan.members[static_cast<std::size_t>(call.member)].layer->outputs();
  return count;
}

// Numbers the values that results need: each source after its inputs, from left to right.
class PlanBuilder {
 public:
  explicit PlanBuilder(const Symbols& inputs) {
    for (const Symbol& x : inputs) {
      if (!x.valid() || x.source()->layer) invalid_argument("Network: an input must be a symbol made by input()");
      if (!first_value_.emplace(x.source().get(), next_++).second)
        invalid_argument("Network: input '{}' is listed twice", x.source()->input.name);
      plan_.inputs.push_back(x.source()->input);
    }
  }

  int value(const Symbol& y) {
    if (!y.valid()) invalid_argument("Network: a result has no value");
    std::vector<const Symbol::Source*> open{y.source().get()};
    while (!open.empty()) {
      const Symbol::Source* source = open.back();
      if (!first_value_.contains(source) && push_inputs(*source, open)) continue;
      open.pop_back();
      if (!first_value_.contains(source)) add_call(*source);
    }
    return first_value_.at(y.source().get()) + y.output();
  }

  const std::string& name_of(const Symbol& y) const {
    const Symbol::Source& source = *y.source();
    if (!source.layer) return source.input.name;
    return std::ranges::find(plan_.members, source.layer.get(), [](const auto& m) { return m.layer.get(); })->name;
  }

  NetworkPlan take(std::vector<NetworkPlan::Result> results) {
    plan_.results = std::move(results);
    return std::move(plan_);
  }

 private:
  // Whether there were any that have no number yet.
  bool push_inputs(const Symbol::Source& source, std::vector<const Symbol::Source*>& open) const {
    if (!source.layer)
      invalid_argument("Network: a result needs input '{}', which is not among the network's inputs",
                       source.input.name);
    const std::size_t before = open.size();
    for (auto x = source.inputs.rbegin(); x != source.inputs.rend(); ++x)
      if (!first_value_.contains(x->source().get())) open.push_back(x->source().get());
    return open.size() > before;
  }

  void add_call(const Symbol::Source& source) {
    NetworkPlan::Call call{.member = member_of(plan_, source.layer)};
    for (const Symbol& x : source.inputs) call.inputs.push_back(first_value_.at(x.source().get()) + x.output());
    plan_.calls.push_back(std::move(call));
    first_value_.emplace(&source, next_);
    next_ += source.layer->outputs();
  }

  NetworkPlan plan_;
  std::map<const Symbol::Source*, int> first_value_;
  int next_ = 0;
};

NetworkPlan plan_of(const Symbols& inputs, const std::vector<Network::NamedSymbol>& results) {
  PlanBuilder builder(inputs);
  std::vector<NetworkPlan::Result> numbered;
  for (const auto& [name, symbol] : results) numbered.push_back({name, builder.value(symbol)});
  return builder.take(std::move(numbered));
}

NetworkPlan plan_of(const Symbols& inputs, const Symbols& results) {
  PlanBuilder builder(inputs);
  std::vector<NetworkPlan::Result> numbered;
  std::map<std::string, int> names;
  for (const Symbol& symbol : results) {
    const int value = builder.value(symbol);
    std::string name = builder.name_of(symbol);
    if (const int before = names[name]++) name = fmt::format("{}_{}", name, before);
    numbered.push_back({std::move(name), value});
  }
  return builder.take(std::move(numbered));
}

void check_names(const char* what, const auto& named) {
  std::set<std::string_view> seen;
  for (const auto& n : named) {
    if (n.name.empty()) invalid_argument("Network: {} has no name", what);
    if (!seen.insert(n.name).second) invalid_argument("Network: two {}s are named '{}'", what, n.name);
  }
}

void check_plan(const NetworkPlan& plan) {
  check_names("input", plan.inputs);
  check_names("layer", plan.members);
  check_names("result", plan.results);
  if (plan.inputs.empty() || plan.results.empty()) invalid_argument("Network: there must be an input and a result");
  for (const NetworkPlan::Member& m : plan.members) {
    if (!m.layer) invalid_argument("Network: layer '{}' is null", m.name);
    if (m.name.find('/') != m.name.npos)  // variables of "a/b" would be those of b in a
      invalid_argument("Network: '{}' cannot be a layer's name: '/' separates the names of networks", m.name);
  }
  auto values = static_cast<int>(plan.inputs.size());
  const auto check = [&](int value) {
    if (value < 0 || value >= values) invalid_argument("Network: there is no value {} among {}", value, values);
  };
  for (const NetworkPlan::Call& call : plan.calls) {
    if (call.member < 0 || call.member >= static_cast<int>(plan.members.size()))
      invalid_argument("Network: there is no layer {} among {}", call.member, plan.members.size());
    if (call.inputs.empty()) invalid_argument("Network: layer {} is called without an input", call.member);
    std::ranges::for_each(call.inputs, check);
    values += plan.members[static_cast<std::size_t>(call.member)].layer->outputs();
  }
  for (const NetworkPlan::Result& r : plan.results) check(r.value);
  require_compute_type("Network", plan.compute);
}

using AfterCall = std::function<void(const NetworkPlan::Call&, const Outputs&)>;

class NetworkLayer final : public Layer {
 public:
  NetworkLayer(std::shared_ptr<const NetworkPlan> plan, std::string kind)
      : plan_(std::move(plan)), kind_(std::move(kind)) {}
  std::string kind() const override { return kind_; }
  int outputs() const override { return static_cast<int>(plan_->results.size()); }
  LayerConfig config() const override { return {.kind = kind_, .network = plan_}; }
  Outputs apply_all(LayerContext& context, const Outputs& xs) const override { return apply_calls(context, xs, {}); }

  Outputs apply_calls(const LayerContext& outer, const Outputs& xs, const AfterCall& after) const {
    check_inputs(outer, xs);
    const LayerContext context = context_for(outer, xs);
    Outputs values = xs;
    for (const NetworkPlan::Call& call : plan_->calls) {
      Outputs args;
      for (const int v : call.inputs) args.push_back(values[static_cast<std::size_t>(v)]);
      const Outputs ys = apply_member(plan_->members[static_cast<std::size_t>(call.member)], context, args);
      if (after) after(call, ys);
      values.insert(values.end(), ys.begin(), ys.end());
    }
    const DType dtype = floating_type(xs, context.weights);
    Outputs results;
    for (const NetworkPlan::Result& r : plan_->results) {
      const Output y = values[static_cast<std::size_t>(r.value)];
      const bool as_it_is = !is_floating(y.dtype()) || y.dtype() == context.weights;  // softmax inside, in bf16
      results.push_back(as_it_is ? y : cast(y, dtype));
    }
    return results;
  }

 private:
  static DType floating_type(const Outputs& xs, DType otherwise) {
    const auto x = std::ranges::find_if(xs, [](const Output& o) { return is_floating(o.dtype()); });
    return x != xs.end() ? x->dtype() : otherwise;
  }

  void check_inputs(const LayerContext& context, const Outputs& xs) const {
    if (xs.size() != plan_->inputs.size())
      invalid_argument("{}: {} inputs are given, but there are {}", title(kind_), xs.size(), plan_->inputs.size());
    for (std::size_t i = 0; i < xs.size(); ++i) {
      const InputSpec& spec = plan_->inputs[i];
      const Output& x = xs[i];
      const std::string what = spec.dtype == DType::invalid ? fmt::format("{}: the input", title(kind_))
                                                            : fmt::format("{}: input '{}'", title(kind_), spec.name);
      if (!x.valid() || !x.graph->is_within(context.graph))
        invalid_argument("{} {}", what, x.valid() ? "belongs to another graph" : "is not a tensor");
      if (spec.dtype == DType::invalid) continue;
      const Shape shape = spec.shape.has_rank() ? Shape{kUnknown}.concatenated(spec.shape) : spec.shape;
      if (x.dtype() != spec.dtype || !x.shape().compatible_with(shape))
        invalid_argument("{} is {}{}, but must be {}{}", what, name(x.dtype()), x.shape().to_string(), name(spec.dtype),
                         shape.to_string());
    }
  }

  LayerContext context_for(const LayerContext& outer, const Outputs& xs) const {
    LayerContext inner = outer;
    if (plan_->compute != DType::invalid) inner.compute = plan_->compute;
    if (inner.weights == DType::invalid) inner.weights = floating_type(xs, DType::f32);
    return inner;
  }

  static Outputs apply_member(const NetworkPlan::Member& member, const LayerContext& context, const Outputs& xs) {
    LayerContext inner = context;
    inner.layer = context.layer.empty() ? member.name : context.layer + "/" + member.name;
    const auto scope = context.graph.scope(member.name);
    try {
      Outputs ys = member.layer->apply_all(inner, xs);
      if (static_cast<int>(ys.size()) != member.layer->outputs())
        invalid_argument("it made {} outputs instead of {}", ys.size(), member.layer->outputs());
      return ys;
    } catch (const Error& error) {
      throw error.within(fmt::format("layer '{}'", inner.layer));
    }
  }

  std::shared_ptr<const NetworkPlan> plan_;
  std::string kind_;
};

using Rows = std::vector<Network::Summary>;

std::string name_of_value(const NetworkPlan& plan, int value) {
  if (value < static_cast<int>(plan.inputs.size())) return plan.inputs[static_cast<std::size_t>(value)].name;
  auto first = static_cast<int>(plan.inputs.size());
  for (const NetworkPlan::Call& call : plan.calls) {
    const NetworkPlan::Member& member = plan.members[static_cast<std::size_t>(call.member)];
    const int outputs = member.layer->outputs();
    if (value < first + outputs) return outputs == 1 ? member.name : fmt::format("{}:{}", member.name, value - first);
    first += outputs;
  }
  invalid_argument("Network: there is no value {}", value);
}

Rows rows_of(const NetworkPlan& plan, const std::string& kind, const std::vector<InputSpec>& inputs,
             const OpRegistry& ops) {
  Graph graph(ops);
  VariablePool variables;
  Outputs xs;
  for (const InputSpec& spec : inputs) xs.push_back(placeholder(graph, spec.dtype, spec.shape, spec.name));
  Rows rows;
  std::set<int> seen;
  std::size_t known = 0;
  const auto add_row = [&](const NetworkPlan::Call& call, const Outputs& ys) {
    if (!seen.insert(call.member).second) return;
    const NetworkPlan::Member& member = plan.members[static_cast<std::size_t>(call.member)];
    Network::Summary row{.name = member.name, .kind = member.layer->kind()};
    if (!ys.empty()) row.output = ys[0].shape();
    for (; known < variables.trainable().size(); ++known)
      row.parameters += variables.trainable()[known].shape.num_elements();
    for (const int v : call.inputs) row.inputs.push_back(name_of_value(plan, v));
    rows.push_back(std::move(row));
  };
  NetworkPlan any = plan;
  for (InputSpec& spec : any.inputs) spec.dtype = DType::invalid;
  const NetworkLayer layer(std::make_shared<NetworkPlan>(std::move(any)), kind);
  layer.apply_calls({.graph = graph, .variables = variables}, xs, add_row);
  return rows;
}

// Whether each layer has the one before as its only input.
bool is_chain(const NetworkPlan& plan) {
  if (plan.inputs.size() != 1 || plan.calls.size() != plan.members.size()) return false;
  for (std::size_t i = 0; i < plan.calls.size(); ++i)
    if (plan.calls[i].inputs != std::vector<int>{static_cast<int>(i)}) return false;
  return value_count(plan) == static_cast<int>(plan.calls.size()) + 1;
}

std::string table_of(const Rows& rows, bool with_inputs) {
  std::string text =
      fmt::format("{:<20} {:<20} {:>12}{}\n", "layer", "output", "parameters", with_inputs ? "  inputs" : "");
  std::int64_t total = 0;
  for (const Network::Summary& row : rows) {
    text += fmt::format("{:<20} {:<20} {:>12}", row.name, row.output.to_string(), row.parameters);
    for (std::size_t i = 0; with_inputs && i < row.inputs.size(); ++i) text += (i ? ", " : "  ") + row.inputs[i];
    text += "\n";
    total += row.parameters;
  }
  return text + fmt::format("{:<20} {:<20} {:>12}\n", "total", "", total);
}

NetworkPlan empty_plan() {
  return {.inputs = {{.name = "input", .shape = Shape::unknown_rank(), .dtype = DType::invalid}},
          .results = {{"output", 0}}};
}

// Adds a call on the last result.
void append(NetworkPlan& plan, LayerPtr layer) {
  if (!layer) invalid_argument("Sequential: layer {} is null", plan.calls.size());
  if (layer->outputs() != 1)
    invalid_argument("Sequential: layer '{}' has {} outputs: join it by a Network", layer->kind(), layer->outputs());
  const int member = member_of(plan, layer);
  plan.calls.push_back({member, {plan.results[0].value}});
  plan.results[0].value = value_count(plan) - 1;
}

NetworkPlan chain_of(const std::vector<LayerPtr>& layers) {
  NetworkPlan plan = empty_plan();
  for (const LayerPtr& layer : layers) append(plan, layer);
  return plan;
}

}  // namespace

Network::Network() : Network(empty_plan()) {}
Network::Network(const Symbols& inputs, const std::vector<NamedSymbol>& results) : Network(plan_of(inputs, results)) {}
Network::Network(const Symbols& inputs, const Symbols& results) : Network(plan_of(inputs, results)) {}

Network::Network(NetworkPlan plan, std::string kind) {
  check_plan(plan);
  plan_ = std::make_shared<NetworkPlan>(std::move(plan));
  layer_ = std::make_shared<NetworkLayer>(plan_, std::move(kind));
}

Outputs Network::apply(LayerContext& context, const Outputs& inputs) const {
  return layer_->apply_all(context, inputs);
}

Output Network::apply(LayerContext& context, Output x) const {
  const Outputs results = layer_->apply_all(context, {x});
  if (results.size() != 1) invalid_argument("Network: it has {} results, but one is needed here", results.size());
  return results[0];
}

NamedOutputs Network::apply(LayerContext& context, const NamedOutputs& inputs) const {
  Outputs xs;
  for (const InputSpec& spec : plan_->inputs) {
    const auto given = inputs.find(spec.name);
    if (given == inputs.end()) invalid_argument("Network: input '{}' is not given", spec.name);
    xs.push_back(given->second);
  }
  if (inputs.size() > xs.size())
    for (const auto& [name, x] : inputs)
      if (std::ranges::find(plan_->inputs, name, &InputSpec::name) == plan_->inputs.end())
        invalid_argument("Network: there is no input '{}'", name);
  const Outputs ys = apply(context, xs);
  NamedOutputs results;
  for (std::size_t i = 0; i < ys.size(); ++i) results.emplace(plan_->results[i].name, ys[i]);
  return results;
}

void Network::set_compute(DType compute) {
  const std::string kind = layer_->kind();
  require_compute_type(title(kind), compute);
  NetworkPlan plan = *plan_;
  plan.compute = compute;
  *this = Network(std::move(plan), kind);
}

std::vector<Network::Summary> Network::summary(const OpRegistry& ops) const {
  std::vector<InputSpec> inputs = plan_->inputs;
  for (InputSpec& spec : inputs) {
    if (spec.dtype == DType::invalid) spec.dtype = DType::f32;
    if (spec.shape.has_rank()) spec.shape = Shape{kUnknown}.concatenated(spec.shape);
  }
  return rows_of(*plan_, layer_->kind(), inputs, ops);
}

std::string Network::dump(const OpRegistry& ops) const { return table_of(summary(ops), !is_chain(*plan_)); }

Sequential::Sequential(const std::vector<LayerPtr>& layers) : network_(chain_of(layers), "sequential") {}

void Sequential::add(LayerPtr layer) {
  NetworkPlan plan = network_.plan();
  append(plan, std::move(layer));
  network_ = Network(std::move(plan), "sequential");
}

std::vector<Network::Summary> Sequential::summary(const Shape& input, const OpRegistry& ops) const {
  return rows_of(network_.plan(), "sequential", {{.name = "input", .shape = input}}, ops);
}

std::string Sequential::dump(const Shape& input, const OpRegistry& ops) const {
  return table_of(summary(input, ops), false);
}

}  // namespace troupe
