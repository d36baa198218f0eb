// Derivatives of derivatives, and of results that are no scalars.
#pragma once

#include <troupe/graph/gradients/autodiff.hpp>

namespace troupe {

// dy/dx: y [..a], x [..b] -> [..a, ..b], one element of y after the other: a loop in which the gradient is computed
// once for each. Throws as gradients() does.
Output jacobian(Output y, Output x);

// The Hessian H of the scalar `y` with respect to all xs, times the vector of all vs, which are of the shapes of the
// xs: H v by two gradients, of y and of (dy/dx) v (Pearlmutter 1994). Zeros where nothing depends on an x.
std::vector<Output> hessian_vector_product(Output y, std::span<const Output> xs, std::span<const Output> vs);

}  // namespace troupe
