// The order in which gradients exist.
#pragma once

#include <span>
#include <vector>

#include <troupe/graph/optimizers/optimizers.hpp>

namespace troupe {

// The places of the gradients in the order in which backprop makes them: it adds its nodes in the order in which they
// run. What is made of gradients in that order leaves in it.
std::vector<std::size_t> backprop_order(std::span<const GradientAndVariable> gradients);

}  // namespace troupe
