#include "troupe/graph/passes/fuse_elementwise.hpp"

#include <algorithm>
#include <map>

#include <troupe/graph/elementwise_program.hpp>
#include <troupe/graph/op_table.hpp>
#include <troupe/graph/passes/prune.hpp>
#include <troupe/graph/rewrite.hpp>
#include <troupe/graph/verify.hpp>

namespace troupe {
namespace {

// Ops on a list of tensors that expand to binary steps, with the op of a step; all others are one step of their own
// name.
constexpr auto kRows = op_table<std::string_view>({{"AddN", "Add"}});

class ChainFinder {
 public:
  ChainFinder(const Graph& graph, const FuseOptions& options)
      : graph_(graph), options_(options), uses_(graph), order_(graph.topological_order()) {
    place_.resize(order_.size());
    for (std::size_t i = 0; i < order_.size(); ++i) place_[at(order_[i])] = i;
    grouped_.resize(order_.size(), false);
  }

  std::vector<FusedGroup> groups() {
    std::vector<FusedGroup> out;
    for (auto id = order_.rbegin(); id != order_.rend(); ++id) {
      const Node& node = graph_.node(*id);
      if (grouped_[at(*id)] || !fusable(node) || !is_floating(node.output_types[0]) ||
          !options_.supports(graph_, "FusedElementwise", node.output_types[0]))
        continue;
      std::vector<int> members = grow(node);
      if (members.size() < 2) continue;
      for (int member : members) grouped_[at(member)] = true;
      out.push_back(group(std::move(members)));
    }
    return out;
  }

 private:
  static std::size_t at(int id) { return static_cast<std::size_t>(id); }

  bool fusable(const Node& node) const {
    if (node.output_types.size() != 1) return false;
    std::vector<DType> types;
    for (const Endpoint& e : node.inputs) types.push_back(graph_.dtype(e));
    if (is_row(node)) return types.size() > 1 && is_floating(types[0]);
    return elementwise_rule(node.op->name, types, node.output_types[0]).has_value();
  }

  static bool is_row(const Node& node) { return !kRows.of(node).empty(); }
  static int steps_of(const Node& node) { return is_row(node) ? static_cast<int>(node.inputs.size()) - 1 : 1; }

  // The root and all nodes above it that can be fused with it.
  std::vector<int> grow(const Node& root) const {
    std::vector<int> members{root.id};
    int steps = steps_of(root);
    if (steps > kMaxElementwiseSteps || num_inputs(members) > kMaxElementwiseInputs) return {};
    for (std::size_t i = 0; i < members.size(); ++i)
      for (const Endpoint& e : graph_.node(members[i]).inputs) {
        const Node& source = graph_.node(e.node);
        if (!may_join(source, root, members) || steps + steps_of(source) > kMaxElementwiseSteps) continue;
        members.push_back(source.id);
        if (num_inputs(members) > kMaxElementwiseInputs)
          members.pop_back();
        else
          steps += steps_of(source);
      }
    std::ranges::sort(members, {}, [&](int id) { return place_[at(id)]; });
    return members;
  }

  bool may_join(const Node& node, const Node& root, const std::vector<int>& members) const {
    const auto is_member = [&](int id) { return std::ranges::find(members, id) != members.end(); };
    if (grouped_[at(node.id)] || is_member(node.id) || !same_place(node, root) || !fusable(node)) return false;
    if (node.attributes.has(kTargetAttribute) || uses_.has_control_successors(node.id)) return false;
    const Shape& shape = node.output_shapes[0];
    if (!shape.is_scalar() && !(shape == root.output_shapes[0])) return false;
    return std::ranges::all_of(uses_.data(node.id), is_member);
  }

  std::vector<Endpoint> inputs_of(const std::vector<int>& members) const {
    std::vector<Endpoint> out;
    for (int id : members)
      for (const Endpoint& e : graph_.node(id).inputs)
        if (std::ranges::find(members, e.node) == members.end() && std::ranges::find(out, e) == out.end())
          out.push_back(e);
    return out;
  }
  int num_inputs(const std::vector<int>& members) const { return static_cast<int>(inputs_of(members).size()); }

  FusedGroup group(std::vector<int> members) const {
    FusedGroup out{.op = "FusedElementwise", .inputs = inputs_of(members), .outputs = {{members.back(), 0}}};
    std::map<int, int> result_of;  // member -> step
    std::vector<ElementwiseStep> steps;
    const auto operand = [&](const Endpoint& e) -> ElementwiseOperand {
      if (const auto it = result_of.find(e.node); it != result_of.end()) return {false, it->second};
      return {true, static_cast<int>(std::ranges::find(out.inputs, e) - out.inputs.begin())};
    };
    for (int id : members) {
      const Node& node = graph_.node(id);
      const DType dtype = node.output_types[0];
      ElementwiseStep step{.op = node.op->name, .dtype = dtype};
      if (is_row(node)) {
        const std::string each(kRows.of(node));
        step = {each, dtype, {operand(node.inputs[0]), operand(node.inputs[1])}};
        for (std::size_t i = 2; i < node.inputs.size(); ++i) {
          steps.push_back(std::move(step));
          step = {each, dtype, {{false, static_cast<int>(steps.size()) - 1}, operand(node.inputs[i])}};
        }
      } else {
        for (const Endpoint& e : node.inputs) step.operands.push_back(operand(e));
      }
      steps.push_back(std::move(step));
      result_of[id] = static_cast<int>(steps.size()) - 1;
    }
    out.attributes = {{"T", graph_.dtype(out.outputs[0])}, {"program", to_strings(steps)}};
    out.members = std::move(members);
    return out;
  }

  const Graph& graph_;
  const FuseOptions& options_;
  NodeUses uses_;
  std::vector<int> order_;
  std::vector<std::size_t> place_;  // by node, in order_
  std::vector<bool> grouped_;
};

}  // namespace

std::unique_ptr<Graph> fuse_elementwise(const Graph& graph, const FuseOptions& options) {
  return verified("fuse_elementwise", graph,
                  replace_groups(graph, ChainFinder(graph, options).groups(), options.notes));
}

}  // namespace troupe
