// Writes one graph of a model: the graph itself, or the body of a branch or loop.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include <troupe/graph/formats/onnx/onnx.hpp>
#include <troupe/graph/formats/onnx/onnx_export.hpp>

namespace troupe {

inline constexpr std::int64_t kOnnxOpset = 17;  // of models without ops of later ones

// What the graphs of one model share.
struct OnnxExportState {
  const OnnxExport& what;
  std::int64_t opset = kOnnxOpset;                             // of the model
  std::int64_t needed_opset = kOnnxOpset;                      // if it is later, the model is written again
  std::set<std::string> names{};                               // of all values
  std::map<std::string, int> suffixes{};                       // of names, those that were made last
  std::set<std::string> nodes{};                               // names of all nodes
  std::set<std::string> reserved{};                            // for outputs of the model
  std::vector<std::pair<std::string, Tensor>> initializers{};  // of the model's graph
  std::map<std::string, std::string> variables{};              // their initializers
  std::map<std::string, std::string> constants{};              // by their bytes' address
  std::map<std::string, std::string> transposed{};             // of other initializers
  std::map<std::string, std::vector<std::pair<std::string, std::string>>> unsupported{};  // by op: nodes and reasons
  // Functions of our domain, in the order of their first calls.
  std::vector<std::string> functions{};                 // serialised
  std::map<std::string, std::string> function_names{};  // by what they are but for the name
  std::map<std::string, int> functions_of{};            // an op: how many

  std::string unique_name(const std::string& wanted);
  std::string function_name(const std::string& op, onnx::Function&& function);
};

class OnnxGraphWriter {
 public:
  // `outer`: null for the model's graph. Bodies have a name already, which that of their own nodes begins with.
  OnnxGraphWriter(OnnxExportState& state, const Graph& graph, onnx::Graph& out, OnnxGraphWriter* outer = nullptr);

  const Graph& graph() const { return graph_; }
  OnnxExportState& state() { return state_; }
  onnx::Graph& out() { return out_; }

  // The value has that name already.
  void bind(Endpoint e, const OnnxName& name, OnnxType type) {
    values_[e] = {.plain = name};
    types_[e] = std::move(type);
    bound_.insert(e);
  }
  // An argument of a body that is a value of the graph around it.
  void bind_outer(Endpoint e, Endpoint around) { around_[e] = around; }
  // Writes what the outputs need, except for what is bound. Nodes that cannot be written are noted in the state.
  void write(const std::vector<Endpoint>& outputs);

  OnnxName plain(Endpoint e);
  OnnxName images(Endpoint e);
  OnnxName transposed(Endpoint e, const Integers& perm);
  // A list whose items are also the rows of one tensor: what a loop collects. "" for others.
  void set_stacked(Endpoint e, const OnnxName& rows) { values_[e].stacked = rows; }
  OnnxName stacked(Endpoint e);
  // The type of a value. The dtype of an empty list is found where the list is used.
  OnnxType type(Endpoint e);
  bool has_images(Endpoint e);
  bool is_wanted(Endpoint e) const { return wanted_.contains(e); }
  // An input of the model, or an argument of a body.
  bool is_given(Endpoint e) const { return bound_.contains(e) || around_.contains(e); }
  // The writer of the only node that reads output 0 writes this node too.
  void set_deferred(const Node& node) { values_[{node.id, 0}]; }
  // The nodes that are written and read a value; null stands for an output of the graph. Each once for each input.
  std::vector<const Node*> readers(Endpoint e) const;
  // Value `name`, as NHWC or NCHW, is output `e` of the node that is being written.
  void set(Endpoint e, const OnnxName& name, bool images);
  // One node of the model has the name of ours.
  void name_node(const Node& node, onnx::Node& written);
  // Of the op that is being written.
  OnnxNames add(std::string op, OnnxNames inputs, int outputs, const Attributes& attributes, onnx::Node** made);
  OnnxName constant(const Tensor& value, const std::string& name);
  OnnxName own_constant(const Tensor& value) { return constant(value, prefix_ + "/const"); }
  // A call of a function whose body is what `compose` writes.
  void write_function(const Node& node, OnnxWriter compose);
  // The value of a constant or variable, also of a graph around.
  std::optional<Tensor> weights(Endpoint e) const;
  // Names that outputs of the model's graph will have.
  void name_outputs(std::map<Endpoint, std::string> names) { output_names_ = std::move(names); }

 private:
  struct Value {
    OnnxName plain{};
    OnnxName images{};
    OnnxName stacked{};
  };
  OnnxName final_name(Endpoint e, bool images);
  OnnxType list_type(Endpoint e);
  OnnxType type_in_use(Endpoint list);
  std::string weights_name(Endpoint e) const;
  OnnxName add_transpose(const OnnxName& from, const std::vector<std::int64_t>& perm, const std::string& name);
  OnnxName initializer(Endpoint e);  // "" if the value is no constant and no variable
  void find_wanted(const std::vector<Endpoint>& outputs);
  void write_node(const Node& node);

  OnnxExportState& state_;
  const Graph& graph_;
  onnx::Graph& out_;
  OnnxGraphWriter* outer_;
  std::map<Endpoint, Value> values_{};
  std::map<Endpoint, OnnxType> types_{};
  std::map<Endpoint, Endpoint> around_{};
  std::map<Endpoint, std::string> output_names_{};
  std::set<Endpoint> bound_{};
  std::set<Endpoint> wanted_{};
  std::map<Endpoint, std::vector<int>> readers_{};  // -1: an output
  // Of the op that is being written.
  std::string prefix_{};            // of names of its values
  int first_ = 0;                   // node
  std::set<OnnxName> made_here_{};  // values
};

}  // namespace troupe
