// The order of a plan's nodes, changed so that gradients for other ranks and for shards leave early.
#pragma once

#include <vector>

#include <troupe/graph/graph.hpp>

namespace troupe {

// `order`, a topological order of the graph, with what the Contribute and Push nodes need first: those that need the
// fewest nodes before the others, so each as soon as backprop has made it. Again a topological order, the same each
// time.
std::vector<int> contributions_first(const Graph& graph, const std::vector<int>& order);

}  // namespace troupe
