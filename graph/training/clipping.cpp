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
Output& flow(GradientAndVariable& g) { return g.gradient.is_dense() ? g.gradient.dense : g.gradient.values; }

// Changes gradients in the order in which backprop makes them. `scale`: null, or of a scaled loss.
class Clipper {
 public:
  Clipper(std::span<const GradientAndVariable> gradients, const LossScale* scale)
      : gradients_(gradients.begin(), gradients.end()), scale_(scale), graph_(*flow(gradients.front()).graph) {}

  void by_value(double most) {
    for_each([&](Output& whole) {
      Output limit = scalar_like(whole, most, "limit");
      if (scale_) limit = mul(limit, cast(scale_->scale, whole.dtype()), "scaled_limit");
      const Output least = neg(limit);
      return clip(whole, least, limit);
    });
  }
  void by_norm(double most) {
    for_each([&](Output& whole) {
      const Output half = cast(l2_loss(whole), DType::f64);
      return mul(whole, cast(factor(sqrt(half * 2.0, "norm"), most), whole.dtype()));
    });
  }
  void by_global_norm(double most) {
    std::vector<GradientAndVariable> trained;
    std::ranges::copy_if(gradients_, std::back_inserter(trained),
                         [](const GradientAndVariable& g) { return !g.moved_by; });
    const Output shared = factor(global_norm(trained), most);
    for (const std::size_t i : backprop_order(gradients_)) {
      if (gradients_[i].moved_by) continue;
      Output& whole = flow(gradients_[i]);
      const auto device = graph_.on_device(whole.source().device);
      whole = mul(whole, cast(shared, whole.dtype()),
                  graph_.unique_name(gradients_[i].variable.name).substr(graph_.current_scope().size()));
    }
  }

  std::vector<GradientAndVariable> result() && { return std::move(gradients_); }

 private:
  // min(1, most / norm), or NaN: f64.
  Output factor(Output norm, double most) {
    // A power of two: the same bits as for gradients divided by it.
    if (scale_) norm = div(norm, cast(scale_->scale, DType::f64), "unscaled_norm");
    const Output one = scalar_like(norm, 1);
    const Output shorter = minimum(most / norm, one);
    const Output unknown = scalar_like(norm, std::numeric_limits<double>::quiet_NaN());
    return select(add_op("AllFinite", {norm}), shorter, unknown, "factor");
  }

  // Replaces each gradient by its own change of it, in a scope named like the variable.
  template <class Fn>
  void for_each(Fn change) {
    for (const std::size_t i : backprop_order(gradients_)) {
      if (gradients_[i].moved_by) continue;
      Output& whole = flow(gradients_[i]);
      const auto device = graph_.on_device(whole.source().device);
      const auto scope = graph_.scope(gradients_[i].variable.name);
      whole = change(whole);
    }
  }

  std::vector<GradientAndVariable> gradients_;
  const LossScale* scale_;
  Graph& graph_;
};

}  // namespace

std::string Clipping::problem() const {
  for (const auto& [limit, what] : {std::pair(value, "value"), {norm, "norm"}, {global_norm, "global norm"}})
    if (!(std::isfinite(limit) && limit >= 0))
      return fmt::format("the {} must be 0 (no clipping) or positive, not {}", what, limit);
  return "";
}

std::string Clipping::to_string() const {
  std::string out;
  for (const auto& [limit, what] : {std::pair(value, "value"), {norm, "norm"}, {global_norm, "global norm"}})
    if (limit != 0) out += fmt::format("{}{} {}", out.empty() ? "" : ", ", what, limit);
  return out.empty() ? "none" : out;
}

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

std::vector<GradientAndVariable> clip_gradients(std::span<const GradientAndVariable> gradients,
                                                const Clipping& clipping, const LossScale* scale) {
  if (const std::string problem = clipping.problem(); !problem.empty()) invalid_argument("clipping: {}", problem);
  if (clipping.value == 0 && clipping.norm == 0 && clipping.global_norm == 0)
    return {gradients.begin(), gradients.end()};
  for (const GradientAndVariable& g : gradients)
    if (!flow(g).valid()) invalid_argument("clipping: variable '{}' has no gradient", g.variable.name);
  if (gradients.empty()) invalid_argument("clipping: there are no gradients");
  Graph& graph = *flow(gradients.front()).graph;
  const auto scope = graph.scope("clip");
  Clipper clipper(gradients, scale);
  if (clipping.value > 0) clipper.by_value(clipping.value);
  if (clipping.norm > 0) clipper.by_norm(clipping.norm);
  if (clipping.global_norm > 0) clipper.by_global_norm(clipping.global_norm);
  return std::move(clipper).result();
}

}  // namespace troupe
