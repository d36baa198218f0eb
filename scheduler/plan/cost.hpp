// Estimates of node costs from shapes: good enough to tell whether running nodes in parallel pays off.
#pragma once

#include <troupe/graph/graph.hpp>

namespace troupe {

// Overrides the estimate: attribute "_cost_ns" (integer) of a node.
inline constexpr std::string_view kCostAttribute = "_cost_ns";

// Nanoseconds on one thread. Unknown dimensions count as 32.
double estimated_cost_ns(const Graph& graph, const Node& node);

// Multiplications, each with an addition, of ops that are products: of matrices, convolutions. 0 for others.
double multiply_adds(const Graph& graph, const Node& node);

}  // namespace troupe
