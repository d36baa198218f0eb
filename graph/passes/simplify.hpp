// Simplification: removes nodes that change nothing, and computes what follows from shapes in advance.
#pragma once

#include <troupe/graph/passes/fuse.hpp>

namespace troupe {

// Every rewrite is bit-exact, and applies only to nodes without control inputs:
//   * Identity and StopGradient (if placed with their input), Cast to the same dtype, AddN of one, x * 1, x / 1, x - 0,
//     and x + -0.0 are replaced by x. (x + 0.0 would turn -0.0 into 0.0.) The constant is a scalar.
//   * A Transpose that changes nothing is replaced by its input, and one that undoes another by what that transposed.
//   * Reshape of a Reshape reshapes the first one's input.
//   * Size, Shape, ZerosLike and OnesLike of a fully known shape become Const.
//   * A scalar that is broadcast to the losses of a softmax cross-entropy to scale its backprop scales it as a scalar.
// Superseded nodes remain until pruned. Nodes with state keep their order: control edges replace a lost path between
// two of them.
std::unique_ptr<Graph> simplify(const Graph& graph, const FuseOptions& options);

}  // namespace troupe
