#include "troupe/graph/passes/update_rules.hpp"

#include <algorithm>

#include <troupe/graph/op_table.hpp>
#include <troupe/graph/optimizers/optimizers.hpp>
#include <troupe/graph/passes/table_lookups.hpp>
#include <troupe/graph/rewrite.hpp>

namespace troupe {
namespace {

// Ops beside updates that say how a variable is updated.
enum class RulePart : std::uint8_t { none, learning_rate, constraint };
constexpr auto kRuleParts = op_table<RulePart>({
    {"LearningRate", RulePart::learning_rate},
    {"ConstrainVariable", RulePart::constraint},
});

class RuleReader {
 public:
  RuleReader(const Graph& graph, const std::map<int, std::string>& of) : graph_(graph), of_(of) {
    for (const VariableInfo& v : variables(graph)) info_.emplace(v.handle.node, v);
  }

  std::map<std::string, UpdateRule> run() {
    for (int id = 0; id < graph_.size(); ++id)
      if (const std::string* variable = owner(id); variable && graph_.node(id).op->update_rule)
        add_rule(graph_.node(id), *variable);
    for (int id = 0; id < graph_.size(); ++id)
      if (const std::string* variable = owner(id); variable && kRuleParts.of(graph_.node(id)) == RulePart::constraint)
        add_constraint(graph_.node(id), *variable);
    return std::move(rules_);
  }

 private:
  // The variable whose handle is the node's first input, or null.
  const std::string* owner(int id) const {
    const Node& node = graph_.node(id);
    const auto it = node.inputs.empty() ? of_.end() : of_.find(node.inputs[0].node);
    return it == of_.end() ? nullptr : &it->second;
  }

  void add_rule(const Node& node, const std::string& variable) {
    UpdateRule rule{.op = node.op->name,
                    .attributes = node.attributes,
                    .learning_rate = {},
                    .schedule = {},
                    .counts_updates = input_of(node, "t").has_value(),
                    .sparse = takes_rows(node),
                    .fixed_rate = node.attributes.has(kFixedRate) && node.attributes.boolean(kFixedRate),
                    .guarded = node.attributes.has(kGuarded) && node.attributes.boolean(kGuarded)};
    if (input_of(node, "lr")) add_learning_rate(node, variable, rule);
    for (std::size_t i = 1; i < node.inputs.size(); ++i) {
      if (graph_.dtype(node.inputs[i]) != DType::resource) continue;
      const auto slot = info_.find(node.inputs[i].node);
      if (slot == info_.end() || of_.contains(node.inputs[i].node))
        invalid_argument("{} '{}': its '{}' must be a variable that is not in the shard map", node.op->name, node.name,
                         node.op->inputs[i].name);
      if (!slots_.emplace(node.inputs[i].node, variable).second)
        invalid_argument("{} '{}': '{}' is also a slot of another variable", node.op->name, node.name,
                         slot->second.name);
      rule.slots.push_back({.role = node.op->inputs[i].name,
                            .name = slot->second.name,
                            .dtype = slot->second.dtype,
                            .shape = slot->second.shape,
                            .initial_value = initial_value_of(graph_, slot->second)});
    }
    if (!rules_.emplace(variable, std::move(rule)).second)
      invalid_argument("{} '{}': variable '{}' is already updated by another node; a shard applies one rule",
                       node.op->name, node.name, variable);
  }

  void add_constraint(const Node& node, const std::string& variable) {
    const auto rule = rules_.find(variable);
    if (rule == rules_.end() || rule->second.constraint)
      invalid_argument("{} '{}': a shard constrains '{}' once, after its update", node.op->name, node.name, variable);
    rule->second.constraint = node.attributes;
  }

  void add_learning_rate(const Node& node, const std::string& variable, UpdateRule& rule) const {
    const Node* source = &graph_.node(input_of(node, "lr")->node);
    while (source->op->forwards) source = &graph_.node(source->inputs[0].node);
    if (source->op->role == OpRole::constant) {
      rule.learning_rate = source->attributes.tensor("value");
    } else if (kRuleParts.of(*source) == RulePart::learning_rate) {
      rule.schedule = Schedule::of(source->attributes);
    } else {
      invalid_argument(
          "{} '{}': the learning rate of '{}' is {}, but must be a Const or a LearningRate: the shard has no other "
          "node",
          node.op->name, node.name, variable, fmt::format("{} '{}'", source->op->name, source->name));
    }
  }

  const Graph& graph_;
  const std::map<int, std::string>& of_;
  std::map<int, VariableInfo> info_;  // by Variable node
  std::map<int, std::string> slots_;  // Variable node of a slot -> the variable it belongs to
  std::map<std::string, UpdateRule> rules_;
};

}  // namespace

bool UpdateRule::changes_rows_only() const {
  return sparse && !(attributes.has("exact") && attributes.boolean("exact"));
}

std::string initial_value_of(const Graph& graph, const VariableInfo& info) {
  return info.initial_value.node < 0 ? "" : output_name(graph, info.initial_value);
}

std::optional<Endpoint> input_of(const Node& node, std::string_view input) {
  const auto it = std::ranges::find(node.op->inputs, input, &ArgDef::name);
  if (it == node.op->inputs.end()) return std::nullopt;
  return node.inputs[static_cast<std::size_t>(it - node.op->inputs.begin())];
}

std::map<std::string, UpdateRule> update_rules(const Graph& graph, const std::map<int, std::string>& of) {
  return RuleReader(graph, of).run();
}

std::vector<VariableSpec> updated_variables(const Graph& graph) {
  std::map<std::string, VariableSpec> found;
  for (int id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    const Node* variable = node.op->update_rule ? &graph.node(node.inputs[0].node) : nullptr;
    if (variable && variable->op->role == OpRole::variable)
      found.try_emplace(variable->name,
                        VariableSpec{variable->name, variable->attributes.dtype("T"), variable->output_shapes[0],
                                     takes_rows(node), is_on_demand(*variable)});
  }
  for (int id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    if (kRuleParts.of(node) != RulePart::constraint || node.attributes.string("kind") == "non_negative") continue;
    const auto variable = found.find(graph.node(node.inputs[0].node).name);
    const std::vector<std::int64_t>& axes = node.attributes.integers("axes");
    if (variable != found.end() && std::ranges::find(axes, 0) != axes.end()) variable->second.whole = true;
  }
  std::vector<VariableSpec> out;
  for (auto& [name, spec] : found) out.push_back(std::move(spec));
  return out;
}

}  // namespace troupe
