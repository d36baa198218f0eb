// ONNX's products and linear algebra.
#include <cmath>

#include <troupe/graph/formats/onnx/onnx_node.hpp>

namespace troupe {
namespace {

void det_node(OnnxNode& node) { node.set(det(node.in(0))); }

void einsum_node(OnnxNode& node) { node.set(einsum(node.string("equation"), node.all_inputs())); }

// Integers are multiplied as such, and scaled by parts of one as f64.
Output gemm_of_integers(Output a, Output b, Output c, const GemmOptions& options) {
  const Output products = matmul(a, b, {.transpose_a = options.transpose_a, .transpose_b = options.transpose_b});
  Output y = cast(products, DType::f64) * options.alpha;
  if (c.valid()) y = y + cast(c, DType::f64) * options.beta;
  return cast(y, a.dtype());
}

void gemm_node(OnnxNode& node) {
  const Output a = node.in(0), b = node.in(1), c = node.has(2) ? node.in(2) : Output();
  const GemmOptions options{.alpha = node.real("alpha", 1),
                            .beta = node.real("beta", 1),
                            .transpose_a = node.integer("transA", 0) != 0,
                            .transpose_b = node.integer("transB", 0) != 0};
  const bool whole = options.alpha == std::trunc(options.alpha) && options.beta == std::trunc(options.beta);
  node.set(is_floating(a.dtype()) || whole ? gemm(a, b, c, options) : gemm_of_integers(a, b, c, options));
}

void matmul_integer_node(OnnxNode& node) {
  const auto zero_point = [&](int index) { return node.has(index) ? node.in(index) : Output(); };
  node.set(matmul_integer(node.in(0), node.in(1), zero_point(2), zero_point(3)));
}

void qlinear_matmul_node(OnnxNode& node) {
  node.set(qlinear_matmul({node.in(0), node.in(1), node.in(2)}, {node.in(3), node.in(4), node.in(5)}, node.in(6),
                          node.in(7)));
}

constexpr OnnxOp kLinearOps[] = {
    {"Det", det_node},
    {"MatMulInteger", matmul_integer_node},
    {"QLinearMatMul", qlinear_matmul_node},
    {"Gemm", gemm_node},
    {"Einsum", einsum_node},
};

}  // namespace

std::span<const OnnxOp> onnx_linear_ops() { return kLinearOps; }

}  // namespace troupe
