#include "troupe/scheduler/plan/cost.hpp"

#include <algorithm>

namespace troupe {
namespace {

constexpr double kCallNs = 50;         // to run any kernel
constexpr double kProductsPerNs = 40;  // multiply-adds of a matrix product
constexpr double kBytesPerNs = 8;      // of elementwise work
constexpr double kUnknownDim = 32;

double elements(const Shape& shape) {
  if (!shape.has_rank()) return kUnknownDim * kUnknownDim;
  double count = 1;
  for (std::int64_t dim : shape.dims()) count *= dim == kUnknown ? kUnknownDim : static_cast<double>(dim);
  return count;
}

double dim(const Shape& shape, int i) {
  if (!shape.has_rank() || i >= shape.rank() || shape[i] == kUnknown) return kUnknownDim;
  return static_cast<double>(shape[i]);
}

double bytes(const Graph& graph, const Node& node) {
  double sum = 0;
  for (const Endpoint& e : node.inputs)
    if (graph.dtype(e) != DType::resource)
      sum += elements(graph.shape(e)) * static_cast<double>(size_of(graph.dtype(e)));
  for (std::size_t i = 0; i < node.output_types.size(); ++i)
    sum += elements(node.output_shapes[i]) * static_cast<double>(size_of(node.output_types[i]));
  return sum;
}

// Multiply-adds of the ops that are products; 0 for others.
double products(const Graph& graph, const Node& node) {
  const std::string& op = node.op->name;
  if (op == "MatMul" || op == "FusedMatMul") {
    const bool transposed = node.attributes.has("transpose_a") && node.attributes.boolean("transpose_a");
    return elements(node.output_shapes[0]) * dim(graph.shape(node.inputs[0]), transposed ? 0 : 1);
  }
  // Inputs: (x, filter), or (x, filter, dy) of the gradients. Each element of the result meets a whole patch.
  const bool forward = op == "Conv2D" || op == "FusedConv2D";
  if (!forward && op != "Conv2DBackpropInput" && op != "Conv2DBackpropFilter") return 0;
  const Shape& filter = graph.shape(node.inputs[1]);
  return elements(forward ? node.output_shapes[0] : graph.shape(node.inputs[2])) * dim(filter, 0) * dim(filter, 1) *
         dim(filter, 2);
}

}  // namespace

double estimated_cost_ns(const Graph& graph, const Node& node) {
  if (node.attributes.has(kCostAttribute)) return static_cast<double>(node.attributes.integer(kCostAttribute));
  return kCallNs + products(graph, node) / kProductsPerNs + bytes(graph, node) / kBytesPerNs;
}

}  // namespace troupe
