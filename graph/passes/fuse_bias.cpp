#include "troupe/graph/passes/fuse_bias.hpp"

#include <troupe/graph/op_table.hpp>
#include <troupe/graph/rewrite.hpp>
#include <troupe/graph/verify.hpp>

namespace troupe {
namespace {

// A product, a bias and, optionally, an activation.
enum class BiasPart : std::uint8_t { none, product, bias, activation };
struct BiasPiece {
  BiasPart part = BiasPart::none;
  std::string_view becomes;  // the fused op; the attribute "activation"
};
constexpr auto kBiasPieces = op_table<BiasPiece>({
    {"MatMul", {BiasPart::product, "FusedMatMul"}},
    {"Conv", {BiasPart::product, "FusedConv"}},
    {"BiasAdd", {BiasPart::bias, ""}},
    {"Relu", {BiasPart::activation, "relu"}},
    {"Sigmoid", {BiasPart::activation, "sigmoid"}},
    {"Tanh", {BiasPart::activation, "tanh"}},
});

// Where channels are; only convolutions and biases have a choice.
std::string format_of(const Node& node) {
  return node.attributes.has("data_format") ? node.attributes.string("data_format") : "channels_last";
}

std::optional<FusedGroup> group_of(const Graph& graph, const NodeUses& uses, const FuseOptions& options,
                                   const Node& bias_add) {
  const Node& product = graph.node(bias_add.inputs[0].node);
  const BiasPiece first = kBiasPieces.of(product);
  const std::string fused(first.becomes);
  // The bias of a product with a vector lies along a's rows.
  if (first.part == BiasPart::product && graph.shape(product.inputs[1]).rank() < 2) return std::nullopt;
  if (first.part != BiasPart::product || !uses.only_for(product.id, bias_add.id) || !same_place(product, bias_add) ||
      format_of(product) != format_of(bias_add) || !options.supports(graph, fused, product.kernel_type()))
    return std::nullopt;
  FusedGroup out{.members = {product.id, bias_add.id},
                 .op = fused,
                 .inputs = {product.inputs[0], product.inputs[1], bias_add.inputs[1]}};
  for (const auto& [key, value] : product.attributes.all())
    if (!key.starts_with('_')) out.attributes.set(key, value);
  std::string activation = "none";
  if (const int next = uses.only_consumer(bias_add.id); next >= 0) {
    const BiasPiece last = kBiasPieces.of(graph.node(next));
    if (last.part == BiasPart::activation && same_place(graph.node(next), bias_add)) {
      activation = last.becomes;
      out.members.push_back(next);
    }
  }
  out.attributes.set("activation", activation);
  out.outputs = {{out.members.back(), 0}};
  return out;
}

}  // namespace

std::unique_ptr<Graph> fuse_bias(const Graph& graph, const FuseOptions& options) {
  const NodeUses uses(graph);
  std::vector<FusedGroup> groups;
  for (int id = 0; id < graph.size(); ++id)
    if (kBiasPieces.of(graph.node(id)).part == BiasPart::bias)
      if (auto group = group_of(graph, uses, options, graph.node(id))) groups.push_back(std::move(*group));
  return verified("fuse_bias", graph, replace_groups(graph, groups, options.notes));
}

}  // namespace troupe
