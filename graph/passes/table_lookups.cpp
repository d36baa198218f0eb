#include "troupe/graph/passes/table_lookups.hpp"

#include <algorithm>
#include <map>
#include <set>

#include <troupe/graph/builder/variable.hpp>
#include <troupe/graph/op_table.hpp>
#include <troupe/graph/rewrite.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {
namespace {

enum class LookupPart : std::uint8_t { none, read, gather, embedding };
constexpr auto kLookupParts = op_table<LookupPart>({
    {"ReadVariable", LookupPart::read},
    {"Gather", LookupPart::gather},
    {"EmbeddingLookupSparse", LookupPart::embedding},
});

bool looks_up_rows(const Node& node) {
  const Attributes& a = node.attributes;
  switch (kLookupParts.of(node)) {
    case LookupPart::embedding:
      return true;
    case LookupPart::gather:
      return a.integer("axis") == 0 && a.integer("batch_dims") == 0 && !a.boolean("from_end");
    default:
      return false;
  }
}

// By node: a set of small numbers.
class NodeSets {
 public:
  NodeSets(int nodes, std::size_t numbers)
      : words_((numbers + 63) / 64), bits_(static_cast<std::size_t>(nodes) * words_) {}
  void add(int node, std::size_t number) { row(node)[number / 64] |= std::uint64_t{1} << (number % 64); }
  void join(int node, int other) {
    for (std::size_t i = 0; i < words_; ++i) row(node)[i] |= row(other)[i];
  }
  std::vector<std::uint64_t> of(int node) { return {row(node), row(node) + words_}; }
  bool has(int node, std::size_t number) { return (row(node)[number / 64] >> (number % 64) & 1) != 0; }

 private:
  std::uint64_t* row(int node) { return bits_.data() + static_cast<std::size_t>(node) * words_; }
  std::size_t words_;
  std::vector<std::uint64_t> bits_;
};

template <class Fn>
void for_each_before(const Node& node, Fn fn) {
  for (const Endpoint& e : node.inputs) fn(e.node);
  for (const int c : node.controls) fn(c);
}

class Finder {
 public:
  explicit Finder(const Graph& graph) : graph_(graph), order_(graph.topological_order()) {}

  std::vector<TableLookup> run() {
    const std::set<int> tables = find_tables();
    if (tables.empty()) return {};
    for (const int id : order_)
      if (looks_up_rows(graph_.node(id)))
        if (const int table = variable_of(graph_.node(id).inputs[0].node); tables.contains(table))
          lookups_.push_back({.node = id, .table = table});
    group();
    return lookups_;
  }

 private:
  // The variable that this node reads; -1: none.
  int variable_of(int node) const {
    const Node& read = graph_.node(node);
    if (kLookupParts.of(read) != LookupPart::read) return -1;
    const int variable = read.inputs[0].node;
    return graph_.node(variable).op->role == OpRole::variable ? variable : -1;
  }

  std::set<int> find_tables() const {
    std::set<int> tables, looked_up, read_whole;
    for (int id = 0; id < graph_.size(); ++id) {
      const Node& node = graph_.node(id);
      if (node.op->update_rule && takes_rows(node) && is_worth_it(graph_.node(node.inputs[0].node)))
        tables.insert(node.inputs[0].node);
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        const int variable = variable_of(node.inputs[i].node);
        if (variable >= 0) (i == 0 && looks_up_rows(node) ? looked_up : read_whole).insert(variable);
      }
    }
    std::erase_if(tables, [&](int table) { return !looked_up.contains(table) || read_whole.contains(table); });
    return tables;
  }

  static bool is_worth_it(const Node& variable) {
    const Shape& shape = variable.output_shapes[0];
    return variable.op->role == OpRole::variable && shape.fully_known() &&
           (is_on_demand(variable) ||
            checked_bytes(variable.attributes.dtype("T"), shape) > static_cast<std::size_t>(kSmallTableBytes));
  }

