// The objects that functions of a SavedModel capture: variables with their values, tables, assets and constants.
#pragma once

#include <map>
#include <string>

#include <troupe/graph/formats/saved_model/node.hpp>
#include <troupe/graph/formats/saved_model/saved_model.hpp>

namespace troupe::tensorflow {
class FunctionDef;
class MetaGraphDef;
class SavedObject;
class TrackableObjectGraph;
}  // namespace troupe::tensorflow

namespace troupe {

class TfObjects {
 public:
  // All must outlive this object. Variables are added to `graph`.
  TfObjects(const tensorflow::MetaGraphDef& model, const TensorflowFiles& files, const TensorflowImportOptions& options,
            Graph& graph, std::uint64_t& repeated_bytes);

  // What the model calls object `id`. Throws unimplemented for one that functions may capture in TensorFlow but not
  // here, data_loss for one that is not there.
  TfValue value_of(int id);
  const std::vector<std::string>& variables() const { return variables_; }
  // Null if there is none of this name.
  const tensorflow::FunctionDef* function(const std::string& name) const;

 private:
  const tensorflow::SavedObject& object(int id) const;
  const std::map<std::string, std::string>& keys_of(int id);
  void find_keys();
  TfValue make(int id);
  TfValue variable_of(int id);
  TfValue table_of(int id);
  bool initialize(int id, TfResource& table);
  Tensor constant_of(const std::string& operation) const;
  std::string asset_of(int id) const;
  void read_lines(const std::string& text, const std::string& asset, const TfNode& options, TfResource& table) const;

  const tensorflow::MetaGraphDef& model_;
  const TensorflowFiles& files_;
  const TensorflowImportOptions& options_;
  Graph& graph_;
  std::uint64_t& repeated_bytes_;
  std::map<std::string, const tensorflow::FunctionDef*> functions_;
  bool has_keys_ = false;
  std::map<int, std::map<std::string, std::string>> keys_;  // of the bundle, by object and name
  std::map<int, TfValue> values_;
  std::map<std::string, Tensor> tensors_;  // of the bundle, by key: objects may share them
  std::vector<std::string> variables_;
};

}  // namespace troupe
