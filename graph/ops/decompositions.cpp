// Decompositions of matrices [...,m,n]: QR, eigenvalues of symmetric ones, singular values, pseudo-inverses.
#include <limits>

#include <troupe/graph/ops/families.hpp>
#include <troupe/graph/ops/gradients.hpp>
#include <troupe/graph/ops/shapes.hpp>

namespace troupe {
namespace {

// Sets output i to matrices [...,rows,columns] beside those of x, or vectors [...,rows] (columns < -1).
constexpr std::int64_t kNoColumns = -2;
void set_beside(ShapeContext& c, int i, const Shape& x, std::int64_t rows, std::int64_t columns = kNoColumns) {
  if (!x.has_rank()) return c.set_output(i, x);
  const Shape batch = x.sub(0, x.rank() - 2);
  c.set_output(i, batch.concatenated(columns == kNoColumns ? Shape{rows} : Shape{rows, columns}));
}

std::int64_t smaller_dim(const Shape& x) {
  if (x[-2] != kUnknown && x[-1] != kUnknown) return std::min(x[-2], x[-1]);
  return x[-2] == 0 || x[-1] == 0 ? 0 : kUnknown;
}

void qr_shape(ShapeContext& c) {
  const Shape& x = shapes::at_least_rank(c.input(0), 2, "x");
  const std::int64_t m = x.has_rank() ? x[-2] : kUnknown, n = x.has_rank() ? x[-1] : kUnknown;
  const std::int64_t columns = !x.has_rank() ? kUnknown : c.attributes().boolean("full_matrices") ? m : smaller_dim(x);
  set_beside(c, 0, x, m, columns);
  set_beside(c, 1, x, columns, n);
}

void eigh_shape(ShapeContext& c) {
  const Shape& x = shapes::at_least_rank(c.input(0), 2, "x");
  const std::int64_t n = x.has_rank() ? shapes::merge_dim(x[-2], x[-1], "the last two dimensions of 'x'") : kUnknown;
  set_beside(c, 0, x, n);
  set_beside(c, 1, x, n, c.attributes().boolean("compute_v") ? n : 0);
}

void svd_shape(ShapeContext& c) {
  const Shape& x = shapes::at_least_rank(c.input(0), 2, "x");
  const bool full = c.attributes().boolean("full_matrices"), vectors = c.attributes().boolean("compute_uv");
  const std::int64_t m = x.has_rank() ? x[-2] : kUnknown, n = x.has_rank() ? x[-1] : kUnknown,
                     k = x.has_rank() ? smaller_dim(x) : kUnknown;
  set_beside(c, 0, x, m, !vectors ? 0 : full ? m : k);
  set_beside(c, 1, x, k);
  set_beside(c, 2, x, !vectors ? 0 : full ? n : k, n);
}

void pseudo_inverse_shape(ShapeContext& c) {
  const Shape& x = shapes::at_least_rank(c.input(0), 2, "x");
  set_beside(c, 0, x, x.has_rank() ? x[-1] : kUnknown, x.has_rank() ? x[-2] : kUnknown);
}

// x / y, and 0 where y is 0.
Output quotient_or_zero(Output x, Output y) {
  const Output zero = scalar_like(y, 0);
  const Output none = equal(y, zero);
  const Output safe = select(none, scalar_like(y, 1), y);
  const Output quotient = x / safe;
  return select(none, zero, quotient);
}

// A - A^T for A = a^T b.
Output skew(Output a, Output b) {
  const Output product = matmul(a, b, {.transpose_a = true});
  const Output transposed = matmul(b, a, {.transpose_a = true});
  return product - transposed;
}

// The matrix d_j - d_i of vectors d.
Output differences_of(Output d) {
  const Output columns = expand_dims(d, -2);
  const Output rows = expand_dims(d, -1);
  return columns - rows;
}

// Giles, "Collected matrix derivative results for forward and reverse mode algorithmic differentiation" (2008), 3.1:
// dx = V (diag(dw) + V^T dv / (w_j - w_i)) V^T, made symmetric. Equal eigenvalues have no direction of their own: their
// part is left out.
void eigh_gradient(GradientContext& c) {
  Output w = c.output(0), v = c.output(1);
  if (!c.attributes().boolean("compute_v")) {
    const Outputs found = add_outputs("Eigh", {c.input(0)});
    w = found[0];
    v = found[1];
  }
  Output left{};
  if (c.has_grad(0)) left = v * expand_dims(c.grad(0), -2);
  if (c.has_grad(1) && c.attributes().boolean("compute_v")) {
    const Output product = skew(v, c.grad(1));
    const Output turns = quotient_or_zero(product, differences_of(w)) * 0.5;
    const Output turned = matmul(v, turns);
    left = left.valid() ? left + turned : turned;
  }
  if (left.valid()) c.set(0, matmul(left, v, {.transpose_b = true}));
}

bool known_square(const Shape& x) { return x.has_rank() && x[-1] != kUnknown && x[-1] == x[-2]; }

// Townsend, "Differentiating the singular value decomposition" (2016). With A_ij = (s_j - s_i) (s_j + s_i) and
// skew(x) = x - x^T: dx = U (skew(U^T du) / A S + S skew(V^T dv) / A + ds) V^T + (1 - U U^T) du / S V^T +
// U / S dv^T (1 - V V^T). Parts of equal and of zero singular values are left out.
void svd_gradient(GradientContext& c) {
  const bool vectors = c.attributes().boolean("compute_uv");
  const bool moves = vectors && (c.has_grad(0) || c.has_grad(2));
  const bool full = c.attributes().boolean("full_matrices") && !known_square(c.input(0).shape());
  if (moves && full)
    fail(Code::unimplemented,
         "singular vectors have gradients only if 'full_matrices' is false, or x is known to be square");
  Outputs factors{c.output(0), c.output(1), c.output(2)};
  if (!vectors || full) factors = add_outputs("Svd", {c.input(0)});
  const Output u = factors[0], s = factors[1], vh = factors[2];
  Output inner{};  // between U and V^T
  Output dx{};
  const auto add_to = [](Output& total, Output part) { total = total.valid() ? total + part : part; };
  if (c.has_grad(1)) {
    const Output scaled = u * expand_dims(c.grad(1), -2);
    dx = matmul(scaled, vh);
  }
  if (moves) {
    const Output apart = differences_of(s);
    const Output columns = expand_dims(s, -2), rows = expand_dims(s, -1);
    const Output divisors = apart * (columns + rows);
    if (c.has_grad(0)) {
      const Output turns = quotient_or_zero(skew(u, c.grad(0)), divisors);
      add_to(inner, turns * columns);
      const Output outside = c.grad(0) - matmul(u, matmul(u, c.grad(0), {.transpose_a = true}));
      add_to(dx, matmul(quotient_or_zero(outside, columns), vh));
    }
    if (c.has_grad(2)) {
      const Output g = c.grad(2);
      const Output product = matmul(vh, g, {.transpose_b = true});
      const Output transposed = matmul(g, vh, {.transpose_b = true});
      const Output turns = quotient_or_zero(product - transposed, divisors);
      add_to(inner, turns * rows);
      const Output outside = g - matmul(transposed, vh);
      add_to(dx, matmul(u, quotient_or_zero(outside, rows)));
    }
    const Output turned = matmul(u, inner);
    add_to(dx, matmul(turned, vh));
  }
  if (dx.valid()) c.set(0, dx);
}

// Of x with at least as many rows as columns, Walter, Lehmann & Lamour, "On evaluating higher-order derivatives of the
// QR decomposition of tall matrices with full column rank in forward and reverse mode algorithmic differentiation"
// (2012): with M = R dR^T - dQ^T Q and its lower triangle mirrored, dx = (dQ + Q M) R^-T. Columns Y beyond the rows are
// Q V, with V those of R (Roberts & Roberts, "QR and LQ decomposition matrix backpropagation algorithms for square,
// wide, and deep matrices", 2020): dY = Q dV adds Y dV^T to dQ.
void qr_gradient(GradientContext& c) {
  const Shape& shape = c.input(0).shape();
  const bool known = shape.has_rank() && shape[-2] != kUnknown && shape[-1] != kUnknown;
  if (c.attributes().boolean("full_matrices") && !(known && shape[-2] <= shape[-1]))
    fail(Code::unimplemented, "the gradient of a tall matrix needs 'full_matrices' = false");
  const Output q = c.output(0);
  const bool wide = !(known && shape[-2] >= shape[-1]);
  const Output end = constant<std::int64_t>(*q.graph, {std::numeric_limits<std::int64_t>::max()});
  const Output zero = constant<std::int64_t>(*q.graph, {0}), last = constant<std::int64_t>(*q.graph, {-1});
  const Output split = strided_slice(shape_of(q), last, end, {.axes = zero});  // columns of Q
  const auto columns = [&](Output x, Output from, Output to) {
    return wide ? strided_slice(x, from, to, {.axes = Integers{-1}}) : x;
  };
  const Output r = columns(c.output(1), zero, split);
  Output dq = c.has_grad(0) || !wide ? c.grad(0) : zeros_like(q);
  Output dr = c.grad(1);
  Output dy{};
  if (wide) {
    const Output dv = columns(dr, split, end);
    dq = dq + matmul(columns(c.input(0), split, end), dv, {.transpose_b = true});
    dy = matmul(q, dv);
    dr = columns(dr, zero, split);
  }
  const Output of_r = matmul(r, dr, {.transpose_b = true});
  const Output of_q = matmul(dq, q, {.transpose_a = true});
  const Output triangle = tril(of_r - of_q);
  const Output half = set_diag(triangle, diag_part(triangle) * 0.5);
  const Output below = matmul(q, half);
  const Output above = matmul(q, half, {.transpose_b = true});
  const Output turned = dq + below + above;
  const Output zeros = zeros_like(r);
  const Output unit = set_diag(zeros, ones_like(diag_part(r)));
  const Output inverse = triangular_solve(r, unit, {.lower = false});
  const Output dx = matmul(turned, inverse, {.transpose_b = true});
  c.set(0, wide ? concat({dx, dy}, -1) : dx);
}

// Golub & Pereyra, "The differentiation of pseudo-inverses and nonlinear least squares problems whose variables
// separate" (1973), for matrices that keep their rank: dP = -P dx P + P P^T dx^T (1 - x P) + (1 - P x) dx^T P^T P.
void pseudo_inverse_gradient(GradientContext& c) {
  const Output x = c.input(0), p = c.output(0), g = c.grad();
  const Output along = matmul(matmul(p, g, {.transpose_a = true}), p, {.transpose_b = true});
  const Output first = matmul(g, matmul(p, p, {.transpose_b = true}), {.transpose_a = true});
  const Output first_rest = first - matmul(x, matmul(p, first));
  const Output second = matmul(matmul(p, p, {.transpose_a = true}), g, {.transpose_b = true});
  const Output second_rest = second - matmul(matmul(second, p), x);
  const Output rest = first_rest + second_rest;
  c.set(0, rest - along);
}

}  // namespace

void register_decomposition_ops(OpRegistry& ops) {
  ops.add(Op("Qr")
              .input("x", "T")
              .output("q", "T")
              .output("r", "T")
              .type("T", kFloatTypes)
              .attr("full_matrices", false)
              .shape(qr_shape)
              .gradient(qr_gradient));
  ops.add(Op("Eigh")
              .input("x", "T")
              .output("w", "T")
              .output("v", "T")
              .type("T", kFloatTypes)
              .attr("compute_v", true)
              .shape(eigh_shape)
              .gradient(eigh_gradient));
  ops.add(Op("Svd")
              .input("x", "T")
              .output("u", "T")
              .output("s", "T")
              .output("vh", "T")
              .type("T", kFloatTypes)
              .attr("full_matrices", false)
              .attr("compute_uv", true)
              .shape(svd_shape)
              .gradient(svd_gradient));
  ops.add(Op("PseudoInverse")
              .input("x", "T")
              .output("y", "T")
              .type("T", kFloatTypes)
              .attr("rtol", -1.0)
              .shape(pseudo_inverse_shape)
              .gradient(pseudo_inverse_gradient));
}

}  // namespace troupe
