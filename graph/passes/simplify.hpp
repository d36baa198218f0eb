// Simplification: nodes that change nothing go, and what follows from shapes is not computed.
#pragma once

#include <troupe/graph/passes/fuse.hpp>

namespace troupe {

// Each with the same bits, and only for nodes without control inputs:
//   * Identity and StopGradient (in the place of what they forward), Cast to the same dtype, AddN of one, x * 1,
//     x / 1, x - 0, and x + -0.0 give way to x. (x + 0.0 would make 0.0 of -0.0.) The constant is a scalar.
//   * Reshape of a Reshape reshapes the first one's input.
//   * Size, Shape, ZerosLike and OnesLike of a shape that is fully known become Const.
//   * A scalar that is broadcast to the losses of a softmax cross-entropy in order to scale its backprop scales it
//     as a scalar.
// What they needed stays until pruned. Nodes with state keep their order: by control edges, where a path between two of
// them is lost.
std::unique_ptr<Graph> simplify(const Graph& graph, const FuseOptions& options);

}  // namespace troupe
