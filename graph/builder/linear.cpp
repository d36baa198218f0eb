#include "troupe/graph/builder/linear.hpp"

#include <limits>

#include <troupe/graph/builder/array.hpp>
#include <troupe/graph/builder/layout.hpp>
#include <troupe/graph/builder/math.hpp>
#include <troupe/graph/builder/reduce.hpp>

namespace troupe {

Output matmul(Output a, Output b, MatMulOptions options) {
  return add_op("MatMul", {std::move(a), std::move(b)},
                {{"transpose_a", options.transpose_a}, {"transpose_b", options.transpose_b}}, std::move(options.name));
}

Output gemm(Output a, Output b, Output c, GemmOptions options) {
  const bool adds = c.valid() && options.beta != 0;
  const bool scales = options.alpha != 1;
  Output out = matmul(a, b,
                      {.transpose_a = options.transpose_a,
                       .transpose_b = options.transpose_b,
                       .name = adds || scales ? Name() : options.name});
  if (scales) out = mul(out, scalar_like(out, options.alpha), adds ? Name() : options.name);
  if (!adds) return out;
  if (options.beta != 1) c = c * options.beta;
  // What the fusing pass makes part of the product.
  const bool bias = c.shape().rank() == 1 && c.shape()[0] > 1 && is_floating(c.dtype());
  return bias ? bias_add(out, c, std::move(options.name)) : add(out, c, std::move(options.name));
}

namespace {

Output or_zero(Output zero_point, Output of) {
  return zero_point.valid() || !of.valid() ? zero_point : constant(*of.graph, Tensor::zeros(of.dtype(), Shape{}));
}

}  // namespace

Output matmul_integer(Output a, Output b, Output a_zero_point, Output b_zero_point, Name name) {
  a_zero_point = or_zero(a_zero_point, a);
  b_zero_point = or_zero(b_zero_point, b);
  return add_op("MatMulInteger", {a, b, a_zero_point, b_zero_point}, {}, std::move(name));
}

Output qlinear_matmul(QuantizedTensor a, QuantizedTensor b, Output y_scale, Output y_zero_point, Name name) {
  return add_op("QLinearMatMul",
                {a.values, a.scale, a.zero_point, b.values, b.scale, b.zero_point, y_scale, y_zero_point}, {},
                std::move(name));
}

Output det(Output x, Name name) { return add_op("Det", {std::move(x)}, {}, std::move(name)); }
Output cofactors(Output x, Name name) { return add_op("Cofactors", {std::move(x)}, {}, std::move(name)); }
Output cholesky(Output x, Name name) { return add_op("Cholesky", {std::move(x)}, {}, std::move(name)); }

namespace {

// Makes the leading dimensions of two lists of matrices equal, if they are known to differ.
void broadcast_batches(Output& a, Output& b) {
  const Shape &of_a = a.shape(), &of_b = b.shape();
  if (!of_a.has_rank() || !of_b.has_rank() || of_a.rank() < 2 || of_b.rank() < 2) return;
  const Shape batch_a = of_a.sub(0, of_a.rank() - 2), batch_b = of_b.sub(0, of_b.rank() - 2);
  if (batch_a == batch_b) return;
  const auto batch_of = [](Output x) {
    const Output dims = strided_slice(shape_of(x), Integers{0}, Integers{-2});
    const Output ones = constant<std::int64_t>(*x.graph, {1, 1});
    return concat({dims, ones}, 0);
  };
  const Output larger_a = broadcast_to(a, batch_of(b));
  b = broadcast_to(b, batch_of(a));
  a = larger_a;
}

}  // namespace

Output matrix_solve(Output a, Output b, SolveOptions options) {
  broadcast_batches(a, b);
  return add_op("MatrixSolve", {std::move(a), std::move(b)}, {{"adjoint", options.adjoint}}, std::move(options.name));
}
Output triangular_solve(Output a, Output b, SolveOptions options) {
  broadcast_batches(a, b);
  return add_op("TriangularSolve", {std::move(a), std::move(b)},
                {{"lower", options.lower}, {"adjoint", options.adjoint}}, std::move(options.name));
}
Output cholesky_solve(Output l, Output b, Name name) {
  return triangular_solve(l, triangular_solve(l, b), {.adjoint = true, .name = std::move(name)});
}
LogDet slogdet(Output x, Name name) {
  const Outputs out = add_outputs("LogDet", {x}, {}, std::move(name));
  return {out[0], out[1]};
}
Output logdet(Output x, Name name) {
  const LogDet found = slogdet(x);
  const Output zero = scalar_like(x, 0);
  const Output bad = less(found.sign, zero);
  return select(bad, scalar_like(x, std::numeric_limits<double>::quiet_NaN()), found.log_abs, std::move(name));
}
Output trace(Output x, Name name) { return sum(diag_part(x), {-1}, {.name = std::move(name)}); }
Output matrix_inverse(Output x, Name name) { return add_op("MatrixInverse", {std::move(x)}, {}, std::move(name)); }

Output bias_add(Output x, Output bias, Name name) {
  return add_op("BiasAdd", {std::move(x), std::move(bias)}, {}, std::move(name));
}
Output bias_add(Output x, Output bias, DataFormat format, Name name) {
  return add_op("BiasAdd", {std::move(x), std::move(bias)}, {{"data_format", to_string(format)}}, std::move(name));
}

}  // namespace troupe
