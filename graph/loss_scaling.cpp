#include "graph/loss_scaling.hpp"

#include <cmath>
#include <map>

#include "graph/ops.hpp"

namespace troupe {
namespace {

constexpr double kLargestScale = 16777216;  // 2^24: more would lift what f16 can not resolve anyway

void check(const LossScaling& options) {
  int exponent = 0;
  if (!(options.initial >= 1 && options.initial <= kLargestScale) ||
      std::frexp(options.initial, &exponent) != 0.5)
    invalid_argument("loss scaling: the initial scale must be a power of two from 1 to 2^24, it is {}",
                     options.initial);
  if (options.growth_interval < 1)
    invalid_argument("loss scaling: the growth interval must be at least 1 step, it is {}",
                     options.growth_interval);
}

// A variable that a branch was given.
VariableRef argument(Output handle, DType dtype) { return {.handle = handle, .dtype = dtype}; }

VariableRef state(Graph& graph, const std::string& name, Tensor value) {
  const std::string full = graph.unique_name(name + "/first");
  const Output first = constant(graph, std::move(value), full.substr(graph.current_scope().size()));
  return variable(graph, {.name = name, .initial_value = first, .trainable = false});
}

}  // namespace

Output LossScale::scaled(Output loss, std::string name) const {
  if (!loss.valid()) invalid_argument("loss scaling: the loss is not a tensor");
  return mul(loss, cast(scale.read(), loss.dtype()), std::move(name));
}

LossScale loss_scale(Graph& graph, const LossScaling& options, std::string name) {
  check(options);
  return {.options = options,
          .scale = state(graph, name + "/scale", Tensor::scalar(static_cast<float>(options.initial))),
          .good_steps = state(graph, name + "/good_steps", Tensor::scalar<std::int64_t>(0)),
          .skipped = state(graph, name + "/skipped", Tensor::scalar<std::int64_t>(0))};
}

Output all_finite(std::span<const Gradient> gradients, std::span<const VariableRef> variables) {
  if (gradients.empty() || gradients.size() != variables.size())
    invalid_argument("all_finite: {} gradients of {} variables", gradients.size(), variables.size());
  std::map<std::pair<std::string, DType>, Outputs> groups;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const Output flow = gradients[i].is_dense() ? gradients[i].dense : gradients[i].values;
    if (!flow.valid()) invalid_argument("all_finite: variable '{}' has no gradient", variables[i].name);
    groups[{variables[i].handle.source().device, flow.dtype()}].push_back(flow);
  }
  Output finite;
  for (const auto& [key, values] : groups) {
    const auto device = values.front().graph->on_device(key.first);
    const Output here = add_op("AllFinite", values);
    finite = finite.valid() ? logical_and(finite, here) : here;
  }
  return finite;
}

Output update_loss_scale(const LossScale& scale, Output finite, std::string name) {
  Graph& graph = *scale.scale.handle.graph;
  const LossScaling options = scale.options;
  const auto good = [options](Graph& body, const Outputs& in) -> Outputs {
    if (!options.dynamic) return {};
    const VariableRef value = argument(in[0], DType::f32), steps = argument(in[1], DType::i64);
    const Output before = value.fresh_read();
    const Output counted = steps.fresh_read() + 1.0;
    const Output grows = greater_equal(counted, scalar_like(counted, options.growth_interval));
    value.assign(select(grows, minimum(before * 2.0, scalar_like(before, kLargestScale)), before));
    steps.assign(select(grows, constant<std::int64_t>(body, 0), counted));
    return {};
  };
  const auto bad = [options](Graph& body, const Outputs& in) -> Outputs {
    argument(in[2], DType::i64).assign_add(constant<std::int64_t>(body, 1));
    if (!options.dynamic) return {};
    const VariableRef value = argument(in[0], DType::f32);
    const Output before = value.fresh_read();
    value.assign(maximum(before * 0.5, scalar_like(before, 1)));
    argument(in[1], DType::i64).assign(constant<std::int64_t>(body, 0));
    return {};
  };
  const Outputs handles = {scale.scale.handle, scale.good_steps.handle, scale.skipped.handle};
  if_else(finite, handles, good, bad, name);
  const Node& node = graph.get(graph.current_scope() + name);
  graph.add_control_edge(scale.scale.read().source(), node);
  return graph.output(node);
}

}  // namespace troupe
