// Additions after convolutions made where the sums are: inference only, because it changes bits.
#pragma once

#include <memory>

#include <troupe/graph/passes/fuse.hpp>

namespace troupe {

// Turns a FusedConv without activation that an Add and perhaps a Relu follow, as at the end of a residual block, into a
// ResidualConv, if options.has_kernel allows it: its kernel begins sums with the other addend, which saves two passes
// over the result. Only f32, channels last, and an addend of the result's shape. Elements differ by at most 2e-6 of the
// largest; a Relu there makes 0 of NaN.
std::unique_ptr<Graph> residual_inside(const Graph& graph, const FuseOptions& options);

}  // namespace troupe
