// Fusion: several nodes of a graph become one. The passes find the groups; what replacing them takes is here.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include <troupe/graph/graph.hpp>

namespace troupe {

// What a pass did, in words: one line for each node made.
using PassNotes = std::vector<std::string>;

// Nodes that become one node, and that node. It takes the place of the last member: its name unless another is
// given, its device, colocation and attributes that begin with '_'.
struct FusedGroup {
  std::vector<int> members;  // in topological order
  std::string op;
  Attributes attributes;
  std::vector<Endpoint> inputs;   // of the old graph, from outside of the group
  std::vector<Endpoint> outputs;  // of the old graph: what the outputs of the new node stand for
  std::string name;
};

// Who uses a node.
class NodeUses {
 public:
  explicit NodeUses(const Graph& graph);
  // Consumers of any output, one entry for each edge, in order of their ids.
  std::span<const int> data(int id) const { return data_[static_cast<std::size_t>(id)]; }
  bool has_control_successors(int id) const { return controls_[static_cast<std::size_t>(id)]; }
  // Is node id there for one edge to one node alone? Not for a target.
  bool only_for(int id, int consumer) const;
  // The one consumer of a node that is only there for it; -1 if there is none.
  int only_consumer(int id) const;

 private:
  const Graph& graph_;
  std::vector<std::vector<int>> data_;
  std::vector<bool> controls_;
};

// Must they be on one device, whatever that will be?
inline bool same_place(const Node& a, const Node& b) {
  return a.device == b.device && a.colocate_with == b.colocate_with;
}

// The graph with one node for each group. Control edges from and to members become those of the new node; if a
// member is a target, so is that. The groups share no nodes and must not make a cycle (which throws internal): a
// group whose members other than the last are used by members only cannot.
std::unique_ptr<Graph> replace_groups(const Graph& graph, std::span<const FusedGroup> groups, PassNotes* notes);

}  // namespace troupe
