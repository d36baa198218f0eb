#include "troupe/graph/passes/freeze.hpp"

#include <troupe/graph/op_table.hpp>
#include <troupe/graph/rewrite.hpp>
#include <troupe/graph/verify.hpp>

namespace troupe {
namespace {

constexpr auto kReads = op_table<bool>({{"ReadVariable", true}});

}  // namespace

std::unique_ptr<Graph> freeze(const Graph& graph, const std::map<std::string, Tensor>& values) {
  Rewriter rewriter(graph);
  for (const int id : graph.topological_order()) {
    const Node& node = graph.node(id);
    if (!kReads.of(node)) {
      rewriter.copy(node);
      continue;
    }
    const std::string& name = graph.node(node.inputs[0].node).name;
    const auto value = values.find(name);
    if (value == values.end()) fail(Code::not_found, "variable '{}' has no value to freeze", name);
    const Tensor& tensor = value->second;
    if (tensor.dtype() != node.output_types[0] || !node.output_shapes[0].compatible_with(tensor.shape()))
      invalid_argument("variable '{}' is {}{}, but its value is {}{}", name, troupe::name(node.output_types[0]),
                       node.output_shapes[0].to_string(), troupe::name(tensor.dtype()), tensor.shape().to_string());
    const Node& constant = rewriter.to().add({.op = "Const",
                                              .name = node.name,
                                              .attributes = Attributes{{"T", tensor.dtype()}, {"value", tensor}},
                                              .device = node.device});
    rewriter.replace({id, 0}, {constant.id, 0});
    rewriter.replace_node(node, constant);
  }
  return verified("freeze", rewriter.finish());
}

}  // namespace troupe
