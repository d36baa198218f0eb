// ONNX's products and linear algebra.
#include <troupe/graph/formats/onnx/onnx_node.hpp>

namespace troupe {
namespace {

void einsum_node(OnnxNode& node) { node.set(einsum(node.string("equation"), node.all_inputs())); }

void gemm_node(OnnxNode& node) {
  const Output c = node.has(2) ? node.in(2) : Output();
  node.set(gemm(node.in(0), node.in(1), c,
                {.alpha = node.real("alpha", 1),
                 .beta = node.real("beta", 1),
                 .transpose_a = node.integer("transA", 0) != 0,
                 .transpose_b = node.integer("transB", 0) != 0}));
}

constexpr OnnxOp kLinearOps[] = {
    {"Gemm", gemm_node},
    {"Einsum", einsum_node},
};

}  // namespace

std::span<const OnnxOp> onnx_linear_ops() { return kLinearOps; }

}  // namespace troupe
