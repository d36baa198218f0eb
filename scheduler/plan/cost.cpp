#include "troupe/scheduler/plan/cost.hpp"

#include <algorithm>

#include <troupe/graph/op_table.hpp>

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

enum class Product : std::uint8_t { none, matrices, convolution, convolution_gradient, transposed_convolution };
constexpr auto kProducts = op_table<Product>({
    {"MatMul", Product::matrices},
    {"FusedMatMul", Product::matrices},
    {"GeluMatMul", Product::matrices},
    {"Conv", Product::convolution},
    {"FusedConv", Product::convolution},
    {"ResidualConv", Product::convolution},
    {"QuantizedConv", Product::convolution},
    {"QuantizedMatMul", Product::matrices},
    {"DynamicQuantizedMatMul", Product::matrices},
    {"ConvBackpropInput", Product::convolution_gradient},
    {"ConvBackpropFilter", Product::convolution_gradient},
    {"ConvTranspose", Product::transposed_convolution},
});

// Each element of the result needs a whole patch: the filter without its output channels.
double of_convolution(const Node& node, const Shape& result, const Shape& filter) {
  const bool channels_first =
      node.attributes.has("data_format") && node.attributes.string("data_format") == "channels_first";
  const int last = filter.has_rank() ? filter.rank() - 1 : 0;
  return elements(result) * elements(filter) / std::max(1.0, dim(filter, channels_first ? 0 : last));
}

}  // namespace

double multiply_adds(const Graph& graph, const Node& node) {
  switch (kProducts.of(node)) {
    case Product::none:
      return 0;
    case Product::matrices: {
      const bool transposed = node.attributes.has("transpose_a") && node.attributes.boolean("transpose_a");
      const Shape& a = graph.shape(node.inputs[0]);
      return elements(node.output_shapes[0]) * dim(a, a.rank() - (transposed ? 2 : 1));
    }
    case Product::convolution:  // of (x, filter)
      return of_convolution(node, node.output_shapes[0], graph.shape(node.inputs[1]));
    case Product::convolution_gradient:  // of (x, filter, dy)
      return of_convolution(node, graph.shape(node.inputs[2]), graph.shape(node.inputs[1]));
    case Product::transposed_convolution:  // of (x, filter), where x is the result
      return of_convolution(node, graph.shape(node.inputs[0]), graph.shape(node.inputs[1]));
  }
  return 0;
}

double estimated_cost_ns(const Graph& graph, const Node& node) {
  if (node.attributes.has(kCostAttribute)) return static_cast<double>(node.attributes.integer(kCostAttribute));
  return kCallNs + multiply_adds(graph, node) / kProductsPerNs + bytes(graph, node) / kBytesPerNs;
}

}  // namespace troupe
