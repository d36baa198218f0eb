#include "troupe/kernels/common/matmul_shape.hpp"

#include <troupe/kernels/common/tensor_checks.hpp>

namespace troupe {

Shape matmul_shape(const Shape& a, const Shape& b, bool transpose_a, bool transpose_b) {
  check_rank("MatMul: a", a, 2);
  check_rank("MatMul: b", b, 2);
  if (a[transpose_a ? 0 : 1] != b[transpose_b ? 1 : 0])
    invalid_argument("MatMul: inner dimensions differ: {}{} x {}{}", a.to_string(), transpose_a ? " transposed" : "",
                     b.to_string(), transpose_b ? " transposed" : "");
  return {a[transpose_a ? 1 : 0], b[transpose_b ? 0 : 1]};
}

}  // namespace troupe
