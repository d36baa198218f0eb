// The order in which gradients become available.
#pragma once

#include <span>
#include <vector>

#include <troupe/graph/optimizers/optimizers.hpp>

namespace troupe {

// Positions of the gradients in the order in which backprop computes them: it adds its nodes in execution order.
// Tensors built from gradients in this order leave in it.
std::vector<std::size_t> backprop_order(std::span<const GradientAndVariable> gradients);

}  // namespace troupe
