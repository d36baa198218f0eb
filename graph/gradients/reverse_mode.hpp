// Serves gradients of graphs (autodiff.hpp) and of tapes (tape.hpp).
#pragma once

#include <span>
#include <vector>

#include <troupe/graph/gradients/autodiff.hpp>

namespace troupe {

// Throws invalid_argument for arguments of gradients() that do not fit.
void check_gradient_arguments(std::span<const Output> ys, std::span<const Output> xs, const GradientOptions& options);

// The sum of the gradients that reach `x` on several ways, in their order; there is one at least. Sparse ones are
// joined, and made dense if there are others.
Gradient sum_of_gradients(const std::vector<Gradient>& parts, const Output& x);

}  // namespace troupe
