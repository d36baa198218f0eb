#include "troupe/graph/run_order.hpp"

#include <algorithm>
#include <bit>

namespace troupe {
namespace {

// The nodes of a list that run before each node: a bit for each entry.
class Ancestors {
 public:
  Ancestors(const Graph& graph, const std::vector<const Node*>& list)
      : words_((list.size() + 63) / 64), bits_(words_ * static_cast<std::size_t>(graph.size())) {
    std::vector<int> place(static_cast<std::size_t>(graph.size()), -1);
    for (std::size_t i = 0; i < list.size(); ++i) place[static_cast<std::size_t>(list[i]->id)] = static_cast<int>(i);
    for (const int id : graph.topological_order()) {
      const Node& node = graph.node(id);
      const auto inherit = [&](int source) {
        for (std::size_t w = 0; w < words_; ++w) row(id)[w] |= row(source)[w];
        if (const int p = place[static_cast<std::size_t>(source)]; p >= 0)
          row(id)[static_cast<std::size_t>(p) / 64] |= std::uint64_t{1} << (p % 64);
      };
      for (const Endpoint& e : node.inputs) inherit(e.node);
      for (const int c : node.controls) inherit(c);
    }
  }

  bool has(const Node& node, std::size_t place) const { return (row(node.id)[place / 64] >> (place % 64) & 1) != 0; }

  // Positions of those that run before `node` here, but not before `other` there.
  std::vector<std::size_t> missing(const Node& node, const Ancestors& there, const Node& other) const {
    std::vector<std::size_t> out;
    for (std::size_t w = 0; w < words_; ++w)
      for (std::uint64_t bits = row(node.id)[w] & ~there.row(other.id)[w]; bits != 0; bits &= bits - 1)
        out.push_back(w * 64 + static_cast<std::size_t>(std::countr_zero(bits)));
    return out;
  }

 private:
  std::uint64_t* row(int id) { return bits_.data() + words_ * static_cast<std::size_t>(id); }
  const std::uint64_t* row(int id) const { return bits_.data() + words_ * static_cast<std::size_t>(id); }

  std::size_t words_;
  std::vector<std::uint64_t> bits_;
};

// Whether earlier nodes matter: they do to nodes that touch variables, arrive or depart.
bool is_ordered(const Graph& graph, const Node& node) {
  if (node.op->is_arrival() || node.op->is_departure()) return true;
  if (!node.op->stateful) return false;
  return std::ranges::any_of(node.inputs, [&](const Endpoint& e) { return graph.dtype(e) == DType::resource; });
}

}  // namespace

std::vector<LostOrder> lost_order(const Graph& before, const Graph& after) {
  std::vector<const Node*> then, now;
  for (int id = 0; id < before.size(); ++id) {
    const Node& node = before.node(id);
    const Node* kept = is_ordered(before, node) ? after.find(node.name) : nullptr;
    if (!kept || !is_ordered(after, *kept)) continue;
    then.push_back(&node);
    now.push_back(kept);
  }
  const Ancestors ran(before, then), runs(after, now);
  std::vector<LostOrder> out;
  for (std::size_t second = 0; second < then.size(); ++second) {
    const auto firsts = ran.missing(*then[second], runs, *now[second]);
    for (const std::size_t first : firsts)
      if (std::ranges::none_of(firsts, [&](std::size_t other) { return ran.has(*then[other], first); }))
        out.push_back({now[first]->id, now[second]->id});
  }
  return out;
}

void restore_order(const Graph& before, Graph& after) {
  for (const auto& [first, second] : lost_order(before, after))
    after.add_control_edge(after.node(first), after.node(second));
}

}  // namespace troupe
