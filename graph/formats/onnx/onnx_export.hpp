// A node of our graph, as the writer of its op sees it. Writers are listed in one table per family of ops, like the
// converters of the other direction (onnx_node.hpp).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/graph/graph.hpp>

namespace troupe::onnx {
class Function;
class Graph;
class Node;
}  // namespace troupe::onnx

namespace troupe {

class OnnxExportNode;
class OnnxGraphWriter;
using OnnxWriter = void (*)(OnnxExportNode&);

// The name of a value in the model.
using OnnxName = std::string;
using OnnxNames = std::vector<OnnxName>;
using Integers = std::vector<std::int64_t>;

// Adds nodes to the model, and says which of their outputs are those of our node. Accessors throw unimplemented or
// invalid_argument, without naming the node: the exporter adds that.
class OnnxExportNode {
 public:
  OnnxExportNode(OnnxGraphWriter& writer, const Node& node);

  const Node& node() const { return node_; }
  const Attributes& attributes() const { return node_.attributes; }
  OnnxGraphWriter& writer() const { return writer_; }
  const Graph& graph() const;

  int num_inputs() const { return static_cast<int>(node_.inputs.size()); }
  Endpoint endpoint(int input) const { return node_.inputs.at(static_cast<std::size_t>(input)); }
  DType dtype(int input) const { return graph().dtype(endpoint(input)); }
  const Shape& shape(int input) const { return graph().shape(endpoint(input)); }
  std::int64_t rank(int input) const;  // throws unimplemented if it is not known
  // The value of an input that is known now: of a constant, or computed from constants and known dimensions.
  std::optional<Tensor> known(int input) const;
  // Its integers; throws unimplemented, with `what`, if they are not known.
  Integers known_integers(int input, std::string_view what) const;
  // The same for a constant, or a variable.
  std::optional<Tensor> weights(int input) const;

  OnnxName in(int input) const;
  OnnxNames all_inputs() const;

  // ---- Images. A value of rank 4 may exist as NHWC, as NCHW, or both; what is missing is made by a Transpose.
  OnnxName images(int input) const;  // NCHW
  // Constants and variables in another order of dimensions; others by a Transpose.
  OnnxName transposed(int input, const Integers& perm) const;
  bool has_images(int input) const;  // exists as NCHW only
  bool any_images() const;           // an input does
  // An operand of images: of rank 4, or one for each channel, or a single number. None if it cannot be one.
  std::optional<OnnxName> image_operand(int input) const;
  static std::int64_t images_axis(std::int64_t axis);  // of NHWC, in NCHW

  // ---- Nodes and constants
  OnnxName add(std::string op, OnnxNames inputs, const Attributes& attributes = {}) const;
  // With `outputs` outputs. The node is valid until the next one is added.
  OnnxNames add_many(std::string op, OnnxNames inputs, int outputs, const Attributes& attributes = {},
                     onnx::Node** made = nullptr) const;
  // Along these axes, which stay with size 1 or vanish; along all if there are none.
  OnnxName add_reduction(const std::string& op, const OnnxName& x, const Integers& axes, bool keep = true) const;
  OnnxName constant(const Tensor& value) const;
  OnnxName integers(const Integers& values) const;  // a vector
  OnnxName integer(std::int64_t value) const;       // a scalar
  OnnxName scalar_of(DType dtype, double value) const;
  OnnxName number_like(int input, double value) const { return scalar_of(dtype(input), value); }

  // ---- Results
  int num_outputs() const { return static_cast<int>(node_.output_types.size()); }
  const Shape& output_shape(int output = 0) const { return node_.output_shapes.at(static_cast<std::size_t>(output)); }
  DType output_dtype(int output = 0) const { return node_.output_types.at(static_cast<std::size_t>(output)); }
  bool wants(int output) const;  // whether something reads it
  void set(int output, const OnnxName& value) const;
  void set(const OnnxName& value) const { set(0, value); }
  void set_images(int output, const OnnxName& value) const;
  // The writer of the only node that reads output 0 writes this node too.
  void defer() const;
  // By a call of a function of our domain, whose body is what `compose` writes: for ops that ONNX does not have.
  void set_by_function(OnnxWriter compose) const;

  std::int64_t opset() const;
  // The node needs at least this opset. If it is later than the model's, the model is written again.
  void need_opset(std::int64_t version) const;

 private:
  OnnxGraphWriter& writer_;
  const Node& node_;
};

struct OnnxExportOp {
  const char* name;
  OnnxWriter write;
};

// Whether an attribute of an op is deduced from its inputs.
bool follows_from_inputs(const OpDef& op, std::string_view attribute);

// Of all families; null if ONNX has no such op.
OnnxWriter find_onnx_writer(std::string_view op);

// One table per file.
std::span<const OnnxExportOp> onnx_array_writers();
std::span<const OnnxExportOp> onnx_attention_writers();
std::span<const OnnxExportOp> onnx_control_writers();
std::span<const OnnxExportOp> onnx_gradient_writers();
std::span<const OnnxExportOp> onnx_index_writers();
std::span<const OnnxExportOp> onnx_image_writers();
std::span<const OnnxExportOp> onnx_math_writers();
std::span<const OnnxExportOp> onnx_nn_writers();
std::span<const OnnxExportOp> onnx_recurrent_writers();
std::span<const OnnxExportOp> onnx_text_writers();

}  // namespace troupe
