// ONNX models (https://onnx.ai) as graphs, and graphs as ONNX models. Opsets 6 to 17 are known in full, of later ones
// as far as the op is known; single ops of opset 1.
//
//   OnnxModel model = import_onnx("resnet50.onnx");
//   session.run({{model.inputs[0].output.name(), image}}, {model.outputs[0].output.name()});
//
// Reading trusts nothing: files that are truncated, cyclic, or claim more than they hold get an error.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <troupe/graph/builder/core.hpp>

namespace troupe {

// The type of a value of a model: of a tensor, or of the tensors in a list.
struct OnnxType {
  enum class List : std::uint8_t { sequence, optional };  // an optional value is a list of 0 or 1 items
  std::vector<List> lists{};                              // from the outside; empty: a tensor
  DType dtype = DType::invalid;                           // invalid: not known
  Shape shape = Shape::unknown_rank();
  // Of scores of classes: the labels of the columns, i64 or string [c], as a classifier or ZipMap of ai.onnx.ml says.
  Tensor classes{};

  bool is_list() const { return !lists.empty(); }
  OnnxType item() const;              // of a list
  OnnxType list_of(List list) const;  // of items of this type
};

// An input or output of a model.
struct OnnxValue {
  std::string name{};  // in the model; the graph's name of `output` may differ
  Output output{};     // an input's is a Placeholder
  OnnxType type{};
};

struct OnnxModel {
  std::unique_ptr<Graph> graph{};
  std::vector<OnnxValue> inputs{};  // without those that have an initializer
  std::vector<OnnxValue> outputs{};
  std::vector<std::string> variables{};  // made of initializers, in the model's order
  std::string producer{};                // "pytorch 2.1"
  std::int64_t opset = 0;                // of the domain ai.onnx
};

struct OnnxImportOptions {
  // What floating-point initializers become; others are constants.
  enum class Weights : std::uint8_t { constants, variables, trainable };
  Weights weights = Weights::variables;  // variables: run the target initializer(graph) first
};

// Throws data_loss (not a model, or damaged), unimplemented (lists every op, opset and type that is not known, by node)
// or invalid_argument, naming the node. External data are read from the folder of the file and below it.
OnnxModel import_onnx(const std::string& path, const OnnxImportOptions& options = {});
// The same for a model in memory. `folder` has its external data; without it they are refused.
OnnxModel parse_onnx(std::string_view bytes, const OnnxImportOptions& options = {},
                     const std::optional<std::string>& folder = std::nullopt);

// What a model says of itself; it need not be one that can be imported.
struct OnnxInfo {
  std::string producer{};
  std::int64_t ir_version = 0;
  std::map<std::string, std::int64_t> opsets{};                // by domain; "ai.onnx"
  std::vector<std::pair<std::string, std::string>> inputs{};   // without those that have an initializer; with types:
  std::vector<std::pair<std::string, std::string>> outputs{};  // "f32[?,3]", "sequence of f32[...]"
  std::map<std::string, std::int64_t> ops{};                   // nodes of each op, in all graphs and functions
  std::vector<std::string> unknown_ops{};                      // that import_onnx() would refuse
  std::int64_t functions = 0;
  std::int64_t initializers = 0;
  std::int64_t parameters = 0;       // their elements
  std::int64_t parameter_bytes = 0;  // also in other files
};
OnnxInfo onnx_info(std::string_view bytes);
std::string to_string(const OnnxType& type);
// "red, green, blue": labels of the columns of scores, of many the first ones; "" without labels.
std::string class_labels(const OnnxType& type);

// What is known of ONNX, and what of ours ONNX can express; in alphabetical order.
struct OnnxOps {
  std::map<std::string, std::vector<std::string>> read{};  // by import_onnx(): ops of each domain ("ai.onnx")
  std::vector<std::string> written{};                      // by export_onnx(): ops of our graphs
  std::vector<std::string> refused{};                      // by export_onnx()
};
OnnxOps onnx_ops();

struct OnnxExport {
  // What the model takes and returns. Any tensors may be inputs; what they are computed from is left out. An empty name
  // is that of the output in the graph; a tensor's type follows from the graph, a list's is needed.
  std::vector<OnnxValue> inputs{};
  std::vector<OnnxValue> outputs{};
  std::map<std::string, Tensor> variables{};  // the values of those that the outputs need
  std::string name = "troupe";                // of the model's graph
  std::string producer = "troupe";
  // Models with more bytes of tensors than this keep them in a second file, FILE.data.
  std::uint64_t external_above = 1ull << 30;
};

// The part of a graph that computes the outputs, as a model of opset 17 (IR version 8), or of the first later opset
// that has what it needs. Images, which are NHWC here, become NCHW: convolutions and pools that follow each other,
// elementwise ops between them, and what reduces or normalises images need one Transpose at the beginning and one at
// the end. Constants and variables become initializers with their names; filters are transposed. Attention, RMSNorm and
// GroupNorm become functions of the model, in domain ai.troupe, of ONNX's ops. Control edges, devices and gradients of
// the graph are not part of a model.
//
// Throws unimplemented (lists every node that ONNX cannot express) or invalid_argument (a placeholder that is no input,
// a variable without a value). Reading the model back gives a graph that computes the same, mostly the same graph
// (docs/guide/onnx.md).
std::string to_onnx(const Graph& graph, const OnnxExport& what);
// The same into a file; replaces it.
void export_onnx(const std::string& path, const Graph& graph, const OnnxExport& what);

// A file of ONNX's test data: a value of the type, whose shape may be another. `lists` says how to read the file.
Tensor parse_onnx_value(std::string_view bytes, const OnnxType& type = {});
std::string to_onnx_value(const Tensor& value, std::string_view name, const OnnxType& type);

}  // namespace troupe
