// Builds a new graph from an old one: the tool of the passes. Nodes are copied with remapped inputs; types
// and shapes are copied with them, nothing is inferred again. The old graph's functions come along.
//
//   Rewriter rewriter(old);
//   for (int id : old.topological_order())
//     if (wanted(id)) rewriter.copy(old.node(id));
//   return rewriter.finish();
//
// Sources must be copied or replaced before what consumes them, except through control edges, which may then
// be missing: a control edge from a node that is neither copied nor replaced is dropped.
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
  // The graph being made. New nodes are added to it as to any graph, with names from new_name().
  Graph& to() { return *to_; }

  // Where an output of the old graph is found in the new one. Throws internal if its node is not there.
  Endpoint mapped(Endpoint old) const;
  bool has(Endpoint old) const { return outputs_[slot(old)].node >= 0; }
  std::vector<Endpoint> mapped(const std::vector<Endpoint>& old) const;
  Output output(Endpoint old);
  // The new control edges for those of the old node, in order, each once.
  std::vector<int> mapped_controls(const Node& old) const;

  // Copies a node; its outputs and control edges then lead to the copy (an output replaced before stays
  // replaced).
  const Node& copy(const Node& old);
  const Node& copy(const Node& old, std::vector<Endpoint> inputs, std::vector<int> controls);
  // From now on consumers of `old` consume `replacement`, an output of the new graph.
  void replace(Endpoint old, Endpoint replacement);
  // Control edges from the old node now come from `replacement`; nodes colocated with it are colocated with
  // that.
  void replace_node(const Node& old, const Node& replacement);

  // A name that neither graph has.
  std::string new_name(const std::string& base) const;

  // Nodes colocated with one that is gone, and not replaced, are no longer colocated.
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

// The nodes with keep[id], which must include all that their inputs need.
std::unique_ptr<Graph> copy_subset(const Graph& graph, const std::vector<bool>& keep);

// "node" or "node:1".
std::string output_name(const Graph& graph, Endpoint endpoint);

// Consumers of each output are asked for often: nodes that read any output of node id, in order of their ids,
// each once.
std::vector<std::vector<int>> data_consumers(const Graph& graph);

}  // namespace troupe
