#include "troupe/graph/passes/groups.hpp"

#include <algorithm>
#include <queue>

#include <troupe/graph/passes/prune.hpp>
#include <troupe/graph/rewrite.hpp>

namespace troupe {
namespace {

std::size_t at(int id) { return static_cast<std::size_t>(id); }

// Node ids in an order where every edge leads forward if each group is one node, its members side by side.
std::vector<int> grouped_order(const Graph& graph, std::span<const FusedGroup> groups) {
  const std::vector<int> order = graph.topological_order();
  std::vector<int> head(at(graph.size()));  // of each node: itself, or the last of its group
  for (int id = 0; id < graph.size(); ++id) head[at(id)] = id;
  std::vector<const FusedGroup*> group_of(at(graph.size()), nullptr);  // by head
  for (const FusedGroup& group : groups) {
    for (int member : group.members) head[at(member)] = group.members.back();
    group_of[at(group.members.back())] = &group;
  }
  std::vector<int> place(at(graph.size())), missing(at(graph.size()), 0);
  for (std::size_t i = 0; i < order.size(); ++i) place[at(order[i])] = static_cast<int>(i);
  std::vector<std::vector<int>> next(at(graph.size()));
  for (int id : order) {
    const auto depend = [&](int source) {
      const int from = head[at(source)], to = head[at(id)];
      if (from == to) return;
      next[at(from)].push_back(to);
      ++missing[at(to)];
    };
    for (const Endpoint& e : graph.node(id).inputs) depend(e.node);
    for (int c : graph.node(id).controls) depend(c);
  }
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;  // positions in the old order
  for (int id : order)
    if (head[at(id)] == id && missing[at(id)] == 0) ready.push(place[at(id)]);
  std::vector<int> out;
  while (!ready.empty()) {
    const int id = order[at(ready.top())];
    ready.pop();
    if (const FusedGroup* group = group_of[at(id)])
      out.insert(out.end(), group->members.begin(), group->members.end());
    else
      out.push_back(id);
    for (int n : next[at(id)])
      if (--missing[at(n)] == 0) ready.push(place[at(n)]);
  }
  if (out.size() != order.size()) fail(Code::internal, "fused nodes form a cycle");
  return out;
}

Attributes attributes_of(const Graph& graph, const FusedGroup& group) {
  Attributes attributes = group.attributes;
  for (const auto& [key, value] : graph.node(group.members.back()).attributes.all())
    if (key.starts_with('_')) attributes.set(key, value);
  for (int member : group.members)
    if (graph.node(member).attributes.has(kTargetAttribute)) attributes.set(std::string(kTargetAttribute), true);
  return attributes;
}

const Node& add_fused(Rewriter& rewriter, const FusedGroup& group) {
  const Graph& old = rewriter.from();
  const Node& last = old.node(group.members.back());
  NodeSpec spec{.op = group.op,
                .name = group.name.empty() ? last.name : rewriter.new_name(group.name),
                .attributes = attributes_of(old, group),
                .device = last.device,
                .colocate_with = last.colocate_with};
  for (const Endpoint& e : group.inputs) spec.inputs.push_back(rewriter.output(e));
  std::vector<int> controls;
  for (int member : group.members)
    for (int c : rewriter.mapped_controls(old.node(member)))
      if (std::ranges::find(controls, c) == controls.end()) controls.push_back(c);
  for (int c : controls) spec.controls.push_back({&rewriter.to(), c});
  const Node& fused = rewriter.to().add(std::move(spec));
  for (int member : group.members) rewriter.replace_node(old.node(member), fused);
  for (int i = 0; i < static_cast<int>(group.outputs.size()); ++i) {
    const Endpoint e = group.outputs[at(i)];
    if (fused.output_types.size() != group.outputs.size() || fused.output_types[at(i)] != old.dtype(e))
      fail(Code::internal, "{} '{}' does not match the outputs it replaces", fused.op->name, fused.name);
    rewriter.to().refine_shape(fused, i, old.shape(e));
    rewriter.replace(e, {fused.id, i});
  }
  return fused;
}

// "fused a + b + c -> Op 'name'"; of many members, the first and the last.
std::string note(const Graph& graph, const FusedGroup& group, const Node& fused) {
  constexpr std::size_t kNamed = 8;
  std::string text;
  for (std::size_t i = 0; i < group.members.size(); ++i) {
    if (group.members.size() > kNamed && i == kNamed - 2)
      text += fmt::format(" + {} more", group.members.size() - kNamed + 1);
    if (group.members.size() > kNamed && i >= kNamed - 2 && i + 1 < group.members.size()) continue;
    text += (text.empty() ? "" : " + ") + graph.node(group.members[i]).name;
  }
  return fmt::format("fused {} -> {} '{}'", text, fused.op->name, fused.name);
}

}  // namespace

NodeUses::NodeUses(const Graph& graph) : graph_(graph), data_(at(graph.size())), controls_(at(graph.size()), false) {
  for (int id = 0; id < graph.size(); ++id) {
    for (const Endpoint& e : graph.node(id).inputs) data_[at(e.node)].push_back(id);
    for (int c : graph.node(id).controls) controls_[at(c)] = true;
  }
}

bool NodeUses::only_for(int id, int consumer) const { return consumer >= 0 && only_consumer(id) == consumer; }

int NodeUses::only_consumer(int id) const {
  const bool one = data(id).size() == 1 && !has_control_successors(id);
  return one && !graph_.node(id).attributes.has(kTargetAttribute) ? data(id).front() : -1;
}

std::unique_ptr<Graph> replace_groups(const Graph& graph, std::span<const FusedGroup> groups, PassNotes* notes) {
  if (groups.empty()) return graph.clone();
  std::vector<const FusedGroup*> ends(at(graph.size()), nullptr);  // by last member
  std::vector<bool> grouped(at(graph.size()), false);
  for (const FusedGroup& group : groups) {
    ends[at(group.members.back())] = &group;
    for (int member : group.members) grouped[at(member)] = true;
  }
  Rewriter rewriter(graph);
  for (int id : grouped_order(graph, groups)) {
    if (!grouped[at(id)]) {
      rewriter.copy(graph.node(id));
    } else if (const FusedGroup* group = ends[at(id)]) {
      const Node& fused = add_fused(rewriter, *group);
      if (notes) notes->push_back(note(graph, *group, fused));
    }
  }
  return rewriter.finish();
}

}  // namespace troupe
