// Fusion: replaces groups of nodes by single nodes. The passes find the groups; the replacement is here.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include <troupe/graph/graph.hpp>

namespace troupe {

// What a pass did, in words: one line per node created.
using PassNotes = std::vector<std::string>;

// Nodes to fuse, and the node that replaces them. It takes the place of the last member: its name unless another is
// given, its device, colocation and attributes that begin with '_'.
struct FusedGroup {
  std::vector<int> members;  // in topological order
  std::string op;
  Attributes attributes;
  std::vector<Endpoint> inputs;   // of the old graph, from outside the group
  std::vector<Endpoint> outputs;  // of the old graph: replaced by the outputs of the new node
  std::string name;
};

// The consumers of each node.
class NodeUses {
 public:
  explicit NodeUses(const Graph& graph);
  // Consumers of any output, one entry per edge, in id order.
  std::span<const int> data(int id) const { return data_[static_cast<std::size_t>(id)]; }
  bool has_control_successors(int id) const { return controls_[static_cast<std::size_t>(id)]; }
  // Whether node `id` has a single edge, to `consumer`, and is not a target.
  bool only_for(int id, int consumer) const;
  // The only consumer of a node that is not used otherwise; -1 if there is none.
  int only_consumer(int id) const;

 private:
  const Graph& graph_;
  std::vector<std::vector<int>> data_;
  std::vector<bool> controls_;
};

// Whether both must be on the same device, whichever it will be.
inline bool same_place(const Node& a, const Node& b) {
  return a.device == b.device && a.colocate_with == b.colocate_with;
}

// The graph with one node per group. Control edges from and to members become those of the new node; if a member is a
// target, so is the new node. The groups share no nodes and must not form a cycle (which throws internal): a group in
// which only the last member has consumers outside cannot.
std::unique_ptr<Graph> replace_groups(const Graph& graph, std::span<const FusedGroup> groups, PassNotes* notes);

}  // namespace troupe
