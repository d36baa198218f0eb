// Functions of a pipeline's elements, written with the graph builder:
//
//   const auto standardized = data::graph_function("standardize", [](data::GraphFunctionContext& c) {
//     const Output x = cast(c["image"], DType::f32) / 255.0;
//     return data::NamedResults{{"image", x - mean(x)}, {"label", c["label"]}};
//   });
//   const auto images = data::image_folder("flowers").map(standardized);
//
// The function is called once, when the stage is made; its results are the components of the new elements. CPU kernels
// compute each element on the thread that needs it. Random ops draw from the options' seed and the element's epoch and
// number: the same on every task.
//
// Layers without weights, like those of graph/layers/preprocessing.hpp, are applied with c.layers(), usually with
// GraphFunctionOptions::as_batch.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <troupe/graph/data/pipeline.hpp>
#include <troupe/graph/layers/layers.hpp>

namespace troupe::data {

using NamedResults = std::vector<std::pair<std::string, Output>>;

class GraphFunctionContext {
 public:
  Graph& graph;
  const BatchSchema& schema;  // of the elements
  const std::map<std::string, Output, std::less<>>& components;

  // Throws not_found, naming the components there are.
  Output operator[](std::string_view component) const;
  // For the application of layers. Those with weights make the function one that cannot be used.
  LayerContext layers() const { return {.graph = graph, .variables = variables}; }

  VariablePool& variables;
};

using GraphFunction = std::function<NamedResults(GraphFunctionContext&)>;

struct GraphFunctionOptions {
  std::uint64_t seed = 0;  // of random ops: give each function of a pipeline another one
  bool as_batch = false;   // components and results have a leading dimension, of one element
};

// Applying it to a pipeline throws what the function throws, and invalid_argument, naming the node, for variables,
// control flow, ops without a CPU kernel, and results that are no components.
Transformation graph_function(const std::string& name, GraphFunction function, GraphFunctionOptions options = {});

// A function of elements as a graph that was made elsewhere.
struct ElementGraph {
  std::shared_ptr<const Graph> graph{};
  Outputs components{};  // placeholders of those of an element, in the order of the schema
  NamedResults results{};
  Outputs effects{};                               // of nodes that run whether results need them or not
  std::vector<std::pair<Output, Tensor>> known{};  // placeholders whose values are the same for all elements
};

// The same of what `build` makes for elements of a schema; with options.as_batch its placeholders have a leading
// dimension.
Transformation graph_function(const std::string& name, std::function<ElementGraph(const BatchSchema&)> build,
                              GraphFunctionOptions options = {});

}  // namespace troupe::data
