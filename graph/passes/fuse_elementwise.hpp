// Fuses chains and trees of elementwise ops into one node that passes over memory once.
#pragma once

#include <troupe/graph/passes/fuse.hpp>

namespace troupe {

// Ops that can be part of a program (graph/elementwise_program.hpp), and AddN, become one FusedElementwise named after
// the last of them, if only its result is used elsewhere. Nodes known to be smaller than the result stay separate,
// unless scalar: they would be recomputed for each repetition.
std::unique_ptr<Graph> fuse_elementwise(const Graph& graph, const FuseOptions& options);

}  // namespace troupe
