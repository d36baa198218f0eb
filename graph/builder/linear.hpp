// Builder API for linear algebra.
#pragma once

#include <string_view>

#include <troupe/graph/builder/core.hpp>

namespace troupe {

struct MatMulOptions {
  bool transpose_a = false;
  bool transpose_b = false;
  Name name{};
};
// The product of matrices: [m,k] x [k,n] -> [m,n]; of batches: [...,m,k] x [...,k,n] -> [...,m,n], where dimensions
// before the last two broadcast like NumPy's; of vectors: [k] x [...,k,n] -> [...,n] and [...,m,k] x [k] -> [...,m].
// `transpose_a` and `transpose_b` swap the last two dimensions of a factor, without a copy. Integers wrap.
Output matmul(Output a, Output b, MatMulOptions options = {});

struct GemmOptions {
  double alpha = 1;
  double beta = 1;
  bool transpose_a = false;
  bool transpose_b = false;
  Name name{};
};
// alpha a b + beta c: [m,k] x [k,n] -> [m,n]. c broadcasts to the product; without a value (Output()) it is 0.
Output gemm(Output a, Output b, Output c, GemmOptions options = {});

struct BiasAddOptions {
  std::int64_t axis = -1;
  Name name{};
};
// x + bias along dimension `axis`: [...,n,...] + [n].
Output bias_add(Output x, Output bias, Name name = {});
Output bias_add(Output x, Output bias, BiasAddOptions options);

// Einstein summation as NumPy's and ONNX's: "bij,bjk->bik". Letters name dimensions; those that the result lacks are
// summed. A letter twice in one operand takes the diagonal; "..." stands for dimensions that broadcast, and needs
// operands of known rank; without "->" the result has, after those, the letters that occur once, in alphabetical order.
// Becomes transposes, products of matrices and sums, operands from left to right.
Output einsum(std::string_view equation, const Outputs& operands, Name name = {});
// Sums products over dimensions axes_a[i] of a and axes_b[i] of b; the result has the others, a's first.
Output tensordot(Output a, Output b, const Integers& axes_a, const Integers& axes_b, Name name = {});
// The same over the last `axes` dimensions of a and the first of b.
Output tensordot(Output a, Output b, std::int64_t axes = 2, Name name = {});
Output outer(Output a, Output b, Name name = {});  // of all elements: [m] x [n] -> [m,n]
Output inner(Output a, Output b, Name name = {});  // over the last dimensions: [...,k] x [...,k] -> [...,...]

}  // namespace troupe
