// Determinants and inverses of square matrices.
#include <troupe/graph/ops/families.hpp>
#include <troupe/graph/ops/gradients.hpp>
#include <troupe/graph/ops/shapes.hpp>

namespace troupe {
namespace {

// [...,n,n] with one n.
Shape square_matrices(const ShapeContext& c) {
  Shape x = shapes::at_least_rank(c.input(0), 2, "x");
  if (!x.has_rank()) return x;
  const std::int64_t n = shapes::merge_dim(x[-2], x[-1], "the last two dimensions of 'x'");
  x.set_dim(-2, n);
  x.set_dim(-1, n);
  return x;
}

void det_op_shape(ShapeContext& c) {
  const Shape x = square_matrices(c);
  c.set_output(0, x.has_rank() ? x.sub(0, x.rank() - 2) : x);
}
void log_det_shape(ShapeContext& c) {
  const Shape x = square_matrices(c);
  for (int i = 0; i < 2; ++i) c.set_output(i, x.has_rank() ? x.sub(0, x.rank() - 2) : x);
}
void square_shape(ShapeContext& c) { c.set_output(0, square_matrices(c)); }

Output as_matrix(Output scalars) { return expand_dims(expand_dims(scalars, -1), -1); }

// dx = g C, with the cofactors C = det(x) inverse(x)^T, which exist for singular matrices too.
void det_gradient(GradientContext& c) {
  const Output factors = cofactors(c.input(0));
  const Output g = as_matrix(c.grad());
  c.set(0, g * factors);
}

// dC = (<C, dx> C - C dx^T C) / det(x). Infinite or NaN for singular matrices.
void cofactors_gradient(GradientContext& c) {
  const Output factors = c.output(0);
  const Output g = c.grad();
  const Output along = sum(factors * g, {-2, -1}, {.keep_dims = true});
  const Output turned = matmul(factors, g, {.transpose_b = true});
  const Output product = matmul(turned, factors);
  const Output scaled = along * factors;
  const Output determinant = as_matrix(det(c.input(0)));
  c.set(0, (scaled - product) / determinant);
}

// dx = -y^T g y^T.
void inverse_gradient(GradientContext& c) {
  const Output y = c.output(0);
  const Output right = matmul(c.grad(), y, {.transpose_b = true});
  c.set(0, -matmul(y, right, {.transpose_a = true}));
}

// dx = g inverse(x)^T, from the logarithm alone: the sign is constant.
void log_det_gradient(GradientContext& c) {
  if (!c.has_grad(1)) return;
  const Output x = c.input(0);
  const Output zeros = zeros_like(x);
  const Output flow = expand_dims(c.grad(1), -1);
  const Output scales = set_diag(zeros, broadcast_like(flow, diag_part(x)));
  c.set(0, matmul(matrix_inverse(x), scales, {.transpose_a = true}));
}

Op matrix_op(const char* name, ShapeFn shape, GradientFn gradient) {
  Op op(name);
  op.input("x", "T").output("y", "T").type("T", kFloatTypes).shape(std::move(shape)).gradient(std::move(gradient));
  return op;
}

}  // namespace

void register_matrix_ops(OpRegistry& ops) {
  ops.add(matrix_op("Det", det_op_shape, det_gradient));
  ops.add(Op("LogDet")
              .input("x", "T")
              .output("sign", "T")
              .output("log_abs", "T")
              .type("T", kFloatTypes)
              .shape(log_det_shape)
              .gradient(log_det_gradient));
  ops.add(matrix_op("Cofactors", square_shape, cofactors_gradient));
  ops.add(matrix_op("MatrixInverse", square_shape, inverse_gradient));
}

}  // namespace troupe
