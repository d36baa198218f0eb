// Arithmetic on shapes done in advance, as far as shapes are known: for inference.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include <troupe/graph/passes/fold.hpp>
#include <troupe/graph/passes/groups.hpp>

namespace troupe {

// Gives Feed nodes these shapes, by their index: the graph of a call that is fed tensors of no other shape. Shapes of
// other nodes stay as they are until fold_shapes(). Throws invalid_argument for a shape that its Feed cannot have.
std::unique_ptr<Graph> with_feed_shapes(const Graph& graph, const std::map<std::int64_t, Shape>& shapes,
                                        PassNotes& notes);

// Bytes of a constant that fold_shapes() makes: masks and positions of a few hundred tokens, no weights.
inline constexpr std::size_t kFoldedShapeBytes = 1 << 20;

// Infers all shapes again, and replaces
//   * nodes whose integers follow from known shapes (graph/known_values.hpp), and pure nodes whose inputs have become
//     constants, by Const nodes, as fold_constants() does: Shape, Gather, Concat, ... in front of Reshape and the like;
//   * a Reshape, ReshapeLike or BroadcastTo to the shape that its input has by the input;
//   * an If whose condition has become constant by the nodes of that branch, if all of them are pure.
// Every rewrite is bit-exact: floating operands of products, which kernels may treat otherwise if they are constant,
// are not folded. Nodes with control inputs and targets stay; superseded nodes remain until pruned. Shapes that
// contradict each other are left to the step, which reports them.
std::unique_ptr<Graph> fold_shapes(const Graph& graph, const Evaluator& evaluate, std::size_t max_bytes,
                                   PassNotes& notes);

}  // namespace troupe
