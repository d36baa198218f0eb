// Constant folding: nodes that depend on constants alone are computed once, when the graph is compiled.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include <troupe/graph/graph.hpp>

namespace troupe {

// Computes a node of a pure op (OpDef::is_pure) from its inputs: all outputs, in host memory. Returns none to decline
// (no kernel here).
using Evaluator = std::function<std::vector<Tensor>(const Node& node, std::span<const Tensor> inputs)>;

inline constexpr std::size_t kFoldedBytes = 10 << 20;

// Replaces nodes of pure ops whose inputs are all Const, where neither has control inputs, by Const nodes: of
// the same name, or "name/folded_1" for output 1 of several. Results of over max_bytes are left to be
// computed at each step, and so is what the evaluator declines or cannot compute (its error will be reported
// by the step that computes the node). What the Const nodes replaced remains until pruned. Throws internal if
// results do not have the node's dtypes and shapes.
std::unique_ptr<Graph> fold_constants(const Graph& graph, const Evaluator& evaluate,
                                      std::size_t max_bytes = kFoldedBytes);

}  // namespace troupe
