// Fuses optimizer updates of many variables into one node, which sweeps over all of them.
#pragma once

#include <troupe/graph/passes/fuse.hpp>

namespace troupe {

// Apply<Rule> nodes with the same hyperparameters, learning rate, t and place become one Apply<Rule>Many, named
// "NAME/many" after the first, unless one must run before another. Sparse updates are not fused.
std::unique_ptr<Graph> fuse_updates(const Graph& graph, const FuseOptions& options);

}  // namespace troupe
