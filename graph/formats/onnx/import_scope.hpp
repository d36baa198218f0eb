// The values that nodes of a model may read, by name: those of their own graph, and of the graphs around it.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>

#include <troupe/graph/builder/core.hpp>
#include <troupe/graph/formats/onnx/onnx.hpp>

namespace troupe {

// The name with characters that names of nodes may have.
std::string node_name(std::string_view name);

class OnnxScope {
 public:
  struct Value {
    Output output{};
    OnnxType type{};
  };

  explicit OnnxScope(Graph& graph) : graph_(graph) {}
  // Of the body of a branch or loop, which is being built (graph/builder/functions.hpp).
  OnnxScope(Graph& graph, OnnxScope& outer) : graph_(graph), outer_(&outer) {}

  Graph& graph() { return graph_; }
  void set(const std::string& name, Value value) { values_[name] = std::move(value); }
  // Becomes a node when it is first read, in the graph of its reader.
  void set_constant(const std::string& name, Tensor value) { constants_[name] = std::move(value); }
  // Without the graphs around.
  bool has(const std::string& name) const { return values_.contains(name) || constants_.contains(name); }
  // As a tensor of graph(). Without an output if there is no such value.
  Value find(const std::string& name);

 private:
  const Tensor* find_constant(const std::string& name) const;

  Graph& graph_;
  OnnxScope* outer_ = nullptr;
  std::unordered_map<std::string, Value> values_;
  std::unordered_map<std::string, Tensor> constants_;
};

}  // namespace troupe
