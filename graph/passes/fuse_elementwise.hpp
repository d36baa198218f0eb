// Chains and trees of elementwise ops become one node that goes over memory once.
#pragma once

#include <troupe/graph/passes/fuse.hpp>

namespace troupe {

// Ops that can be part of a program (graph/elementwise_program.hpp), and AddN, become one FusedElementwise of the
// name of the last of them, if only that one's result is used by others. What is known to be smaller than the
// result stays apart, unless it is a scalar: it would be computed again and again.
std::unique_ptr<Graph> fuse_elementwise(const Graph& graph, const FuseOptions& options);

}  // namespace troupe
