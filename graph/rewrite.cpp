#include "troupe/graph/rewrite.hpp"

#include <algorithm>

namespace troupe {

Rewriter::Rewriter(const Graph& from)
    : from_(from), to_(std::make_unique<Graph>(from.ops())), nodes_(static_cast<std::size_t>(from.size()), -1) {
  first_output_.reserve(nodes_.size());
  std::size_t outputs = 0;
  for (int id = 0; id < from.size(); ++id) {
    first_output_.push_back(outputs);
    outputs += from.node(id).output_types.size();
  }
  outputs_.resize(outputs);
  for (const auto& [name, function] : from.functions()) to_->add_function(function);
}

Endpoint Rewriter::mapped(Endpoint old) const {
  const Endpoint found = outputs_[slot(old)];
  if (found.node < 0) fail(Code::internal, "the rewritten graph has no '{}'", output_name(from_, old));
  return found;
}

std::vector<Endpoint> Rewriter::mapped(const std::vector<Endpoint>& old) const {
  std::vector<Endpoint> out;
  out.reserve(old.size());
  for (const Endpoint& e : old) out.push_back(mapped(e));
  return out;
}

Output Rewriter::output(Endpoint old) {
  const Endpoint e = mapped(old);
  return {to_.get(), e.node, e.index};
}

std::vector<int> Rewriter::mapped_controls(const Node& old) const {
  std::vector<int> out;
  out.reserve(old.controls.size());
  for (int c : old.controls) {
    const int found = nodes_[static_cast<std::size_t>(c)];
    if (found >= 0 && std::ranges::find(out, found) == out.end()) out.push_back(found);
  }
  return out;
}

const Node& Rewriter::copy(const Node& old) { return copy(old, mapped(old.inputs), mapped_controls(old)); }

const Node& Rewriter::copy(const Node& old, std::vector<Endpoint> inputs, std::vector<int> controls) {
  const Node& node = to_->add_copy(old, std::move(inputs), std::move(controls));
  nodes_[static_cast<std::size_t>(old.id)] = node.id;
  for (int i = 0; i < static_cast<int>(node.output_types.size()); ++i) {
    Endpoint& target = outputs_[slot({old.id, i})];
    if (target.node < 0) target = {node.id, i};
  }
  return node;
}

Output Rewriter::add_like(const Node& old, NodeSpec spec) {
  for (const auto& [key, value] : old.attributes.all())
    if (key.starts_with('_')) spec.attributes.set(key, value);
  spec.name = new_name(old.name);
  spec.device = old.device;
  spec.colocate_with = old.colocate_with;
  return to_->output(to_->add(std::move(spec)));
}

void Rewriter::replace(Endpoint old, Endpoint replacement) { outputs_[slot(old)] = replacement; }

void Rewriter::replace_node(const Node& old, const Node& replacement) {
  nodes_[static_cast<std::size_t>(old.id)] = replacement.id;
}

std::string Rewriter::new_name(const std::string& base) const {
  std::string name = base;
  for (int i = 1; from_.find(name) || to_->find(name); ++i) name = base + "_" + std::to_string(i);
  return name;
}

std::unique_ptr<Graph> Rewriter::finish() {
  for (int id = 0; id < to_->size(); ++id) {
    const Node& node = to_->node(id);
    if (node.colocate_with.empty()) continue;
    const Node* target = from_.find(node.colocate_with);
    const int found = target ? nodes_[static_cast<std::size_t>(target->id)] : -1;
    if (found >= 0)
      to_->set_colocation(node, found == id ? "" : to_->node(found).name);
    else if (!to_->find(node.colocate_with))
      to_->set_colocation(node, "");
  }
  return std::move(to_);
}

std::unique_ptr<Graph> copy_subset(const Graph& graph, const std::vector<bool>& keep) {
  Rewriter rewriter(graph);
  for (int id : graph.topological_order())
    if (keep[static_cast<std::size_t>(id)]) rewriter.copy(graph.node(id));
  return rewriter.finish();
}

std::string output_name(const Graph& graph, Endpoint endpoint) {
  const std::string& base = graph.node(endpoint.node).name;
  return endpoint.index == 0 ? base : base + ":" + std::to_string(endpoint.index);
}

std::vector<std::vector<int>> data_consumers(const Graph& graph) {
  std::vector<std::vector<int>> consumers(static_cast<std::size_t>(graph.size()));
  for (int id = 0; id < graph.size(); ++id)
    for (const Endpoint& e : graph.node(id).inputs) {
      auto& list = consumers[static_cast<std::size_t>(e.node)];
      if (list.empty() || list.back() != id) list.push_back(id);
    }
  return consumers;
}

}  // namespace troupe
