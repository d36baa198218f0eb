// The shape of matrix products.
#pragma once

#include <troupe/messages/shape.hpp>

namespace troupe {

// [m,k] x [k,n] -> [m,n], each factor transposed first if asked. Throws invalid_argument, naming the shapes, for those
// that do not fit.
Shape matmul_shape(const Shape& a, const Shape& b, bool transpose_a, bool transpose_b);

}  // namespace troupe
