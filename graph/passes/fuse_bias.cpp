#include "troupe/graph/passes/fuse_bias.hpp"

#include <troupe/graph/rewrite.hpp>
#include <troupe/graph/verify.hpp>

namespace troupe {
namespace {

// The attribute "activation" for an op; "" if it is none.
std::string activation_of(const Node& node) {
  if (is_op(node, "Relu")) return "relu";
  if (is_op(node, "Sigmoid")) return "sigmoid";
  if (is_op(node, "Tanh")) return "tanh";
  return "";
}

std::optional<FusedGroup> group_of(const Graph& graph, const NodeUses& uses, const FuseOptions& options,
                                   const Node& bias_add) {
  const Node& product = graph.node(bias_add.inputs[0].node);
  const std::string fused = "Fused" + product.op->name;
  if (!(is_op(product, "MatMul") || is_op(product, "Conv2D")) || !uses.only_for(product.id, bias_add.id) ||
      !same_place(product, bias_add) || !options.supports(graph, fused, product.kernel_type()))
    return std::nullopt;
  FusedGroup out{.members = {product.id, bias_add.id},
                 .op = fused,
                 .inputs = {product.inputs[0], product.inputs[1], bias_add.inputs[1]}};
  for (const auto& [key, value] : product.attributes.all())
    if (!key.starts_with('_')) out.attributes.set(key, value);
  std::string activation = "none";
  if (const int next = uses.only_consumer(bias_add.id); next >= 0) {
    const std::string found = activation_of(graph.node(next));
    if (!found.empty() && same_place(graph.node(next), bias_add)) {
      activation = found;
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
    if (is_op(graph.node(id), "BiasAdd"))
      if (auto group = group_of(graph, uses, options, graph.node(id))) groups.push_back(std::move(*group));
  return verified("fuse_bias", graph, replace_groups(graph, groups, options.notes));
}

}  // namespace troupe
