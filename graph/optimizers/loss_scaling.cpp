#include "troupe/graph/optimizers/loss_scaling.hpp"

#include <cmath>
#include <limits>
#include <map>

#include <troupe/graph/builder/builder.hpp>

namespace troupe {
namespace {

constexpr double kLargestScale = 16777216;  // 2^24: more would only lift values that f16 cannot resolve anyway

void check(const LossScaling& options) {
  int exponent = 0;
  if (!(options.initial >= 1 && options.initial <= kLargestScale) || std::frexp(options.initial, &exponent) != 0.5)
    invalid_argument("loss scaling: the initial scale must be a power of two from 1 to 2^24, not {}", options.initial);
  if (options.growth_interval < 1)
    invalid_argument("loss scaling: the growth interval must be at least 1 step, not {}", options.growth_interval);
}

// Element i of the state.
Output part(const VariableRef& state, std::int64_t i, DType dtype, const std::string& name) {
  return identity(cast(reshape(slice(state.read(), {i}, {1}), Shape{}), dtype), name);
}

}  // namespace

Output LossScale::scaled(Output loss, std::string name) const {
  if (!loss.valid()) invalid_argument("loss scaling: the loss is not a tensor");
  return mul(loss, cast(scale, loss.dtype()), std::move(name));
}

LossScale loss_scale(Graph& graph, const LossScaling& options, std::string name) {
  check(options);
  const auto scope = graph.scope(name);
  const Output first = constant(graph, Tensor::vector<double>({options.initial, 0, 0}), "first");
  return loss_scale_of(variable(graph, {.name = "state", .initial_value = first, .trainable = false}), options);
}

LossScale loss_scale_of(const VariableRef& state, const LossScaling& options) {
  return {.options = options,
          .state = state,
          .scale = part(state, 0, DType::f32, "scale"),
          .skipped = part(state, 2, DType::i64, "skipped")};
}

Output all_finite(std::span<const Gradient> gradients, std::span<const VariableRef> variables) {
  if (gradients.empty() || gradients.size() != variables.size())
    invalid_argument("all_finite: {} gradients for {} variables", gradients.size(), variables.size());
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

Output one_or_nan(Output finite) {
  Graph& graph = *finite.graph;
  const Output nan = constant(graph, std::numeric_limits<float>::quiet_NaN());
  const Output one = constant(graph, 1.0f);
  return select(finite, one, nan);
}

Output update_loss_scale(const LossScale& scale, Output verdict, std::string name) {
  Graph& graph = *scale.state.handle.graph;
  const Node& handle = scale.state.handle.source();
  // Shaped like the state: a gradient has the shape of the variable it updates.
  const Output ones = constant(graph, Tensor::vector<double>({1, 1, 1}));
  const Output gradient = mul(cast(verdict, DType::f64), ones);
  const Output updated =
      add_target(graph, {.op = "ApplyLossScale",
                         .name = std::move(name),
                         .inputs = {scale.state.handle, gradient},
                         .attributes = {{"dynamic", scale.options.dynamic},
                                        {"growth_interval", std::int64_t{scale.options.growth_interval}},
                                        {"largest", kLargestScale}},
                         .device = handle.device,
                         .colocate_with = handle.name});
  if (!graph.is_eager()) graph.add_control_edge(scale.state.read().source(), updated.source());
  return updated;
}

}  // namespace troupe
