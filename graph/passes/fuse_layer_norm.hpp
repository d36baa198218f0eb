// Layer normalisation recognised in its parts, as exported models have it: inference only, because it changes bits.
#pragma once

#include <memory>

#include <troupe/graph/passes/fuse.hpp>

namespace troupe {

// Turns (x - m) / sqrt(Mean((x - m)^2) + epsilon) scale + offset of f32, with m = Mean(x), into one LayerNorm, if
// options.has_kernel allows it. Means are over the last dimension, whose size n is known, and keep it; scale and offset
// are f32 [n], epsilon a constant scalar. The square is a Square, a Mul, a Pow or a SquaredDifference, the quotient a
// Div by Sqrt or a Mul by Rsqrt; operands of sums and products in either order. Nothing else reads what is between.
// Elements differ by at most 1e-5 of the largest: means are corrected for rounding.
std::unique_ptr<Graph> fuse_layer_norm(const Graph& graph, const FuseOptions& options);

}  // namespace troupe
