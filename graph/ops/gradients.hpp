// Gradient functions that are not in the file of their op, and what gradient functions share.
//
// None of their calls has two arguments that both add nodes: which comes first would be the compiler's choice, and ids
// and names follow from the order.
#pragma once

#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/gradients/autodiff.hpp>

namespace troupe {

// The gradient function of an op of graph/ops/math.cpp; null if it has none.
GradientFn math_gradient(std::string_view op);

// Runs the gradient of the branch taken: recomputes the branch, then goes back through it.
void if_gradient(GradientContext& c);

// A gradient that has the shape of a broadcast result, summed to that of the operand `x`.
Output unbroadcast(Output gradient, Output x);

}  // namespace troupe
