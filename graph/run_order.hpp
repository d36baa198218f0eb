// The order of nodes with state, which rewrites of a graph must keep.
#pragma once

#include <utility>
#include <vector>

#include <troupe/graph/graph.hpp>

namespace troupe {

// Two nodes of `after`, a rewrite of `before`, where the second ran after the first and no longer does.
struct LostOrder {
  int first = -1;
  int second = -1;
};

// Compares nodes that are in both graphs, by name, and touch variables, arrive or depart. Pairs are sorted by the
// second; for each second, only the last firsts are listed: those that no other of its firsts ran after.
std::vector<LostOrder> lost_order(const Graph& before, const Graph& after);

// Adds control edges for what lost_order() finds: for passes that replace a node by one that does not need its inputs.
void restore_order(const Graph& before, Graph& after);

}  // namespace troupe
