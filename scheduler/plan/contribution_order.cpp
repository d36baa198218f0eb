#include "troupe/scheduler/plan/contribution_order.hpp"

#include <algorithm>

namespace troupe {
namespace {

// The node and all its ancestors.
std::vector<bool> ancestors(const Graph& graph, int node, std::size_t& count) {
  std::vector<bool> seen(static_cast<std::size_t>(graph.size()), false);
  std::vector<int> pending = {node};
  seen[static_cast<std::size_t>(node)] = true;
  count = 0;
  const auto visit = [&](int id) {
    if (seen[static_cast<std::size_t>(id)]) return;
    seen[static_cast<std::size_t>(id)] = true;
    pending.push_back(id);
  };
  while (!pending.empty()) {
    const Node& n = graph.node(pending.back());
    pending.pop_back();
    ++count;
    for (const Endpoint& e : n.inputs) visit(e.node);
    for (int c : n.controls) visit(c);
  }
  return seen;
}

bool contributes(const Node& n) { return n.op->is_departure() && n.op->role != OpRole::send; }

}  // namespace

std::vector<int> contributions_first(const Graph& graph, const std::vector<int>& order) {
  struct Needs {
    std::size_t count = 0;
    std::vector<bool> nodes;
  };
  std::vector<Needs> contributions;
  for (int id : order)
    if (contributes(graph.node(id))) {
      Needs needs;
      needs.nodes = ancestors(graph, id, needs.count);
      contributions.push_back(std::move(needs));
    }
  if (contributions.empty()) return order;
  std::ranges::stable_sort(contributions, {}, &Needs::count);
  std::vector<int> out;
  out.reserve(order.size());
  std::vector<bool> placed(order.size(), false);
  const auto place = [&](int id) {
    if (placed[static_cast<std::size_t>(id)]) return;
    placed[static_cast<std::size_t>(id)] = true;
    out.push_back(id);
  };
  for (const Needs& needs : contributions)
    for (int id : order)
      if (needs.nodes[static_cast<std::size_t>(id)]) place(id);
  for (int id : order) place(id);
  return out;
}

}  // namespace troupe
