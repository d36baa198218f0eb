#include "troupe/graph/passes/fold.hpp"

#include <algorithm>

#include <troupe/graph/verify.hpp>

namespace troupe {
namespace {

bool over(const std::vector<DType>& types, const std::vector<Shape>& shapes, std::size_t max_bytes) {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (!shapes[i].fully_known()) continue;
    bytes += checked_bytes(types[i], shapes[i]);
    if (bytes > max_bytes) return true;
  }
  return false;
}

// The values of the node's inputs; nullopt unless all are constants.
std::optional<std::vector<Tensor>> constant_inputs(Rewriter& rewriter, const Node& node) {
  std::vector<Tensor> values;
  for (const Endpoint& e : node.inputs) {
    const Node& source = rewriter.to().node(rewriter.mapped(e).node);
    if (source.op->role != OpRole::constant || !source.controls.empty()) return std::nullopt;
    values.push_back(source.attributes.tensor("value"));
  }
  return values;
}

void check_results(const Node& node, const std::vector<Tensor>& results) {
  bool fits = results.size() == node.output_types.size();
  for (std::size_t i = 0; fits && i < results.size(); ++i)
    fits = results[i].dtype() == node.output_types[i] && results[i].shape().compatible_with(node.output_shapes[i]);
  if (!fits)
    fail(Code::internal,
         "{} '{}': the evaluator of constants returned {} results, which do not match the dtypes and shapes of its {}",
         node.op->name, node.name, results.size(), node.output_types.size());
}

// Returns none to leave the node as it is.
std::vector<Tensor> evaluate_node(Rewriter& rewriter, const Node& node, const Evaluator& evaluate,
                                  std::size_t max_bytes) {
  if (!node.op->is_pure() || !node.controls.empty() || !std::ranges::all_of(node.output_types, is_data)) return {};
  const auto inputs = constant_inputs(rewriter, node);
  std::vector<Tensor> results;
  try {
    if (!inputs || over(node.output_types, node.output_shapes, max_bytes)) return {};
    results = evaluate(node, *inputs);
  } catch (const Error&) {
    return {};
  }
  if (results.empty()) return {};
  check_results(node, results);
  std::size_t bytes = 0;
  for (const Tensor& t : results) bytes += t.num_bytes();
  return bytes > max_bytes ? std::vector<Tensor>{} : results;
}

void add_constants(Rewriter& rewriter, const Node& node, std::vector<Tensor> results) {
  for (std::size_t i = 0; i < results.size(); ++i) {
    const DType dtype = results[i].dtype();
    Attributes attributes{{"T", dtype}, {"value", std::move(results[i])}};
    for (const auto& [key, value] : node.attributes.all())
      if (key.starts_with('_')) attributes.set(key, value);
    const std::string name =
        results.size() == 1 ? node.name : rewriter.new_name(fmt::format("{}/folded_{}", node.name, i));
    const Node& constant = rewriter.to().add({.op = "Const",
                                              .name = name,
                                              .attributes = std::move(attributes),
                                              .device = node.device,
                                              .colocate_with = node.colocate_with});
    rewriter.replace({node.id, static_cast<int>(i)}, {constant.id, 0});
    rewriter.replace_node(node, constant);
  }
}

}  // namespace

bool fold_node(Rewriter& rewriter, const Node& node, const Evaluator& evaluate, std::size_t max_bytes) {
  auto results = evaluate_node(rewriter, node, evaluate, max_bytes);
  if (results.empty()) return false;
  add_constants(rewriter, node, std::move(results));
  return true;
}

std::unique_ptr<Graph> fold_constants(const Graph& graph, const Evaluator& evaluate, std::size_t max_bytes) {
  Rewriter rewriter(graph);
  for (int id : graph.topological_order()) {
    const Node& node = graph.node(id);
    if (!fold_node(rewriter, node, evaluate, max_bytes)) rewriter.copy(node);
  }
  return verified("fold_constants", graph, rewriter.finish());
}

}  // namespace troupe
