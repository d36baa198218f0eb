// Shapes of matrix products.
#pragma once

#include <troupe/messages/shape.hpp>

namespace troupe {

// [m,k] x [k,n] -> [m,n], each factor transposed first on request. Throws invalid_argument, naming the shapes, if they
// do not match.
Shape matmul_shape(const Shape& a, const Shape& b, bool transpose_a, bool transpose_b);

}  // namespace troupe
