#include "troupe/graph/passes/bias_inside.hpp"

#include <troupe/graph/op_table.hpp>
#include <troupe/graph/rewrite.hpp>
#include <troupe/graph/verify.hpp>

namespace troupe {
namespace {

constexpr auto kTakesBiasInside = op_table<bool>({{"FusedConv", true}, {"FusedMatMul", true}, {"MatMul", true}});

}  // namespace

std::unique_ptr<Graph> bias_inside(const Graph& graph, PassNotes& notes) {
  Rewriter rewriter(graph);
  int marked = 0;
  for (const int id : graph.topological_order()) {
    const Node& node = graph.node(id);
    if (!kTakesBiasInside.of(node) || node.kernel_type() != DType::f32) {
      rewriter.copy(node);
      continue;
    }
    Node changed = node;
    changed.attributes.set("_bias_inside", true);
    rewriter.copy(changed, rewriter.mapped(node.inputs), rewriter.mapped_controls(node));
    ++marked;
  }
  if (marked > 0)
    notes.push_back(fmt::format("{} products and convolutions add their bias where sums are made", marked));
  return verified("bias_inside", graph, rewriter.finish());
}

}  // namespace troupe
