// Gradient functions that are not in the file of their op, and helpers for gradient functions.
//
// No call in them has two arguments that both add nodes: the compiler would choose their order, and ids and names
// follow from it.
#pragma once

#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/gradients/autodiff.hpp>

namespace troupe {

// The gradient function of an op of graph/ops/math.cpp; null if it has none.
GradientFn math_gradient(std::string_view op);

// The gradient of the branch taken: recomputes the branch, then goes back through it.
void if_gradient(GradientContext& c);
// A loop back through the iterations, over what the forward loop now keeps of each.
void loop_gradient(GradientContext& c);

// The number of dimensions of a tensor of which it is not known before the graph runs (i64).
Output rank_of(Output x);

// Sums a gradient with the shape of a broadcast result to the shape of operand `x`.
Output unbroadcast(Output gradient, Output x);

}  // namespace troupe
