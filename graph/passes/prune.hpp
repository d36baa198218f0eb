// Pruning: keeps the needed part of a graph.
#pragma once

#include <memory>
#include <span>

#include <troupe/graph/graph.hpp>

namespace troupe {

// The nodes that compute `fetches` and `targets` (node ids), and all they need through data and control edges. Nodes
// that were colocated with a removed node stay together and inherit its device constraint; throws invalid_argument if
// those constraints conflict. Throws out_of_range for an endpoint or id that is not in the graph.
std::unique_ptr<Graph> prune(const Graph& graph, std::span<const Endpoint> fetches, std::span<const int> targets);

// For a callable's graph (graph/passes/callable.hpp): keeps what its Fetch nodes and marked targets need.
std::unique_ptr<Graph> prune_callable(const Graph& graph);

}  // namespace troupe
