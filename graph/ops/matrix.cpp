// Determinants, factors and inverses of square matrices, and solutions of linear equations.
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

// Inputs: a [...,n,n], b [...,n,k].
void solve_shape(ShapeContext& c) {
  const Shape a = square_matrices(c);
  Shape b = shapes::at_least_rank(c.input(1), 2, "b");
  if (!a.has_rank() || !b.has_rank()) return c.set_output(0, b);
  if (a.rank() != b.rank())
    invalid_argument("'a' and 'b' must have the same rank, but their shapes are {} and {}", a.to_string(),
                     b.to_string());
  for (int i = 0; i + 1 < a.rank(); ++i)
    b.set_dim(i, shapes::merge_dim(a[i], b[i], "dimensions of 'a' and 'b' but the last"));
  c.set_output(0, b);
}

// a x = b, or a^T x = b: db = inverse(a)^T g, and da = -db x^T or -x db^T.
struct SolveGradients {
  Output da, db;
};
SolveGradients solve_gradients(GradientContext& c, const std::string& op, Attributes attributes) {
  const bool adjoint = attributes.boolean("adjoint");
  attributes.set("adjoint", !adjoint);
  const Output x = c.output(0);
  const Output db = add_op(op, {c.input(0), c.grad()}, attributes);
  if (!c.needs(0)) return {.da = {}, .db = db};
  const Output products = adjoint ? matmul(x, db, {.transpose_b = true}) : matmul(db, x, {.transpose_b = true});
  return {.da = -products, .db = db};
}
void matrix_solve_gradient(GradientContext& c) {
  const SolveGradients found = solve_gradients(c, "MatrixSolve", {{"adjoint", c.attributes().boolean("adjoint")}});
  if (found.da.valid()) c.set(0, found.da);
  c.set(1, found.db);
}
void triangular_solve_gradient(GradientContext& c) {
  const bool lower = c.attributes().boolean("lower");
  const SolveGradients found =
      solve_gradients(c, "TriangularSolve", {{"adjoint", c.attributes().boolean("adjoint")}, {"lower", lower}});
  if (found.da.valid()) c.set(0, lower ? tril(found.da) : triu(found.da));
  c.set(1, found.db);
}

// Murray, "Differentiation of the Cholesky decomposition" (2016): with K = inverse(L) and P the lower triangle of
// L^T g whose diagonal is halved, dx = K^T (P + P^T) K / 2. As if x were symmetric.
void cholesky_gradient(GradientContext& c) {
  const Output l = c.output(0);
  const Output triangle = tril(matmul(l, c.grad(), {.transpose_a = true}));
  const Output p = set_diag(triangle, diag_part(triangle) * 0.5);
  const Output zeros = zeros_like(l);
  const Output unit = set_diag(zeros, ones_like(diag_part(l)));
  const Output k = triangular_solve(l, unit);
  const Output left = matmul(k, p, {.transpose_a = true});
  const Output right = matmul(k, p, {.transpose_a = true, .transpose_b = true});
  const Output both = left + right;
  c.set(0, matmul(both, k) * 0.5);
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
  ops.add(matrix_op("Cholesky", square_shape, cholesky_gradient));
  ops.add(Op("MatrixSolve")
              .input("a", "T")
              .input("b", "T")
              .output("x", "T")
              .type("T", kFloatTypes)
              .attr("adjoint", false)
              .shape(solve_shape)
              .gradient(matrix_solve_gradient));
  ops.add(Op("TriangularSolve")
              .input("a", "T")
              .input("b", "T")
              .output("x", "T")
              .type("T", kFloatTypes)
              .attr("lower", true)
              .attr("adjoint", false)
              .shape(solve_shape)
              .gradient(triangular_solve_gradient));
  ops.add(matrix_op("Cofactors", square_shape, cofactors_gradient));
  ops.add(matrix_op("MatrixInverse", square_shape, inverse_gradient));
}

}  // namespace troupe
