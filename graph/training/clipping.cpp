#include "troupe/graph/training/clipping.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/training/backprop_order.hpp>

namespace troupe {
namespace {

Output flow(const GradientAndVariable& g) { return g.gradient.is_dense() ? g.gradient.dense : g.gradient.values; }

}  // namespace

Output global_norm(std::span<const GradientAndVariable> gradients) {
  if (gradients.empty()) invalid_argument("global norm: there are no gradients");
  Outputs halves;
  for (const GradientAndVariable& g : gradients) {
    if (!flow(g).valid()) invalid_argument("global norm: variable '{}' has no gradient", g.variable.name);
    const auto device = flow(g).graph->on_device(flow(g).source().device);
    halves.push_back(cast(l2_loss(flow(g)), DType::f64));
  }
  const Output half = halves.size() == 1 ? halves.front() : add_n(halves);
  return sqrt(half * 2.0, "norm");
}

std::vector<GradientAndVariable> clip_by_global_norm(std::span<const GradientAndVariable> gradients, double clip_norm,
                                                     const LossScale* scale) {
  if (!(std::isfinite(clip_norm) && clip_norm > 0))
    invalid_argument("clipping: the maximum norm must be positive, not {}", clip_norm);
  if (gradients.empty() || !flow(gradients.front()).valid()) invalid_argument("clipping: there are no gradients");
  Graph& graph = *flow(gradients.front()).graph;
  const auto scope = graph.scope("clip");
  std::vector<GradientAndVariable> trained;
  std::ranges::copy_if(gradients, std::back_inserter(trained),
                       [](const GradientAndVariable& g) { return g.moved_by == 0; });
  Output norm = global_norm(trained);
  // A power of two: the same bits as for gradients divided by it.
  if (scale) norm = div(norm, cast(scale->scale, DType::f64), "unscaled_norm");
  const Output one = scalar_like(norm, 1);
  const Output shorter = minimum(clip_norm / norm, one);
  const Output unknown = scalar_like(norm, std::numeric_limits<double>::quiet_NaN());
  const Output factor = select(add_op("AllFinite", {norm}), shorter, unknown, "factor");
  std::vector<GradientAndVariable> out(gradients.begin(), gradients.end());
  for (const std::size_t i : backprop_order(gradients)) {
    if (out[i].moved_by != 0) continue;
    Gradient& g = out[i].gradient;
    Output& whole = g.is_dense() ? g.dense : g.values;
    const auto device = graph.on_device(whole.source().device);
    whole = mul(whole, cast(factor, whole.dtype()),
                graph.unique_name(out[i].variable.name).substr(graph.current_scope().size()));
  }
  return out;
}

}  // namespace troupe
