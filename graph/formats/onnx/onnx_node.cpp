#include "troupe/graph/formats/onnx/onnx_node.hpp"

#include <array>

#include "messages/proto/onnx.pb.h"
#include <troupe/graph/formats/onnx/onnx_tensors.hpp>
#include <troupe/graph/known_values.hpp>

namespace troupe {
namespace {

[[noreturn]] void missing(std::string_view name) { invalid_argument("attribute '{}' is missing", name); }

using Converters = std::map<std::string_view, const OnnxOp*>;

Converters table_of(std::initializer_list<std::span<const OnnxOp>> families) {
  Converters all;
  for (const auto& family : families)
    for (const OnnxOp& op : family)
      if (!all.emplace(op.name, &op).second) fail(Code::internal, "two converters of {}", op.name);
  return all;
}

const Converters& converters() {
  static const Converters table =
      table_of({onnx_array_ops(), onnx_attention_ops(), onnx_control_ops(), onnx_conv_ops(), onnx_elementwise_ops(),
                onnx_image_ops(), onnx_index_ops(), onnx_layout_ops(), onnx_linear_ops(), onnx_list_ops(),
                onnx_math_ops(), onnx_nn_ops(), onnx_norm_ops(), onnx_recurrent_ops(), onnx_random_ops(),
                onnx_reduce_ops(), onnx_signal_ops(), onnx_softmax_ops(), onnx_text_ops()});
  return table;
}

const Converters& ml_converters() {
  static const Converters table = table_of({onnx_ml_ops(), onnx_encoder_ops(), onnx_svm_ops(), onnx_tree_ops()});
  return table;
}

const Converters& training_converters() {
  static const Converters table = table_of({onnx_training_ops()});
  return table;
}

}  // namespace

const OnnxOp* find_onnx_op(std::string_view domain, std::string_view name) {
  static const Converters none;
  const Converters& table = domain.empty()                         ? converters()
                            : domain == "ai.onnx.ml"               ? ml_converters()
                            : domain == "ai.onnx.preview.training" ? training_converters()
                                                                   : none;
  const auto found = table.find(name);
  return found == table.end() ? nullptr : found->second;
}

bool takes_images(std::string_view name) {
  const OnnxOp* op = find_onnx_op("", name);
  return op && op->images != OnnxImages::no;
}

std::map<std::string, std::vector<std::string>> known_onnx_ops() {
  std::map<std::string, std::vector<std::string>> out;
  for (const auto& [name, op] : converters()) out["ai.onnx"].emplace_back(name);
  for (const auto& [name, op] : ml_converters()) out["ai.onnx.ml"].emplace_back(name);
  for (const auto& [name, op] : training_converters()) out["ai.onnx.preview.training"].emplace_back(name);
  return out;
}

OnnxNode::OnnxNode(troupe::Graph& graph, const onnx::Node& node, std::int64_t opset, Values inputs)
    : graph_(graph), node_(node), opset_(opset), inputs_(std::move(inputs)) {
  for (const std::string& output : node.output()) wanted_.push_back(!output.empty());
  outputs_.outputs.resize(wanted_.size());
  outputs_.types.resize(wanted_.size());
}

Output OnnxNode::in(int index) const {
  if (!has(index)) invalid_argument("input {} is missing", index);
  const OnnxViewPtr view = inputs_.view(index);
  return view ? view->get() : inputs_.outputs[static_cast<std::size_t>(index)];
}

Output OnnxNode::viewed(int index, const Integers& perm) const {
  const OnnxViewPtr view = inputs_.view(index);
  return view && view->perm == perm ? view->source : Output();
}

Output OnnxNode::transposed(int index, const Integers& perm) const {
  const OnnxViewPtr view = inputs_.view(index);
  if (view && view->perm.size() == perm.size() && is_identity(composed(view->perm, perm))) return view->source;
  return transpose(in(index), perm);
}

const OnnxType& OnnxNode::type(int index) const {
  if (!has(index)) invalid_argument("input {} is missing", index);
  return inputs_.types[static_cast<std::size_t>(index)];
}

Outputs OnnxNode::all_inputs() const {
  Outputs all;
  for (int i = 0; i < num_inputs(); ++i) all.push_back(in(i));
  return all;
}

std::optional<Tensor> OnnxNode::known(int index) const {
  return known_tensor(graph_, {in(index).node, in(index).index});
}

Integers OnnxNode::integers_in(int index, std::string_view what) const {
  const auto value = known(index);
  if (!value)
    fail(Code::unimplemented, "{} (input {}) must be known before the model runs, but is computed by '{}'", what, index,
         in(index).source().name);
  return dispatch(IndexTypes{}, value->dtype(), [&]<class T>() {
    const auto values = value->values<T>();
    return Integers(values.begin(), values.end());
  });
}

const onnx::Attribute* OnnxNode::find(std::string_view name) const {
  for (const onnx::Attribute& attribute : node_.attribute())
    if (attribute.name() == name) return &attribute;
  return nullptr;
}

std::int64_t OnnxNode::integer(std::string_view name, std::optional<std::int64_t> otherwise) const {
  const onnx::Attribute* found = find(name);
  return found ? found->i() : otherwise ? *otherwise : (missing(name), 0);
}

double OnnxNode::real(std::string_view name, std::optional<double> otherwise) const {
  const onnx::Attribute* found = find(name);
  return found ? static_cast<double>(found->f()) : otherwise ? *otherwise : (missing(name), 0);
}

std::string OnnxNode::string(std::string_view name, std::optional<std::string> otherwise) const {
  const onnx::Attribute* found = find(name);
  return found ? found->s() : otherwise ? *otherwise : (missing(name), "");
}

Tensor OnnxNode::tensor(std::string_view name) const {
  const onnx::Attribute* found = find(name);
  if (!found || !found->has_t()) missing(name);
  return from_onnx_tensor(found->t());
}

DType OnnxNode::dtype(std::string_view name, std::optional<DType> otherwise) const {
  const onnx::Attribute* found = find(name);
  if (!found && otherwise) return *otherwise;
  if (!found) missing(name);
  return from_onnx_dtype(static_cast<std::int32_t>(found->i()));
}

Integers OnnxNode::integers(std::string_view name, const std::optional<Integers>& otherwise) const {
  const onnx::Attribute* found = find(name);
  if (!found && otherwise) return *otherwise;
  if (!found) missing(name);
  return {found->ints().begin(), found->ints().end()};
}

std::vector<double> OnnxNode::reals(std::string_view name, const std::optional<std::vector<double>>& otherwise) const {
  const onnx::Attribute* found = find(name);
  if (!found && otherwise) return *otherwise;
  if (!found) missing(name);
  return {found->floats().begin(), found->floats().end()};
}

std::vector<std::string> OnnxNode::strings(std::string_view name,
                                           const std::optional<std::vector<std::string>>& otherwise) const {
  const onnx::Attribute* found = find(name);
  if (!found && otherwise) return *otherwise;
  if (!found) missing(name);
  return {found->strings().begin(), found->strings().end()};
}

void OnnxNode::set(int index, Output value) {
  if (index >= num_outputs()) return;  // the model does not want it
  if (!value.valid()) invalid_argument("output {} is not a tensor", index);
  set(index, value, {.lists = {}, .dtype = value.dtype(), .shape = value.shape()});
}

void OnnxNode::set(int index, Output value, OnnxType type) {
  if (index >= num_outputs()) return;
  if (!value.valid()) invalid_argument("output {} has no value", index);
  if ((value.dtype() == DType::list) != type.is_list())
    invalid_argument("output {} is {}, not {}", index, name(value.dtype()), type.is_list() ? "a list" : "a tensor");
  outputs_.outputs[static_cast<std::size_t>(index)] = value;
  outputs_.types[static_cast<std::size_t>(index)] = std::move(type);
}

void OnnxNode::set_view(int index, Output source, const Integers& perm) {
  if (index >= num_outputs()) return;
  const auto at = static_cast<std::size_t>(index);
  outputs_.views.resize(wanted_.size());
  outputs_.views[at] = std::make_shared<OnnxView>(OnnxView{source, perm, {}});
  outputs_.types[at] = {.lists = {}, .dtype = source.dtype(), .shape = outputs_.views[at]->shape()};
}

OnnxType OnnxNode::type_attr(std::string_view name) const {
  const onnx::Attribute* found = find(name);
  if (!found || !found->has_tp()) missing(name);
  return from_onnx_type(found->tp());
}

const onnx::Graph& OnnxNode::body_of(std::string_view attribute) const {
  const onnx::Attribute* found = find(attribute);
  if (!found || !found->has_g()) missing(attribute);
  return found->g();
}

int OnnxNode::num_arguments(std::string_view attribute) const { return body_of(attribute).input_size(); }
int OnnxNode::num_results(std::string_view attribute) const { return body_of(attribute).output_size(); }

}  // namespace troupe
