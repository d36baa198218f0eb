// Nodes that run functions of the graph, If and Loop: what their functions take and return.
#pragma once

#include <troupe/graph/graph.hpp>

namespace troupe {

// Throws not_found or invalid_argument if the functions of a node are missing, or do not fit its inputs and outputs.
void check_functions(const Graph& graph, const Node& node);

// Gives the outputs of a node the shapes that its functions return, as far as they agree.
void refine_outputs(Graph& graph, const Node& node);

// The shape of a tensor that has either shape.
Shape common_shape(const Shape& a, const Shape& b);

}  // namespace troupe
