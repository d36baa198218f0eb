// Ops that only gradients have, composed of ONNX's: so a training graph is a model too.
#include <troupe/graph/formats/onnx/onnx_export.hpp>

namespace troupe {
namespace {

// dy where y > 0.
void write_relu_grad(OnnxExportNode& node) {
  const OnnxName zero = node.number_like(0, 0);
  node.set(node.add("Where", {node.add("Greater", {node.in(1), zero}), node.in(0), zero}));
}

void write_leaky_relu_grad(OnnxExportNode& node) {
  const OnnxName less = node.add("Mul", {node.in(0), node.number_like(0, node.attributes().real("alpha"))});
  const OnnxName positive = node.add("Greater", {node.in(1), node.number_like(0, 0)});
  node.set(node.add("Where", {positive, node.in(0), less}));
}

// dy y (1 - y).
void write_sigmoid_grad(OnnxExportNode& node) {
  const OnnxName rest = node.add("Sub", {node.number_like(0, 1), node.in(1)});
  node.set(node.add("Mul", {node.add("Mul", {node.in(0), node.in(1)}), rest}));
}

// dy (1 - y^2).
void write_tanh_grad(OnnxExportNode& node) {
  const OnnxName square = node.add("Mul", {node.in(1), node.in(1)});
  node.set(node.add("Mul", {node.in(0), node.add("Sub", {node.number_like(0, 1), square})}));
}

OnnxName sum_along_axis(const OnnxExportNode& node, const OnnxName& x) {
  return node.add("ReduceSum", {x, node.integers({node.attributes().integer("axis")})});
}

// y (dy - sum(dy y)).
void write_softmax_grad(OnnxExportNode& node) {
  const OnnxName sum = sum_along_axis(node, node.add("Mul", {node.in(0), node.in(1)}));
  node.set(node.add("Mul", {node.in(1), node.add("Sub", {node.in(0), sum})}));
}

// dy - exp(y) sum(dy).
void write_log_softmax_grad(OnnxExportNode& node) {
  const OnnxName sum = sum_along_axis(node, node.in(0));
  node.set(node.add("Sub", {node.in(0), node.add("Mul", {node.add("Exp", {node.in(1)}), sum})}));
}

void write_bias_add_grad(OnnxExportNode& node) {
  Integers axes;
  for (std::int64_t d = 0; d + 1 < node.rank(0); ++d) axes.push_back(d);
  if (axes.empty()) return node.set(node.add("Identity", {node.in(0)}));
  node.set(node.add("ReduceSum", {node.in(0), node.integers(axes)}, {{"keepdims", std::int64_t{0}}}));
}

constexpr OnnxExportOp kGradientWriters[] = {
    {"BiasAddGrad", write_bias_add_grad},
    {"LeakyReluGrad", write_leaky_relu_grad},
    {"LogSoftmaxGrad", write_log_softmax_grad},
    {"ReluGrad", write_relu_grad},
    {"SigmoidGrad", write_sigmoid_grad},
    {"SoftmaxGrad", write_softmax_grad},
    {"TanhGrad", write_tanh_grad},
};

}  // namespace

std::span<const OnnxExportOp> onnx_gradient_writers() { return kGradientWriters; }

}  // namespace troupe
