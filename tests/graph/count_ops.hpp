// Counts the nodes of an op in a graph.
#pragma once

#include <string_view>

#include <troupe/graph/graph.hpp>

namespace troupe::testing {

// The number of nodes of the op, from node `from` on.
inline int count_ops(const Graph& graph, std::string_view op, int from = 0) {
  int found = 0;
  for (int id = from; id < graph.size(); ++id) found += graph.node(id).op->name == op;
  return found;
}

}  // namespace troupe::testing
