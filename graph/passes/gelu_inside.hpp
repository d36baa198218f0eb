// Gelu after matrix products made where the sums are: inference only, because it changes bits.
#pragma once

#include <memory>

#include <troupe/graph/passes/fuse.hpp>

namespace troupe {

// Turns a FusedMatMul of f32 without activation that a Gelu of erf follows, x (1 + erf(x / sqrt(2))) / 2, into a
// GeluMatMul, if options.has_kernel allows it, which saves passes over the result. The factors may come in any order,
// as gelu() and exporters write them; the constants are those numbers within 1e-6, and nothing else reads what is
// between. Elements differ by at most 2e-6 of the largest.
std::unique_ptr<Graph> gelu_inside(const Graph& graph, const FuseOptions& options);

}  // namespace troupe