  void group() {
    std::vector<int> ends;
    std::vector<std::vector<int>> after(static_cast<std::size_t>(graph_.size()));
    for (const int id : order_)
      for_each_before(graph_.node(id), [&](int before) { after[static_cast<std::size_t>(before)].push_back(id); });
    for (const int id : order_)
      if (after[static_cast<std::size_t>(id)].empty()) ends.push_back(id);
    NodeSets needed_by(graph_.size(), ends.size());  // ends that a node leads to
    for (std::size_t i = 0; i < ends.size(); ++i) needed_by.add(ends[i], i);
    for (auto id = order_.rbegin(); id != order_.rend(); ++id)
      for (const int next : after[static_cast<std::size_t>(*id)]) needed_by.join(*id, next);
    NodeSets needs(graph_.size(), lookups_.size());  // lookups at or above a node
    std::map<int, std::size_t> number;
    for (std::size_t i = 0; i < lookups_.size(); ++i) number[lookups_[i].node] = i;
    for (const int id : order_) {
      for_each_before(graph_.node(id), [&](int before) { needs.join(id, before); });
      if (const auto found = number.find(id); found != number.end()) needs.add(id, found->second);
    }
    struct Group {
      int table;
      std::vector<std::uint64_t> ends;
      std::vector<std::size_t> members;
    };
    std::vector<Group> groups;
    for (std::size_t i = 0; i < lookups_.size(); ++i) {
      TableLookup& lookup = lookups_[i];
      const std::vector<std::uint64_t> own = needed_by.of(lookup.node);
      const auto fits = [&](const Group& group) {
        return group.table == lookup.table && group.ends == own &&
               std::ranges::none_of(group.members, [&](std::size_t m) { return needs.has(lookup.node, m); });
      };
      const auto found = std::ranges::find_if(groups, fits);
      lookup.group = static_cast<int>(found - groups.begin());
      if (found == groups.end()) groups.push_back({lookup.table, own, {}});
      groups[static_cast<std::size_t>(lookup.group)].members.push_back(i);
    }
  }

  const Graph& graph_;
  const std::vector<int> order_;
  std::vector<TableLookup> lookups_;
};

}  // namespace

bool takes_rows(const Node& update) {
  return std::ranges::find(update.op->inputs, "indices", &ArgDef::name) != update.op->inputs.end();
}

std::vector<TableLookup> table_lookups(const Graph& graph) { return Finder(graph).run(); }

std::vector<int> order_with_groups(const Graph& graph, const std::vector<TableLookup>& lookups) {
  std::vector<int> order = graph.topological_order();
  std::map<int, int> group_of;
  std::map<int, std::vector<int>> ids;  // of groups of several
  for (const TableLookup& lookup : lookups) {
    group_of[lookup.node] = lookup.group;
    ids[lookup.group].push_back(graph.node(lookup.node).inputs[1].node);
  }
  std::erase_if(ids, [](const auto& group) { return group.second.size() < 2; });
  if (ids.empty()) return order;
  std::vector<int> out;
  std::vector<bool> placed(order.size(), false);
  const auto place = [&](int last) {
    std::vector<int> pending = {last};
    while (!pending.empty()) {
      const int id = pending.back();
      const std::size_t before = pending.size();
      const auto want = [&](int first) {
        if (!placed[static_cast<std::size_t>(first)]) pending.push_back(first);
      };
      if (!placed[static_cast<std::size_t>(id)]) {
        for_each_before(graph.node(id), want);
        if (const auto group = group_of.find(id); group != group_of.end())
          if (const auto all = ids.find(group->second); all != ids.end()) std::ranges::for_each(all->second, want);
      }
      if (pending.size() > before) continue;
      pending.pop_back();
      if (placed[static_cast<std::size_t>(id)]) continue;
      placed[static_cast<std::size_t>(id)] = true;
      out.push_back(id);
    }
  };
  for (const int id : order) place(id);
  return out;
}

}  // namespace troupe
