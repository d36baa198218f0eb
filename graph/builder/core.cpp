#include "troupe/graph/builder/core.hpp"

#include <cmath>

#include <troupe/graph/builder/math.hpp>
#include <troupe/graph/known_values.hpp>

namespace troupe {
namespace {

template <class T>
Tensor integer_scalar(double value, DType dtype) {
  const bool fits = std::trunc(value) == value && value >= static_cast<double>(std::numeric_limits<T>::lowest()) &&
                    value < std::ldexp(1.0, std::numeric_limits<T>::digits);
  if (!fits) invalid_argument("{} is not a value of dtype {}", value, name(dtype));
  return Tensor::scalar(static_cast<T>(value));
}

}  // namespace

Tensor scalar_of(DType dtype, double value) {
  if (!is_floating(dtype) && !is_integer(dtype))
    invalid_argument("{} cannot be a value of dtype {}", value, name(dtype));
  return dispatch(RealTypes{}, dtype, [&]<class T>() {
    if constexpr (std::is_integral_v<T>)
      return integer_scalar<T>(value, dtype);
    else
      return Tensor::scalar(static_cast<T>(static_cast<Compute<T>>(value)));
  });
}

namespace {

// The graph that a node with these inputs belongs to: of function bodies under construction the innermost.
Graph& graph_of(const Outputs& inputs) {
  Graph* graph = inputs.front().graph;
  if (inputs.size() == 1) return *graph;
  for (const Output& input : inputs)
    for (const Graph* around = input.graph ? input.graph->around() : nullptr; around; around = around->around())
      if (around == graph) graph = input.graph;
  return *graph;
}

}  // namespace

Outputs add_outputs(Name op, OpInputs given, Attributes attributes, Name name) {
  Outputs inputs = std::move(given).take();
  if (inputs.empty() || !inputs.front().valid())
    invalid_argument("{}{}: input 0 is not a tensor", op, name.empty() ? "" : " '" + name + "'");
  Graph& graph = graph_of(inputs);
  return graph.apply(
      {.op = std::move(op), .name = std::move(name), .inputs = std::move(inputs), .attributes = std::move(attributes)});
}

Output add_op(Name op, OpInputs inputs, Attributes attributes, Name name) {
  Outputs outputs = add_outputs(std::move(op), std::move(inputs), std::move(attributes), std::move(name));
  if (outputs.empty()) invalid_argument("add_op: the op has no output: use add_outputs()");
  return std::move(outputs.front());
}

Outputs outputs_of(Graph& graph, const Node& node) {
  Outputs out;
  for (std::size_t i = 0; i < node.output_types.size(); ++i) out.push_back(graph.output(node, static_cast<int>(i)));
  return out;
}

Output add_target(Graph& graph, NodeSpec spec) {
  if (!graph.is_eager()) return graph.output(graph.add(std::move(spec)));
  graph.apply(std::move(spec));
  return {.graph = &graph};
}

Output constant(Graph& graph, Tensor value, Name name) { return graph.constant(std::move(value), std::move(name)); }

Output scalar_like(Output x, double value, Name name) {
  if (!x.valid()) invalid_argument("scalar_like: x is not a tensor");
  return constant(*x.graph, scalar_of(x.dtype(), value), std::move(name));
}

Output placeholder(Graph& graph, DType dtype, Shape shape, Name name) {
  return graph.apply({.op = "Placeholder", .name = std::move(name), .attributes = {{"T", dtype}, {"shape", shape}}})[0];
}

Output IntegersArg::in(Output x) const {
  if (tensor_.valid()) return cast(tensor_, DType::i64);
  if (!x.valid()) invalid_argument("the first argument is not a tensor");
  return constant(*x.graph, Tensor::of<std::int64_t>(Shape{std::ssize(numbers_)}, numbers_));
}

Output IntegersArg::scalar_in(Output x) const {
  if (tensor_.valid()) return cast(tensor_, DType::i64);
  if (!x.valid()) invalid_argument("the first argument is not a tensor");
  if (numbers_.size() != 1) invalid_argument("{} integers where there must be one", numbers_.size());
  return constant<std::int64_t>(*x.graph, numbers_[0]);
}

std::int64_t IntegersArg::count() const {
  if (!tensor_.valid()) return std::ssize(numbers_);
  const Shape& shape = tensor_.shape();
  return shape.has_rank() && shape.rank() == 1 ? shape[0] : kUnknown;
}

std::optional<std::vector<std::optional<std::int64_t>>> IntegersArg::known() const {
  if (!tensor_.valid()) return std::vector<std::optional<std::int64_t>>(numbers_.begin(), numbers_.end());
  const auto found = known_integers(tensor_);
  return found ? std::optional(found->values) : std::nullopt;
}

Output identity(Output x, Name name) { return add_op("Identity", {std::move(x)}, {}, std::move(name)); }
Output stop_gradient(Output x, Name name) { return add_op("StopGradient", {std::move(x)}, {}, std::move(name)); }
Output group(Graph& graph, const Outputs& nodes, Name name) {
  return add_target(graph, {.op = "NoOp", .name = std::move(name), .controls = nodes});
}

}  // namespace troupe
