// Models of version 1: a graph without functions and objects. Signatures name nodes; variables and tables are nodes,
// which others restore and fill.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <troupe/graph/formats/saved_model/node.hpp>
#include <troupe/graph/formats/saved_model/saved_model.hpp>

namespace troupe::tensorflow {
class FunctionDef;
class MetaGraphDef;
class SignatureDef;
}  // namespace troupe::tensorflow

namespace troupe {

class TfVersion1 {
 public:
  // All must outlive this object. Variables are added to `graph`.
  TfVersion1(const tensorflow::MetaGraphDef& model, const TensorflowFiles& files,
             const TensorflowImportOptions& options, Graph& graph, std::uint64_t& repeated_bytes);

  // The nodes that a signature's outputs need, as a function of its inputs, in the order of their keys. Throws
  // data_loss for nodes that are not there.
  tensorflow::FunctionDef function_of(const tensorflow::SignatureDef& signature) const;

  static bool is_resource(const tensorflow::NodeDef& node);
  // Of such a node. Throws data_loss or unimplemented for a variable or table without known values.
  TfValue value_of(const tensorflow::NodeDef& node);
  const std::vector<std::string>& variables() const { return variables_; }

 private:
  const tensorflow::NodeDef* find(std::string_view node) const;
  const tensorflow::NodeDef* source_of(std::string_view input) const;  // behind Identity nodes
  Tensor constant_at(std::string_view input, const char* what) const;
  void find_restored();
  TfValue variable_of(const tensorflow::NodeDef& node);
  TfValue table_of(const tensorflow::NodeDef& node) const;

  const tensorflow::MetaGraphDef& model_;
  const TensorflowFiles& files_;
  const TensorflowImportOptions& options_;
  Graph& graph_;
  std::uint64_t& repeated_bytes_;
  std::map<std::string_view, const tensorflow::NodeDef*> nodes_;
  std::map<std::string_view, const tensorflow::NodeDef*> filled_;  // by table: what fills it
  std::map<std::string, std::string> keys_;                        // by variable: of the bundle
  std::map<std::string, bool> trainable_;
  std::map<std::string, TfValue> values_;
  std::vector<std::string> variables_;
};

}  // namespace troupe
