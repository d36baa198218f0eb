#include "troupe/graph/passes/prune.hpp"

#include <algorithm>

#include <troupe/graph/rewrite.hpp>
#include <troupe/graph/verify.hpp>
#include <troupe/messages/device_name.hpp>

namespace troupe {
namespace {

std::vector<bool> needed_by(const Graph& graph, std::vector<int> pending) {
  std::vector<bool> needed(static_cast<std::size_t>(graph.size()), false);
  for (int id : pending) needed[static_cast<std::size_t>(id)] = true;
  while (!pending.empty()) {
    const Node& node = graph.node(pending.back());
    pending.pop_back();
    const auto need = [&](int id) {
      if (needed[static_cast<std::size_t>(id)]) return;
      needed[static_cast<std::size_t>(id)] = true;
      pending.push_back(id);
    };
    for (const Endpoint& e : node.inputs) need(e.node);
    for (int c : node.controls) need(c);
  }
  return needed;
}

// Follows colocate_with through removed nodes, and collects these in `path`. Returns a node that stays, or the last of
// the path.
const Node* surviving_target(const Graph& graph, const Node& node, const std::vector<bool>& keep,
                             std::vector<const Node*>& path) {
  const Node* at = &node;
  while (!at->colocate_with.empty()) {
    const Node& next = graph.get(at->colocate_with);
    if (keep[static_cast<std::size_t>(next.id)]) return &next;
    if (std::ranges::find(path, &next) != path.end()) break;  // a cycle of removed nodes
    path.push_back(&next);
    at = &next;
  }
  return at;
}

// Gives nodes that were colocated through removed nodes a common target among those that stay.
void keep_colocations(const Graph& graph, const std::vector<bool>& keep, Graph& pruned) {
  std::map<int, int> heads;  // old id of a group's lost target -> new id of its first remaining node
  for (int id = 0; id < pruned.size(); ++id) {
    const Node& node = graph.get(pruned.node(id).name);
    if (node.colocate_with.empty()) continue;
    std::vector<const Node*> gone;
    const Node* target = surviving_target(graph, node, keep, gone);
    if (gone.empty()) continue;
    auto device = DeviceName::parse(pruned.node(id).device);
    for (const Node* g : gone) {
      const auto merged = device.merged(DeviceName::parse(g->device));
      if (!merged)
        invalid_argument("cannot colocate '{}' ({}) with '{}' ({})", node.name, node.device, g->name, g->device);
      device = *merged;
    }
    pruned.set_device(pruned.node(id), device.to_string());
    if (keep[static_cast<std::size_t>(target->id)]) {
      pruned.set_colocation(pruned.node(id), target->name);
    } else {
      const auto [head, first] = heads.emplace(target->id, id);
      if (!first) pruned.set_colocation(pruned.node(id), pruned.node(head->second).name);
    }
  }
}

std::unique_ptr<Graph> keep_needed(const Graph& graph, std::vector<int> roots) {
  const std::vector<bool> keep = needed_by(graph, std::move(roots));
  auto pruned = copy_subset(graph, keep);
  keep_colocations(graph, keep, *pruned);
  return pruned;
}

}  // namespace

std::unique_ptr<Graph> prune(const Graph& graph, std::span<const Endpoint> fetches, std::span<const int> targets) {
  std::vector<int> roots(targets.begin(), targets.end());
  for (const Endpoint& e : fetches) roots.push_back(e.node);
  for (int id : roots)
    if (id < 0 || id >= graph.size()) fail(Code::out_of_range, "prune: the graph has no node number {}", id);
  for (const Endpoint& e : fetches)
    if (e.index < 0 || static_cast<std::size_t>(e.index) >= graph.node(e.node).output_types.size())
      fail(Code::out_of_range, "prune: '{}' has no output {}", graph.node(e.node).name, e.index);
  return verified("prune", keep_needed(graph, std::move(roots)));
}

std::unique_ptr<Graph> prune_callable(const Graph& graph) {
  std::vector<int> roots;
  for (int id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    if (node.op->role == OpRole::fetch || node.attributes.has(kTargetAttribute)) roots.push_back(id);
  }
  return verified("prune", graph, keep_needed(graph, std::move(roots)));
}

}  // namespace troupe
