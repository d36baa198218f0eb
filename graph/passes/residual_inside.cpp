#include "troupe/graph/passes/residual_inside.hpp"

#include <optional>

#include <troupe/graph/op_table.hpp>
#include <troupe/graph/verify.hpp>

namespace troupe {
namespace {

enum class ResidualPart : std::uint8_t { none, convolution, sum, relu };
struct ResidualPiece {
  ResidualPart part = ResidualPart::none;
  std::string_view becomes;
};
constexpr auto kPieces = op_table<ResidualPiece>({
    {"FusedConv", {ResidualPart::convolution, "ResidualConv"}},
    {"Add", {ResidualPart::sum, ""}},
    {"Relu", {ResidualPart::relu, ""}},
});
ResidualPart part_of(const Node& node) { return kPieces.of(node).part; }

bool takes_residual(const Node& node) {
  return part_of(node) == ResidualPart::convolution && node.kernel_type() == DType::f32 &&
         node.attributes.has("_bias_inside") && node.attributes.string("activation") == "none" &&
         node.attributes.string("data_format") == "channels_last";
}

// Of a residual block all sizes are known but the batch's.
bool same_but_batch(const Shape& a, const Shape& b) {
  if (!a.has_rank() || a != b) return false;
  for (int axis = 1; axis < a.rank(); ++axis)
    if (a[axis] == kUnknown) return false;
  return true;
}

std::optional<FusedGroup> residual_group(const Graph& graph, const NodeUses& uses, const FuseOptions& options,
                                         const Node& sum) {
  for (const std::size_t side : {1, 0}) {  // the second addend is what a block computes, the first what it got
    const Node& conv = graph.node(sum.inputs[side].node);
    const Endpoint residual = sum.inputs[1 - side];
    const std::string becomes(kPieces.of(conv).becomes);
    if (!takes_residual(conv) || !options.supports(graph, becomes, DType::f32) || !uses.only_for(conv.id, sum.id) ||
        !same_place(conv, sum) || !same_but_batch(graph.shape(sum.inputs[side]), graph.shape(residual)))
      continue;
    FusedGroup out{.members = {conv.id, sum.id},
                   .op = becomes,
                   .attributes = conv.attributes,
                   .inputs = {conv.inputs[0], conv.inputs[1], conv.inputs[2], residual}};
    if (const int next = uses.only_consumer(sum.id);
        next >= 0 && part_of(graph.node(next)) == ResidualPart::relu && same_place(graph.node(next), sum)) {
      out.attributes.set("activation", std::string("relu"));
      out.members.push_back(next);
    }
    out.outputs = {{out.members.back(), 0}};
    return out;
  }
  return std::nullopt;
}

}  // namespace

std::unique_ptr<Graph> residual_inside(const Graph& graph, const FuseOptions& options) {
  const NodeUses uses(graph);
  std::vector<FusedGroup> groups;
  for (const int id : graph.topological_order())
    if (part_of(graph.node(id)) == ResidualPart::sum)
      if (auto group = residual_group(graph, uses, options, graph.node(id))) groups.push_back(std::move(*group));
  return verified("residual_inside", graph, replace_groups(graph, groups, options.notes));
}

}  // namespace troupe
