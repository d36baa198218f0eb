// Builder API for linear algebra.
#pragma once

#include <string_view>

#include <troupe/graph/builder/core.hpp>
#include <troupe/graph/builder/padding.hpp>

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

// bias [c], along the channels of x.
Output bias_add(Output x, Output bias, Name name = {});
Output bias_add(Output x, Output bias, DataFormat format, Name name = {});

// (a - a_zero_point) (b - b_zero_point) of i8 or u8, as i32: exact, modulo 2^32. Shapes as matmul(). A zero point is a
// scalar, has one value for each row of a [m] or column of b [n], or one for those of each matrix: [...,m,1],
// [...,1,n]. Without a value (Output()) it is 0.
Output matmul_integer(Output a, Output b, Output a_zero_point = {}, Output b_zero_point = {}, Name name = {});

// Real numbers as integers: (values - zero_point) scale. values and zero_point: i8 or u8; scale: f32.
struct QuantizedTensor {
  Output values{}, scale{}, zero_point{};
};
// round(a b / y_scale) + y_zero_point, saturated to the dtype of y_zero_point, for the real numbers a and b; rounds to
// nearest even. Scales have the shapes of zero points of matmul_integer(); y's are scalars.
Output qlinear_matmul(QuantizedTensor a, QuantizedTensor b, Output y_scale, Output y_zero_point, Name name = {});

// Of square matrices [...,n,n], computed in double precision.
Output det(Output x, Name name = {});  // [...]
struct LogDet {
  Output sign{};     // -1, 0 or 1
  Output log_abs{};  // -infinity for singular matrices
};
LogDet slogdet(Output x, Name name = {});         // det = sign exp(log_abs), which overflows for few matrices
Output logdet(Output x, Name name = {});          // of a positive determinant: NaN for others
Output trace(Output x, Name name = {});           // the sum of the main diagonal; of matrices [...,m,n], too
Output cofactors(Output x, Name name = {});       // det(x) inverse(x)^T: the derivatives of det, of singular x too
Output matrix_inverse(Output x, Name name = {});  // throws for singular matrices when it runs

// Lower triangular L with x = L L^T, from the lower triangle of a positive definite x [...,n,n].
Output cholesky(Output x, Name name = {});
struct SolveOptions {
  bool adjoint = false;  // of the transpose of a
  bool lower = true;     // of triangular matrices: the other triangle is not read
  Name name{};
};
// x [...,n,k] with a x = b, for a [...,n,n] and b [...,n,k], whose leading dimensions broadcast; those that are not
// known before the graph runs must be equal. Fails for singular matrices when it runs, naming the first.
Output matrix_solve(Output a, Output b, SolveOptions options = {});
Output triangular_solve(Output a, Output b, SolveOptions options = {});
Output cholesky_solve(Output l, Output b, Name name = {});  // l l^T x = b

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
