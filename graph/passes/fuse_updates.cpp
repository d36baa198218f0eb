#include "troupe/graph/passes/fuse_updates.hpp"

#include <algorithm>
#include <numeric>
#include <set>

#include <troupe/graph/rewrite.hpp>
#include <troupe/graph/verify.hpp>

namespace troupe {
namespace {

// The inputs of an Apply node before lr: the variable and its slots.
std::size_t num_handles(const Graph& graph, const Node& apply) {
  std::size_t count = 0;
  while (count < apply.inputs.size() && graph.dtype(apply.inputs[count]) == DType::resource) ++count;
  return count;
}

// Device requests of nodes, their own and those of nodes they share a device with: joins the same nodes as placement.
class Requests {
 public:
  explicit Requests(const Graph& graph) : parent_(static_cast<std::size_t>(graph.size())) {
    std::iota(parent_.begin(), parent_.end(), 0);
    for (int id = 0; id < graph.size(); ++id) {
      const Node& node = graph.node(id);
      if (const Node* with = node.colocate_with.empty() ? nullptr : graph.find(node.colocate_with))
        parent_[at(find(id))] = find(with->id);
      for (const Endpoint& e : node.inputs)
        if (graph.dtype(e) == DType::resource) parent_[at(find(id))] = find(e.node);
    }
    devices_.resize(parent_.size());
    for (int id = 0; id < graph.size(); ++id)
      if (!graph.node(id).device.empty()) devices_[at(find(id))].insert(graph.node(id).device);
  }
  bool same(int a, int b) { return devices_[at(find(a))] == devices_[at(find(b))]; }

 private:
  static std::size_t at(int id) { return static_cast<std::size_t>(id); }
  int find(int id) {
    while (parent_[at(id)] != id) id = parent_[at(id)] = parent_[at(parent_[at(id)])];
    return id;
  }

  std::vector<int> parent_;
  std::vector<std::set<std::string>> devices_;
};

class UpdateFinder {
 public:
  UpdateFinder(const Graph& graph, const FuseOptions& options) : graph_(graph), options_(options), requests_(graph) {}

  std::vector<FusedGroup> groups() {
    std::vector<std::vector<int>> sets;  // that may be fused; few
    // The length of the chain of updates that must run before the node. Nodes with equal numbers cannot depend on each
    // other, and dependants of a fused node have greater numbers: there are no cycles.
    std::vector<int> before(static_cast<std::size_t>(graph_.size()), 0);
    std::vector<int> set_before;
    for (int id : graph_.topological_order()) {
      const Node& node = graph_.node(id);
      int& own = before[static_cast<std::size_t>(id)];
      const auto after = [&](int source) {
        own = std::max(own, before[static_cast<std::size_t>(source)] + (is_update(graph_.node(source)) ? 1 : 0));
      };
      for (const Endpoint& e : node.inputs) after(e.node);
      for (int c : node.controls) after(c);
      if (!is_update(node)) continue;
      std::size_t s = 0;
      while (s < sets.size() && !(set_before[s] == own && fits(node, sets[s]))) ++s;
      if (s == sets.size()) {
        sets.emplace_back();
        set_before.push_back(own);
      }
      sets[s].push_back(id);
    }
    std::vector<FusedGroup> out;
    for (const auto& members : sets)
      if (members.size() > 1) out.push_back(group(members));
    return out;
  }

 private:
  bool is_update(const Node& node) const {
    return !node.op->many.empty() && options_.supports(graph_, node.op->many, node.kernel_type());
  }

  bool fits(const Node& node, const std::vector<int>& set) {
    const Node& first = graph_.node(set.front());
    if (node.op != first.op || node.inputs.size() != first.inputs.size()) return false;
    if (node.colocate_with != first.colocate_with && !(follows_handles(node) && follows_handles(first))) return false;
    if (!same_attributes(node, first) || !requests_.same(node.id, first.id)) return false;
    for (std::size_t i = num_handles(graph_, node); i + 1 < node.inputs.size(); ++i)  // lr, t
      if (node.inputs[i] != first.inputs[i]) return false;
    // A variable is never updated twice at the same time.
    return std::ranges::none_of(set, [&](int id) { return graph_.node(id).inputs[0] == node.inputs[0]; });
  }

  // Whether it is placed with its variables, as it must be anyway, and with nothing else.
  bool follows_handles(const Node& node) const {
    return node.colocate_with.empty() || std::ranges::any_of(node.inputs, [&](const Endpoint& e) {
             return graph_.dtype(e) == DType::resource && graph_.node(e.node).name == node.colocate_with;
           });
  }

  static bool same_attributes(const Node& a, const Node& b) {
    const auto matches = [](const Node& x, const Node& y) {
      return std::ranges::all_of(x.attributes.all(), [&](const auto& attribute) {
        const auto& [key, value] = attribute;
        return key.starts_with('_') || (y.attributes.has(key) && equal(value, y.attributes.all().find(key)->second));
      });
    };
    return matches(a, b) && matches(b, a);
  }

  FusedGroup group(const std::vector<int>& members) const {
    const Node& first = graph_.node(members.front());
    FusedGroup out{.members = members, .op = first.op->many, .name = first.name + "/many"};
    for (const auto& [key, value] : first.attributes.all())
      if (!key.starts_with('_')) out.attributes.set(key, value);
    out.attributes.set("N", static_cast<std::int64_t>(members.size()));
    const std::size_t handles = num_handles(graph_, first);
    const auto add_all = [&](std::size_t input) {
      for (int id : members) out.inputs.push_back(graph_.node(id).inputs[input]);
    };
    for (std::size_t i = 0; i < handles; ++i) add_all(i);
    for (std::size_t i = handles; i + 1 < first.inputs.size(); ++i) out.inputs.push_back(first.inputs[i]);
    add_all(first.inputs.size() - 1);
    return out;
  }

  const Graph& graph_;
  const FuseOptions& options_;
  Requests requests_;
};

}  // namespace

std::unique_ptr<Graph> fuse_updates(const Graph& graph, const FuseOptions& options) {
  return verified("fuse_updates", graph, replace_groups(graph, UpdateFinder(graph, options).groups(), options.notes));
}

}  // namespace troupe
