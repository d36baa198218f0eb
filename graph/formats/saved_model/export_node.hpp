// A node of our graph, as the writer of its op in TensorFlow's ops sees it. Writers are listed in one table per family
// of ops, like the converters of the other direction (node.hpp).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <troupe/graph/formats/saved_model/export_writer.hpp>

namespace troupe {

// Adds nodes, and says which of their results are those of our node. Accessors throw unimplemented or invalid_argument,
// without naming the node: the exporter adds that.
class TfExportNode {
 public:
  TfExportNode(TfGraphWriter& writer, const Node& node) : writer_(writer), node_(node) {}

  const Node& node() const { return node_; }
  const Attributes& attributes() const { return node_.attributes; }
  TfGraphWriter& writer() const { return writer_; }

  int num_inputs() const { return static_cast<int>(node_.inputs.size()); }
  Endpoint endpoint(int input) const { return node_.inputs.at(static_cast<std::size_t>(input)); }
  DType dtype(int input) const { return writer_.graph().dtype(endpoint(input)); }
  const Shape& shape(int input) const { return writer_.graph().shape(endpoint(input)); }
  int rank(int input) const;                             // throws unimplemented if it is not known
  std::int64_t dim(int input, std::int64_t axis) const;  // likewise
  // The value of an input that is known now.
  std::optional<Tensor> known(int input) const;
  std::optional<Integers> known_integers(int input) const;
  // Throws unimplemented, with `what`, if they are not known.
  Integers integers_in(int input, std::string_view what) const;
  // An axis of input 0, counted from the beginning.
  std::int64_t axis_of(std::int64_t axis) const { return axis < 0 ? axis + rank(0) : axis; }

  TfName in(int input) const { return writer_.value(endpoint(input)); }
  TfNames all_inputs() const;

  TfName add(const std::string& op, const TfNames& inputs, const Attributes& attributes = {}) const {
    return add_many(op, inputs, attributes).at(0);
  }
  TfNames add_many(const std::string& op, const TfNames& inputs, const Attributes& attributes = {}) const {
    return writer_.add(op, inputs, attributes);
  }
  TfName constant(const Tensor& value) const { return writer_.constant(value); }
  TfName integers(const Integers& values) const;  // a vector of i64
  TfName integer(std::int64_t value) const { return constant(Tensor::scalar(value)); }
  TfName integer32(std::int32_t value) const { return constant(Tensor::scalar(value)); }
  TfName scalar_of(DType dtype, double value) const { return scalar_in(writer_, dtype, value); }
  TfName number_like(int input, double value) const { return scalar_of(dtype(input), value); }
  TfName cast(const TfName& x, DType to) const;  // x itself if it has the type
  TfName shape_of(const TfName& x) const { return add("Shape", {x}, {{"out_type", DType::i64}}); }
  // Dimensions [begin, begin + count) of x's shape: i64.
  TfName dims_of(const TfName& x, std::int64_t begin, std::int64_t count) const;
  TfName transposed(const TfName& x, const Integers& perm) const { return add("Transpose", {x, integers(perm)}); }
  TfName joined(const TfNames& vectors) const;  // i64 vectors, one after the other
  TfName reduced(const char* op, const TfName& x, const Integers& axes, bool keep) const;

  int num_outputs() const { return static_cast<int>(node_.output_types.size()); }
  const Shape& output_shape(int output = 0) const { return node_.output_shapes.at(static_cast<std::size_t>(output)); }
  DType output_dtype(int output = 0) const { return node_.output_types.at(static_cast<std::size_t>(output)); }
  bool wants(int output) const { return writer_.is_wanted({node_.id, output}); }
  void set(int output, const TfName& value) const { writer_.set({node_.id, output}, value); }
  void set(const TfName& value) const { set(0, value); }
  void set_all(const TfNames& values) const;

 private:
  TfGraphWriter& writer_;
  const Node& node_;
};

using TfWriterFn = void (*)(TfExportNode&);
struct TfExportOp {
  const char* name;
  TfWriterFn write;
};

// Of all families; null if TensorFlow has no such op.
TfWriterFn find_tensorflow_writer(std::string_view op);

// One table per file.
std::span<const TfExportOp> tensorflow_array_writers();
std::span<const TfExportOp> tensorflow_attention_writers();
std::span<const TfExportOp> tensorflow_control_writers();
std::span<const TfExportOp> tensorflow_index_writers();
std::span<const TfExportOp> tensorflow_math_writers();
std::span<const TfExportOp> tensorflow_nn_writers();
std::span<const TfExportOp> tensorflow_recurrent_writers();
std::span<const TfExportOp> tensorflow_text_writers();

}  // namespace troupe
