// The order of nodes with state, which a rewrite of a graph must keep.
#pragma once

#include <utility>
#include <vector>

#include <troupe/graph/graph.hpp>

namespace troupe {

// Two nodes of `after`, a rewrite of `before`, of which the second ran after the first and no longer does.
struct LostOrder {
  int first = -1;
  int second = -1;
};

// Of the nodes that are in both graphs, by name, and touch variables, arrive or depart. Pairs are ordered by
// the second; of one second, all of its firsts that no other of them ran after.
std::vector<LostOrder> lost_order(const Graph& before, const Graph& after);

// Adds control edges for what lost_order() finds: for passes that replace a node by what does not need its inputs.
void restore_order(const Graph& before, Graph& after);

}  // namespace troupe
