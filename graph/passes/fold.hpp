// Constant folding: computes nodes that depend only on constants once, when the graph is compiled.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include <troupe/graph/rewrite.hpp>

namespace troupe {

// Computes all outputs of a node with a pure op (OpDef::is_pure) from its inputs, in host memory. Returns an empty
// vector to decline (no kernel here).
using Evaluator = std::function<std::vector<Tensor>(const Node& node, std::span<const Tensor> inputs)>;

inline constexpr std::size_t kFoldedBytes = 10 << 20;

// Replaces nodes of pure ops whose inputs are all Const, neither having control inputs, by Const nodes with the same
// name, or "name/folded_1" for output 1 of several. Results larger than max_bytes are computed at each step instead,
// and so are nodes that the evaluator declines or cannot compute (the step that computes the node reports its error).
// Superseded Const nodes remain until pruned. Throws internal if results do not have the node's dtypes and shapes.
std::unique_ptr<Graph> fold_constants(const Graph& graph, const Evaluator& evaluate,
                                      std::size_t max_bytes = kFoldedBytes);

// The same for one node, which is or stands for a node of the rewriter's old graph; its inputs must have been copied or
// replaced. Returns false, and leaves the copying to the caller, if the node stays as it is.
bool fold_node(Rewriter& rewriter, const Node& node, const Evaluator& evaluate, std::size_t max_bytes);

}  // namespace troupe
