// Biases added where the sums of a convolution or product are made: inference only, because it changes bits.
#pragma once

#include <memory>

#include <troupe/graph/passes/groups.hpp>

namespace troupe {

// Marks each FusedConv, FusedMatMul and MatMul of f32 with the attribute "_bias_inside": its kernel may begin or end
// sums with the bias and activate them in registers, which saves a pass over the result, and may multiply by a constant
// matrix in another layout. Elements differ by at most 2e-6 of the largest; a Relu there makes 0 of NaN, which one by
// itself keeps.
std::unique_ptr<Graph> bias_inside(const Graph& graph, PassNotes& notes);

}  // namespace troupe
