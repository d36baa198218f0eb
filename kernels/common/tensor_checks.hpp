// Checks of tensors before kernels touch their memory.
#pragma once

#include <string_view>

#include <troupe/messages/tensor.hpp>

namespace troupe {

// Throws invalid_argument unless `t` has this dtype and shape. `what` names it in the message: "MatMul: a".
inline void check_tensor(std::string_view what, const Tensor& t, DType dtype, const Shape& shape) {
  if (t.dtype() != dtype || !(t.shape() == shape))
    invalid_argument("{} must be {}{}, but is {}{}", what, name(dtype), shape.to_string(), name(t.dtype()),
                     t.shape().to_string());
}

inline void check_rank(std::string_view what, const Shape& shape, int rank) {
  if (shape.rank() != rank)
    invalid_argument("{} must have {} dimensions, but its shape is {}", what, rank, shape.to_string());
}

// `t`, or a copy in aligned memory: library code may sum in a different order if memory is not aligned.
inline Tensor aligned(const Tensor& t) { return t.aligned() ? t : t.clone(); }

}  // namespace troupe
