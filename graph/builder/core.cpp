#include "troupe/graph/builder/core.hpp"

#include <cmath>

namespace troupe {
namespace {

template <class T>
Tensor integer_scalar(double value, DType dtype) {
  const bool fits = std::trunc(value) == value && value >= static_cast<double>(std::numeric_limits<T>::lowest()) &&
                    value < std::ldexp(1.0, std::numeric_limits<T>::digits);
  if (!fits) invalid_argument("{} is not a value of dtype {}", value, name(dtype));
  return Tensor::scalar(static_cast<T>(value));
}

Tensor scalar_of(DType dtype, double value) {
  switch (dtype) {
    case DType::f32:
      return Tensor::scalar(static_cast<float>(value));
    case DType::f64:
      return Tensor::scalar(value);
    case DType::f16:
      return Tensor::scalar(Half(static_cast<float>(value)));
    case DType::bf16:
      return Tensor::scalar(BFloat16(static_cast<float>(value)));
    case DType::i8:
      return integer_scalar<std::int8_t>(value, dtype);
    case DType::u8:
      return integer_scalar<std::uint8_t>(value, dtype);
    case DType::i16:
      return integer_scalar<std::int16_t>(value, dtype);
    case DType::i32:
      return integer_scalar<std::int32_t>(value, dtype);
    case DType::i64:
      return integer_scalar<std::int64_t>(value, dtype);
    default:
      invalid_argument("{} cannot be a value of dtype {}", value, name(dtype));
  }
}

}  // namespace

const Node& add_node(Name op, const Outputs& inputs, Attributes attributes, Name name) {
  if (inputs.empty() || !inputs.front().valid())
    invalid_argument("{}{}: input 0 is not a tensor", op, name.empty() ? "" : " '" + name + "'");
  return inputs.front().graph->add(
      {.op = std::move(op), .name = std::move(name), .inputs = inputs, .attributes = std::move(attributes)});
}

Output add_op(Name op, const Outputs& inputs, Attributes attributes, Name name) {
  const Node& node = add_node(std::move(op), inputs, std::move(attributes), std::move(name));
  return inputs.front().graph->output(node);
}

Outputs outputs_of(Graph& graph, const Node& node) {
  Outputs out;
  for (std::size_t i = 0; i < node.output_types.size(); ++i) out.push_back(graph.output(node, static_cast<int>(i)));
  return out;
}

Output constant(Graph& graph, Tensor value, Name name) {
  const DType dtype = value.dtype();
  return graph.output(
      graph.add({.op = "Const", .name = std::move(name), .attributes = {{"T", dtype}, {"value", std::move(value)}}}));
}

Output scalar_like(Output x, double value, Name name) {
  if (!x.valid()) invalid_argument("scalar_like: x is not a tensor");
  return constant(*x.graph, scalar_of(x.dtype(), value), std::move(name));
}

Output placeholder(Graph& graph, DType dtype, Shape shape, Name name) {
  return graph.output(
      graph.add({.op = "Placeholder", .name = std::move(name), .attributes = {{"T", dtype}, {"shape", shape}}}));
}

Output identity(Output x, Name name) { return add_op("Identity", {x}, {}, std::move(name)); }
Output stop_gradient(Output x, Name name) { return add_op("StopGradient", {x}, {}, std::move(name)); }
Output group(Graph& graph, const Outputs& nodes, Name name) {
  return graph.output(graph.add({.op = "NoOp", .name = std::move(name), .controls = nodes}));
}

}  // namespace troupe
