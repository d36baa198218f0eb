// Attention recognised in its parts, as exported models have it: inference only, because it changes bits.
#pragma once

#include <memory>

#include <troupe/graph/passes/fuse.hpp>

namespace troupe {

// Turns MatMul(Softmax(scale MatMul(q, k') + mask), v) of f32 into one Attention, if options.has_kernel allows it:
// scores are never held as a whole. The scale is a product of constant scalars at the scores, at q or at k, each by Mul
// or Div, or none; the mask, if there is one, an Add; k' a Transpose or `transpose_b`. All heads have own keys,
// and nothing else reads what is between. Batches that are not known are taken to be equal: where a product would
// repeat one of them, the step fails instead. Elements differ by at most 1e-5 of the largest; a query all of whose
// scores are -inf gets zeros instead of NaN.
std::unique_ptr<Graph> fuse_attention(const Graph& graph, const FuseOptions& options);

}  // namespace troupe
