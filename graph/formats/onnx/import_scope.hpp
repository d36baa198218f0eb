// The values that nodes of a model may read, by name: those of their own graph, and of the graphs around it.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <troupe/graph/builder/core.hpp>
#include <troupe/graph/formats/import.hpp>
#include <troupe/graph/formats/onnx/import_names.hpp>
#include <troupe/graph/formats/onnx/onnx.hpp>
#include <troupe/graph/formats/onnx/onnx_view.hpp>

namespace troupe::onnx {
class Node;
class ValueInfo;
}  // namespace troupe::onnx

namespace troupe {

class OnnxScope {
 public:
  struct Value {
    Output output{};
    OnnxType type{};
    OnnxViewPtr view{};  // instead of an output

    bool found() const { return output.valid() || view; }
    Output get() const { return view ? view->get() : output; }
  };
  // The nodes that read each value; null stands for an output, or for a node of a graph inside.
  using Readers = std::unordered_map<std::string, std::vector<const onnx::Node*>>;

  // `names`: of nodes, which it adds to; they begin with `prefix`.
  OnnxScope(Graph& graph, OnnxNodeNames& names, std::string prefix = {})
      : graph_(graph), names_(names), prefix_(std::move(prefix)) {}
  // Of the body of a branch or loop, which is being built (graph/builder/functions.hpp).
  OnnxScope(Graph& graph, OnnxScope& outer)
      : graph_(graph), outer_(&outer), names_(outer.names_), prefix_(outer.prefix_) {}

  Graph& graph() { return graph_; }
  OnnxNodeNames& names() { return names_; }
  const std::string& prefix() const { return prefix_; }
  void set(const std::string& name, Value value) { values_[name] = std::move(value); }
  // Becomes a node when it is first read, in the graph of its reader.
  void set_constant(const std::string& name, Tensor value) { constants_[name] = std::move(value); }
  // Without the graphs around.
  bool has(const std::string& name) const { return values_.contains(name) || constants_.contains(name); }
  // As a value of graph(). Not found if there is no such value.
  Value find(const std::string& name);

  void set_readers(Readers readers) { readers_ = std::move(readers); }
  const std::vector<const onnx::Node*>& readers(const std::string& name) const;
  // What the model says of a value; null if it says nothing.
  using Declared = std::unordered_map<std::string, const onnx::ValueInfo*>;
  void set_declared(Declared declared) { declared_ = std::move(declared); }
  const onnx::ValueInfo* declared(const std::string& name) const {
    const auto found = declared_.find(name);
    return found == declared_.end() ? nullptr : found->second;
  }

 private:
  const Tensor* find_constant(const std::string& name) const;

  Graph& graph_;
  OnnxScope* outer_ = nullptr;
  OnnxNodeNames& names_;
  std::string prefix_;
  std::unordered_map<std::string, Value> values_;
  std::unordered_map<std::string, Tensor> constants_;
  Readers readers_;
  Declared declared_;
};

}  // namespace troupe
