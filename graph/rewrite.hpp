// Builds a new graph from an old one: the tool of the passes. Nodes are copied with remapped inputs; types and shapes
// are copied with them, not inferred again. The old graph's functions are copied too.
//
//   Rewriter rewriter(old);
//   for (int id : old.topological_order())
//     if (wanted(id)) rewriter.copy(old.node(id));
//   return rewriter.finish();
//
// Copy or replace sources before their consumers. Control edges are exempt: one from a node that is neither copied nor
// replaced is dropped.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/graph/graph.hpp>

namespace troupe {

class Rewriter {
 public:
  explicit Rewriter(const Graph& from);

  const Graph& from() const { return from_; }
  // The graph being built. New nodes are added to it as to any graph, with names from new_name().
  Graph& to() { return *to_; }

  // The new counterpart of an output of the old graph. Throws internal if its node is not there.
  Endpoint mapped(Endpoint old) const;
  bool has(Endpoint old) const { return outputs_[slot(old)].node >= 0; }
  std::vector<Endpoint> mapped(const std::vector<Endpoint>& old) const;
  Output output(Endpoint old);
  // The new control edges for those of the old node, in order, without duplicates.
  std::vector<int> mapped_controls(const Node& old) const;

  // Copies a node; its outputs and control edges then lead to the copy (an output replaced before stays replaced).
  const Node& copy(const Node& old);
  const Node& copy(const Node& old, std::vector<Endpoint> inputs, std::vector<int> controls);
  // Adds a node in the place of an old one: with its device, colocation and attributes that begin with '_', and a name
  // like its.
  Output add_like(const Node& old, NodeSpec spec);
  // From now on consumers of `old` consume `replacement`, an output of the new graph.
  void replace(Endpoint old, Endpoint replacement);
  // Control edges from the old node now come from `replacement`; nodes colocated with the old node are colocated with
  // `replacement`.
  void replace_node(const Node& old, const Node& replacement);

  // A name that is unused in both graphs.
  std::string new_name(const std::string& base) const;

  // Returns the new graph. Nodes colocated with one that was neither copied nor replaced lose their colocation.
  std::unique_ptr<Graph> finish();

 private:
  std::size_t slot(Endpoint old) const {
    return first_output_[static_cast<std::size_t>(old.node)] + static_cast<std::size_t>(old.index);
  }

  const Graph& from_;
  std::unique_ptr<Graph> to_;
  std::vector<std::size_t> first_output_;  // by old node: where its outputs begin in outputs_
  std::vector<Endpoint> outputs_;
  std::vector<int> nodes_;  // by old node: the new one, or -1
};

// The nodes with keep[id], which must include everything their inputs need.
std::unique_ptr<Graph> copy_subset(const Graph& graph, const std::vector<bool>& keep);

// "node" or "node:1".
std::string output_name(const Graph& graph, Endpoint endpoint);

// By node id: the nodes that read any of its outputs, in id order, each once.
std::vector<std::vector<int>> data_consumers(const Graph& graph);

}  // namespace troupe
