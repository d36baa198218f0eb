// Inference: attributes and outputs of a node, from its op, given attributes and inputs.
#pragma once

#include <troupe/graph/graph.hpp>

namespace troupe {

// Checks the inputs and attributes of `node` against its op, deduces missing attributes, and sets output types and
// shapes. The node need not be in the graph; its inputs must be. Throws invalid_argument without naming the node.
void infer_node(const Graph& graph, Node& node);

}  // namespace troupe
