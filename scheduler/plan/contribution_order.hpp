// Reorders a plan's nodes so that gradients for other ranks and for shards leave early.
#pragma once

#include <vector>

#include <troupe/graph/graph.hpp>

namespace troupe {

// `order`, a topological order of the graph, with the ancestors of Contribute and Push nodes moved to the front: those
// with the fewest ancestors first, so each leaves as soon as backprop has made it. Again a topological order;
// deterministic.
std::vector<int> contributions_first(const Graph& graph, const std::vector<int>& order);

}  // namespace troupe
