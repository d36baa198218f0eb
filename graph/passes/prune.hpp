// Pruning: keeps of a graph what is needed.
#pragma once

#include <memory>
#include <span>

#include <troupe/graph/graph.hpp>

namespace troupe {

// The nodes that compute `fetches` and `targets` (node ids), and all they need through data and control
// edges. Nodes that were colocated with one that goes stay together, and inherit its device constraint;
// throws invalid_argument if those contradict. Throws out_of_range for an endpoint or id the graph does not
// have.
std::unique_ptr<Graph> prune(const Graph& graph, std::span<const Endpoint> fetches, std::span<const int> targets);

// Of a callable's graph (graph/passes/callable.hpp): what its Fetch nodes and marked targets need.
std::unique_ptr<Graph> prune_callable(const Graph& graph);

}  // namespace troupe
