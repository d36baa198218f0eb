// Estimates of what nodes cost, from their shapes: good enough to tell whether running them side by side pays.
#pragma once

#include <troupe/graph/graph.hpp>

namespace troupe {

// A user may say it: attribute "_cost_ns" (integer) of a node.
inline constexpr std::string_view kCostAttribute = "_cost_ns";

// Nanoseconds on one thread. Dimensions that are not known count as 32.
double estimated_cost_ns(const Graph& graph, const Node& node);

}  // namespace troupe
