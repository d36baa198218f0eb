// Builds a graph of the functions of a SavedModel.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <troupe/graph/formats/saved_model/functions.hpp>
#include <troupe/graph/formats/saved_model/objects.hpp>
#include <troupe/graph/formats/saved_model/version_1.hpp>

namespace troupe::tensorflow {
class SignatureDef;
}  // namespace troupe::tensorflow

namespace troupe {

inline constexpr int kMaxTensorflowDepth = 32;  // of functions that call functions
// Nodes that calls may add, since a small file must make no huge graph.
inline constexpr std::int64_t kFreeTensorflowNodes = 100'000, kTensorflowNodesPerNode = 32;

class TfImporter {
 public:
  // All must outlive this object.
  TfImporter(const tensorflow::MetaGraphDef& model, const TensorflowFiles& files,
             const TensorflowImportOptions& options);
  ~TfImporter();
  TensorflowModel run();  // once

 private:
  // "MatMul 'dense/MatMul'": how errors name a node.
  static std::string title(const tensorflow::NodeDef& node);
  static std::string function_of(const tensorflow::NodeDef& node, const char* attribute);

  const TfFunction& function(const std::string& name);
  std::vector<std::string> callees(const tensorflow::NodeDef& node) const;
  void refuse_unknown_ops(const std::vector<std::string>& roots);
  bool is_resource(const tensorflow::NodeDef& node) const { return version_1_ && TfVersion1::is_resource(node); }
  const tensorflow::NodeDef& call_of(const tensorflow::SignatureDef& signature) const;
  // The name of a signature's function.
  std::string root_of(const std::string& name, const tensorflow::SignatureDef& signature);
  TensorflowSignature add_signature_of_graph(const std::string& name, const tensorflow::SignatureDef& signature);
  TensorflowSignature add_signature(const std::string& name, const tensorflow::SignatureDef& signature);

  // control.cpp
  bool is_call(const tensorflow::NodeDef& node) const;
  // Adds the nodes of a function to `graph`; returns its results.
  TfValues call_function(const std::string& name, const TfValues& arguments, Graph& graph, int depth);
  TfValues add_node(const tensorflow::NodeDef& node, TfValues inputs, Graph& graph, int depth);
  TfValues call(const tensorflow::NodeDef& node, const TfValues& inputs, Graph& graph, int depth);
  TfValues branches(const std::vector<std::string>& functions, Output index, bool is_if, const TfValues& inputs,
                    int depth);
  TfValues while_loop(const tensorflow::NodeDef& node, const TfValues& inputs, Graph& graph, int depth);
  Output condition(const std::string& function, const TfValues& values, Graph& graph, int depth);

  const tensorflow::MetaGraphDef& model_;
  const TensorflowImportOptions& options_;
  std::unique_ptr<Graph> graph_;
  std::uint64_t repeated_bytes_;
  TfObjects objects_;
  std::unique_ptr<TfVersion1> version_1_;                                                // null: a model of version 2
  std::map<std::string, std::unique_ptr<const tensorflow::FunctionDef>> of_signatures_;  // of version 1
  std::map<std::string, std::unique_ptr<TfFunction>> functions_;
  std::int64_t nodes_of_model_ = 0, nodes_built_ = 0;
};

}  // namespace troupe
