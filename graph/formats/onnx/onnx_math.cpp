// ONNX's elementwise ops and reductions.
#include <troupe/graph/formats/onnx/onnx_node.hpp>

namespace troupe {
namespace {

template <Output (*build)(Output, Name)>
void unary(OnnxNode& node) {
  node.set(build(node.in(0), {}));
}

// Opsets below 7 broadcast where the attribute "broadcast" says so: b begins at dimension "axis" of a.
Output broadcast_operand(const OnnxNode& node) {
  const Output a = node.in(0), b = node.in(1);
  if (node.opset() >= 7 || node.integer("broadcast", 0) == 0 || !node.has_attr("axis")) return b;
  const Shape &large = a.shape(), &small = b.shape();
  if (!large.has_rank() || !small.has_rank())
    fail(Code::unimplemented, "broadcasting along attribute 'axis' needs known ranks");
  const std::int64_t axis = node.integer("axis");
  Output out = b;
  for (std::int64_t d = (axis < 0 ? axis + large.rank() : axis) + small.rank(); d < large.rank(); ++d)
    out = expand_dims(out, -1);
  return out;
}

template <Output (*build)(Output, Output, Name)>
void binary(OnnxNode& node) {
  node.set(build(node.in(0), broadcast_operand(node), {}));
}

constexpr OnnxOp kMathOps[] = {
    {"Abs", unary<abs>},           {"Add", binary<add>},
    {"And", binary<logical_and>},  {"Div", binary<div>},
    {"Equal", binary<equal>},      {"Erf", unary<erf>},
    {"Exp", unary<exp>},           {"Floor", unary<floor>},
    {"Greater", binary<greater>},  {"GreaterOrEqual", binary<greater_equal>},
    {"Less", binary<less>},        {"LessOrEqual", binary<less_equal>},
    {"Log", unary<log>},           {"Mul", binary<mul>},
    {"Neg", unary<neg>},           {"Not", unary<logical_not>},
    {"Or", binary<logical_or>},    {"Relu", unary<relu>},
    {"Sigmoid", unary<sigmoid>},   {"Sign", unary<sign>},
    {"Softplus", unary<softplus>}, {"Sqrt", unary<sqrt>},
    {"Sub", binary<sub>},          {"Tanh", unary<tanh>},
};

}  // namespace

std::span<const OnnxOp> onnx_math_ops() { return kMathOps; }

}  // namespace troupe
