// A node of a function of a SavedModel, as the converter of its op sees it. Converters are listed in one table per
// family of ops.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/graph/builder/builder.hpp>

namespace troupe::tensorflow {
class AttrValue;
class NodeDef;
}  // namespace troupe::tensorflow

namespace troupe {

// Stands for a resource of TensorFlow: a variable, read where a node of the model reads it, or a table, whose keys and
// values are constants.
struct TfResource {
  std::string name{};
  std::function<Output()> read{};  // of a variable; of a table: null
  Tensor keys{}, values{};         // of a table
};

// A TensorList, in the two ways in which models of Keras use them.
struct TfList {
  Output stacked{};  // of TensorListFromTensor, and of a loop that has set all items: [n,...]
  std::int64_t count = kUnknown;
  Output size{};           // of TensorListReserve: the count
  bool reserved = false;   // of TensorListReserve: nothing is set
  bool last_only = false;  // one item, which each iteration sets: the last of `stacked`
  // TensorListSetItem in a loop: item `index` becomes `item`.
  std::shared_ptr<TfList> before{};
  Output index{}, item{};
};

// A value that nodes read: one of these.
struct TfValue {
  Output output{};
  std::shared_ptr<const TfResource> resource{};
  std::shared_ptr<TfList> list{};

  bool found() const { return output.valid() || resource || list; }
};
using TfValues = std::vector<TfValue>;

// Reads attributes and inputs, adds nodes to graph(), and sets the outputs. Accessors throw data_loss,
// invalid_argument or unimplemented, without naming the node: the importer adds that.
class TfNode {
 public:
  // `repeated_bytes`: see from_tensorflow_tensor().
  TfNode(Graph& graph, const tensorflow::NodeDef& node, TfValues inputs, std::uint64_t& repeated_bytes)
      : graph_(graph), node_(node), inputs_(std::move(inputs)), repeated_bytes_(repeated_bytes) {}

  Graph& graph() const { return graph_; }

  int num_inputs() const { return static_cast<int>(inputs_.size()); }
  Output in(int index) const;  // a tensor, of graph()
  Outputs in(int begin, int end) const;
  const TfValue& value(int index) const;
  const TfResource& resource(int index) const;
  TfList& list(int index) const;
  // The value of an input that is known now.
  std::optional<Tensor> known(int index) const;
  // The elements of an integer input that must be known now; throws unimplemented, with `what`.
  Integers integers_in(int index, std::string_view what) const;
  std::int64_t integer_in(int index, std::string_view what) const;
  // An integer input as i64: numbers, if they are known.
  IntegersArg index_in(int index) const;

  // Attributes, by name. One that is its op's default may be absent.
  bool has_attr(std::string_view name) const { return find(name) != nullptr; }
  std::int64_t integer(std::string_view name, std::optional<std::int64_t> otherwise = std::nullopt) const;
  double real(std::string_view name, double otherwise) const;
  bool boolean(std::string_view name, bool otherwise) const;
  std::string string(std::string_view name, const std::string& otherwise) const;
  DType dtype(std::string_view name, std::optional<DType> otherwise = std::nullopt) const;
  Integers integers(std::string_view name) const;  // absent: empty
  std::vector<std::string> strings(std::string_view name) const;
  Tensor tensor(std::string_view name) const;
  Shape shape(std::string_view name) const;  // absent: unknown

  void set(Output value) { set(0, value); }
  void set(int index, Output value);
  void set_all(const Outputs& values);
  void set_value(TfValue value) { outputs_.assign(1, std::move(value)); }
  TfValues take_outputs() { return std::move(outputs_); }

 private:
  const tensorflow::AttrValue* find(std::string_view name) const;

  Graph& graph_;
  const tensorflow::NodeDef& node_;
  TfValues inputs_;
  std::uint64_t& repeated_bytes_;
  TfValues outputs_;
};

struct TfOp {
  const char* name;
  void (*convert)(TfNode&);
  // The names of its results, separated by commas, if it has several: "values,indices".
  const char* results = "";
};

// Of all families; null if the op is not known.
const TfOp* find_tensorflow_op(std::string_view name);

// One table per file.
std::span<const TfOp> tensorflow_array_ops();
std::span<const TfOp> tensorflow_index_ops();
std::span<const TfOp> tensorflow_list_ops();
std::span<const TfOp> tensorflow_math_ops();
std::span<const TfOp> tensorflow_nn_ops();
std::span<const TfOp> tensorflow_reduce_ops();
std::span<const TfOp> tensorflow_text_ops();

}  // namespace troupe
