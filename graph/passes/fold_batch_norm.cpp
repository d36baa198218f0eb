#include "troupe/graph/passes/fold_batch_norm.hpp"

#include <algorithm>
#include <optional>

#include <troupe/graph/op_table.hpp>
#include <troupe/graph/rewrite.hpp>
#include <troupe/graph/verify.hpp>

namespace troupe {
namespace {

enum class NormPart : std::uint8_t { none, conv, bias, norm };
constexpr auto kNormParts = op_table<NormPart>({
    {"Conv", NormPart::conv},
    {"BiasAdd", NormPart::bias},
    {"BatchNormInference", NormPart::norm},
});

bool is_constant(const Graph& graph, Endpoint e) {
  const Node& node = graph.node(e.node);
  return node.op->role == OpRole::constant && node.controls.empty();
}

bool channels_last(const Node& node) {
  return !node.attributes.has("data_format") || node.attributes.string("data_format") == "channels_last";
}

// A normalisation and what it can be folded into.
struct Normalised {
  const Node* conv = nullptr;
  const Node* bias_add = nullptr;  // between the two
  const Node* norm = nullptr;
};

std::optional<Normalised> normalised(const Graph& graph, const NodeUses& uses, const Node& norm,
                                     std::size_t max_bytes) {
  const auto inner = [&](const Node& node, const Node& consumer) {
    return uses.only_for(node.id, consumer.id) && same_place(node, consumer) && node.controls.empty() &&
           channels_last(node);
  };
  if (kNormParts.of(norm) != NormPart::norm || !norm.controls.empty()) return std::nullopt;
  Normalised out{.norm = &norm};
  const Node* before = &graph.node(norm.inputs[0].node);
  if (kNormParts.of(*before) == NormPart::bias) {
    if (!inner(*before, norm) || !is_constant(graph, before->inputs[1])) return std::nullopt;
    out.bias_add = before;
    before = &graph.node(before->inputs[0].node);
  }
  if (kNormParts.of(*before) != NormPart::conv || !inner(*before, out.bias_add ? *out.bias_add : norm) ||
      !is_constant(graph, before->inputs[1]) ||
      !std::ranges::all_of(std::span(norm.inputs).subspan(1), [&](Endpoint e) { return is_constant(graph, e); }))
    return std::nullopt;
  out.conv = before;
  // Statistics are wider than narrow images.
  const Endpoint filter = before->inputs[1];
  if (graph.dtype(filter) != graph.dtype(norm.inputs[1]) ||
      checked_bytes(graph.dtype(filter), graph.shape(filter)) > max_bytes)
    return std::nullopt;
  return out;
}

void fold(Rewriter& rewriter, const Normalised& n) {
  const auto input = [&](std::size_t i) { return rewriter.output(n.norm->inputs[i]); };
  // Nodes between constants are for fold_constants.
  const auto made = [&](NodeSpec spec) {
    spec.attributes.set("T", spec.inputs[0].dtype());
    return rewriter.add_like(*n.norm, std::move(spec));
  };
  const double least = n.norm->attributes.real("epsilon");
  const Tensor small =
      input(4).dtype() == DType::f64 ? Tensor::scalar(least) : Tensor::scalar(static_cast<float>(least));
  const Output epsilon =
      rewriter.add_like(*n.norm, {.op = "Const", .attributes = {{"T", small.dtype()}, {"value", small}}});
  const Output deviation = made({.op = "Rsqrt", .inputs = {made({.op = "Add", .inputs = {input(4), epsilon}})}});
  const Output factor = made({.op = "Mul", .inputs = {input(1), deviation}});
  const Output filter = made({.op = "Mul", .inputs = {rewriter.output(n.conv->inputs[1]), factor}});
  const Output shift = n.bias_add ? made({.op = "Sub", .inputs = {rewriter.output(n.bias_add->inputs[1]), input(3)}})
                                  : made({.op = "Neg", .inputs = {input(3)}});
  const Output scaled = made({.op = "Mul", .inputs = {shift, factor}});
  const Output bias = made({.op = "Add", .inputs = {scaled, input(2)}});
  Output y = rewriter.add_like(
      *n.conv,
      {.op = "Conv", .inputs = {rewriter.output(n.conv->inputs[0]), filter}, .attributes = n.conv->attributes});
  y = made({.op = "BiasAdd", .inputs = {y, bias}});
  if (n.norm->attributes.string("activation") == "relu") y = made({.op = "Relu", .inputs = {y}});
  rewriter.replace({n.norm->id, 0}, {y.node, y.index});
  rewriter.replace_node(*n.norm, rewriter.to().node(y.node));
}

}  // namespace

std::unique_ptr<Graph> fold_batch_norm(const Graph& graph, std::size_t max_bytes, PassNotes& notes) {
  const NodeUses uses(graph);
  Rewriter rewriter(graph);
  for (const int id : graph.topological_order()) {
    const Node& node = graph.node(id);
    const auto found = normalised(graph, uses, node, max_bytes);
    if (!found) {
      rewriter.copy(node);
      continue;
    }
    fold(rewriter, *found);
    notes.push_back(fmt::format("folded BatchNormInference '{}' into Conv '{}'", node.name, found->conv->name));
  }
  return verified("fold_batch_norm", graph, rewriter.finish());
}

}  // namespace troupe
