// A node of an ONNX model, as the converter of its op sees it. Converters are listed in one table per family of ops.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/builder/variable.hpp>
#include <troupe/graph/formats/onnx/onnx.hpp>
#include <troupe/graph/formats/onnx/onnx_view.hpp>

namespace troupe::onnx {
class Attribute;
class Graph;
class Node;
}  // namespace troupe::onnx

namespace troupe {

// Reads attributes and inputs, adds nodes to graph(), and sets the outputs. Accessors throw invalid_argument or
// unimplemented, without naming the node: the importer adds that.
class OnnxNode {
 public:
  virtual ~OnnxNode() = default;

  troupe::Graph& graph() const { return graph_; }
  std::int64_t opset() const { return opset_; }  // of the op's domain

  // Inputs. Optional ones may be absent.
  int num_inputs() const { return static_cast<int>(inputs_.outputs.size()); }
  bool has(int index) const {
    return index < num_inputs() && (inputs_.outputs[static_cast<std::size_t>(index)].valid() || inputs_.view(index));
  }
  Output in(int index) const;  // throws if it is absent
  Outputs all_inputs() const;  // throws if one is absent
  // The value of an input that is known now.
  std::optional<Tensor> known(int index) const;
  // The elements of an integer input that must be known now; throws unimplemented, with `what`.
  Integers integers_in(int index, std::string_view what) const;

  // transpose(in(index), perm), without a node where the input is a view that this undoes.
  Output transposed(int index, const Integers& perm) const;
  OnnxViewPtr view(int index) const { return inputs_.view(index); }  // null if it is none
  // What the input is a view of in that order of dimensions; invalid if it is none.
  Output viewed(int index, const Integers& perm) const;
  Output images(int index) const { return viewed(index, kOnnxToImages); }  // NHWC

  // What the model says of the shape of an output that is a tensor.
  virtual Shape declared_shape(int output) const = 0;
  // What other nodes do.
  virtual bool is_only_reader(int input) const = 0;  // of that input
  virtual bool some_reader(int output, bool (*is)(std::string_view op)) const = 0;
  virtual bool all_readers(int output, bool (*is)(std::string_view op)) const = 0;
  // Whether output 0 is read only as an output of its graph: an Identity there is a name.
  virtual bool only_names_output() const = 0;

  // Attributes, by name.
  bool has_attr(std::string_view name) const { return find(name) != nullptr; }
  std::int64_t integer(std::string_view name, std::optional<std::int64_t> otherwise = std::nullopt) const;
  double real(std::string_view name, std::optional<double> otherwise = std::nullopt) const;
  std::string string(std::string_view name, std::optional<std::string> otherwise = std::nullopt) const;
  Tensor tensor(std::string_view name) const;
  DType dtype(std::string_view name, std::optional<DType> otherwise = std::nullopt) const;
  Integers integers(std::string_view name, const std::optional<Integers>& otherwise = std::nullopt) const;
  std::vector<double> reals(std::string_view name,
                            const std::optional<std::vector<double>>& otherwise = std::nullopt) const;
  std::vector<std::string> strings(std::string_view name,
                                   const std::optional<std::vector<std::string>>& otherwise = std::nullopt) const;

  // Of an input: what the items of a list are.
  const OnnxType& type(int index) const;
  // A type attribute.
  OnnxType type_attr(std::string_view name) const;
  // The value with a name in the model; throws if there is none.
  virtual Output named(const std::string& name) = 0;

  // Adds the nodes of a graph attribute to `body`, the function of a branch or loop that is being built. They may read
  // all values around the node.
  struct Values {
    Outputs outputs{};
    std::vector<OnnxType> types{};     // of as many
    std::vector<OnnxViewPtr> views{};  // instead of outputs; may be fewer

    OnnxViewPtr view(int index) const {
      const auto at = static_cast<std::size_t>(index);
      return at < views.size() ? views[at] : nullptr;
    }
  };
  virtual Values build(std::string_view attribute, troupe::Graph& body, const Values& arguments) = 0;
  int num_arguments(std::string_view attribute) const;
  int num_results(std::string_view attribute) const;

  // Outputs. Those with an empty name in the model are not wanted.
  int num_outputs() const { return static_cast<int>(wanted_.size()); }
  bool wants(int index) const { return index < num_outputs() && wanted_[static_cast<std::size_t>(index)]; }
  void set(int index, Output value);
  void set(Output value) { set(0, value); }
  void set(int index, Output value, OnnxType type);  // a list
  // transpose(source, perm), which is made where it is read as it is.
  void set_view(int index, Output source, const Integers& perm);
  // The node that made input 0 has become this one: it gets its name.
  void take_over() { takes_over_ = true; }
  bool takes_over() const { return takes_over_; }
  void set_images(int index, Output nhwc) { set_view(index, nhwc, kOnnxToImages); }

 protected:
  OnnxNode(troupe::Graph& graph, const onnx::Node& node, std::int64_t opset, Values inputs);
  const onnx::Attribute* find(std::string_view name) const;
  const onnx::Graph& body_of(std::string_view attribute) const;

  troupe::Graph& graph_;
  const onnx::Node& node_;
  std::int64_t opset_;
  Values inputs_;
  std::vector<bool> wanted_;
  Values outputs_;
  bool takes_over_ = false;
};

using OnnxConverter = void (*)(OnnxNode&);

// Whether images go through an op with channels last.
enum class OnnxImages : std::uint8_t {
  no,
  elementwise,  // like all others: each element follows from those at its place
  itself,       // as its converter does it
};

struct OnnxOp {
  const char* name;
  OnnxConverter convert;
  OnnxImages images = OnnxImages::no;
};

// Of all families; null if the op is not known. The domain ai.onnx is "".
const OnnxOp* find_onnx_op(std::string_view domain, std::string_view name);
// Whether images go through an op of ai.onnx.
bool takes_images(std::string_view name);
std::map<std::string, std::vector<std::string>> known_onnx_ops();  // by domain; "ai.onnx"

// One table per file.
std::span<const OnnxOp> onnx_array_ops();
std::span<const OnnxOp> onnx_control_ops();
std::span<const OnnxOp> onnx_elementwise_ops();
std::span<const OnnxOp> onnx_linear_ops();
std::span<const OnnxOp> onnx_image_ops();
std::span<const OnnxOp> onnx_list_ops();
std::span<const OnnxOp> onnx_layout_ops();
std::span<const OnnxOp> onnx_conv_ops();
std::span<const OnnxOp> onnx_index_ops();
std::span<const OnnxOp> onnx_math_ops();
std::span<const OnnxOp> onnx_signal_ops();
std::span<const OnnxOp> onnx_text_ops();
std::span<const OnnxOp> onnx_nn_ops();
std::span<const OnnxOp> onnx_norm_ops();
std::span<const OnnxOp> onnx_random_ops();
std::span<const OnnxOp> onnx_reduce_ops();
std::span<const OnnxOp> onnx_softmax_ops();
std::span<const OnnxOp> onnx_recurrent_ops();
std::span<const OnnxOp> onnx_attention_ops();
std::span<const OnnxOp> onnx_ml_ops();  // of the domain ai.onnx.ml, like the next three
std::span<const OnnxOp> onnx_encoder_ops();
std::span<const OnnxOp> onnx_svm_ops();
std::span<const OnnxOp> onnx_tree_ops();
std::span<const OnnxOp> onnx_training_ops();  // of the domain ai.onnx.preview.training

}  // namespace troupe
