// ONNX's products, convolutions, pools and normalisations.
#include <troupe/graph/formats/onnx/onnx_node.hpp>

namespace troupe {
namespace {

// Operands with exchanged dimensions are an attribute.
void matmul_node(OnnxNode& node) {
  const auto exchanged = [&](int input) -> Output {
    const OnnxViewPtr view = node.view(input);
    return view && exchanges_last_two(view->perm) ? view->source : Output();
  };
  const Output a = exchanged(0), b = exchanged(1);
  node.set(matmul(a.valid() ? a : node.in(0), b.valid() ? b : node.in(1),
                  {.transpose_a = a.valid(), .transpose_b = b.valid()}));
}

constexpr OnnxOp kNnOps[] = {
    {"MatMul", matmul_node},
};

}  // namespace

std::span<const OnnxOp> onnx_nn_ops() { return kNnOps; }

}  // namespace troupe
