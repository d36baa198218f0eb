// ONNX's products, convolutions, pools and normalisations.
#include <troupe/graph/formats/onnx/onnx_node.hpp>

namespace troupe {
namespace {

void matmul_node(OnnxNode& node) { node.set(matmul(node.in(0), node.in(1))); }

constexpr OnnxOp kNnOps[] = {
    {"MatMul", matmul_node},
};

}  // namespace

std::span<const OnnxOp> onnx_nn_ops() { return kNnOps; }

}  // namespace troupe
