#include "troupe/graph/formats/saved_model/version_1.hpp"

#include <set>

#include "messages/proto/tensorflow.pb.h"
#include <troupe/graph/builder/variable.hpp>
#include <troupe/graph/formats/import.hpp>
#include <troupe/graph/formats/saved_model/functions.hpp>
#include <troupe/graph/formats/saved_model/tensors.hpp>

namespace troupe {
namespace {

namespace tf = troupe::tensorflow;

constexpr int kMostIdentities = 1000;  // in a row: a cycle has more

}  // namespace

TfVersion1::TfVersion1(const tf::MetaGraphDef& model, const TensorflowFiles& files,
                       const TensorflowImportOptions& options, Graph& graph, std::uint64_t& repeated_bytes)
    : model_(model), files_(files), options_(options), graph_(graph), repeated_bytes_(repeated_bytes) {
  for (const tf::NodeDef& node : model.graph_def().node())
    if (!nodes_.emplace(node.name(), &node).second) fail(Code::data_loss, "two nodes are named '{}'", node.name());
  for (const tf::NodeDef& node : model.graph_def().node())
    if ((node.op() == "LookupTableImportV2" || node.op() == "InitializeTableV2" ||
         node.op() == "InitializeTableFromTextFileV2") &&
        node.input_size() > 0)
      if (const tf::NodeDef* table = source_of(node.input(0))) filled_.emplace(table->name(), &node);
  find_restored();
}

const tf::NodeDef* TfVersion1::find(std::string_view node) const {
  const auto found = nodes_.find(node);
  return found == nodes_.end() ? nullptr : found->second;
}

const tf::NodeDef* TfVersion1::source_of(std::string_view input) const {
  const tf::NodeDef* node = find(parse_tensorflow_input(input).node);
  for (int i = 0; node && node->op() == "Identity" && node->input_size() > 0 && i < kMostIdentities; ++i)
    node = find(parse_tensorflow_input(node->input(0)).node);
  return node;
}

Tensor TfVersion1::constant_at(std::string_view input, const char* what) const {
  const tf::NodeDef* node = source_of(input);
  if (!node || node->op() != "Const") fail(Code::unimplemented, "{} are computed by '{}'", what, input);
  return TfNode(graph_, *node, {}, repeated_bytes_).tensor("value");
}

// AssignVariableOp(variable, RestoreV2(file, names, slices):i): the variable is tensor names[i] of the bundle.
void TfVersion1::find_restored() {
  std::map<std::string_view, Tensor> names;  // by RestoreV2
  for (const tf::NodeDef& node : model_.graph_def().node()) {
    if (node.op() != "AssignVariableOp" || node.input_size() < 2) continue;
    const tf::NodeDef* variable = source_of(node.input(0));
    TfEndpoint value = parse_tensorflow_input(node.input(1));
    const tf::NodeDef* source = find(value.node);
    for (int i = 0; source && source->op() == "Identity" && source->input_size() > 0 && i < kMostIdentities; ++i) {
      value = parse_tensorflow_input(source->input(0));
      source = find(value.node);
    }
    if (!variable || !source || source->op() != "RestoreV2" || source->input_size() < 3) continue;
    Tensor& all = names[source->name()];
    if (!all.valid()) all = constant_at(source->input(1), "names of tensors that are restored");
    if (all.dtype() != DType::string || value.index >= all.num_elements())
      fail(Code::data_loss, "RestoreV2 '{}' has no name for its result {}", source->name(), value.index);
    keys_[variable->name()] = all.values<std::string>()[static_cast<std::size_t>(value.index)];
  }
  const auto trained = model_.collection_def().find("trainable_variables");
  if (trained == model_.collection_def().end()) return;
  for (const std::string& bytes : trained->second.bytes_list().value()) {
    tf::VariableDef variable;
    if (!variable.ParseFromString(bytes)) fail(Code::data_loss, "a variable of 'trainable_variables' cannot be read");
    trainable_[std::string(parse_tensorflow_input(variable.variable_name()).node)] = true;
  }
}

tf::FunctionDef TfVersion1::function_of(const tf::SignatureDef& signature) const {
  tf::FunctionDef out;
  std::map<std::string, tf::TensorInfo> inputs(signature.inputs().begin(), signature.inputs().end());
  std::set<std::string_view> seen;
  for (const auto& [key, info] : inputs) {
    const std::string_view node = parse_tensorflow_input(info.name()).node;
    if (!find(node)) fail(Code::data_loss, "input '{}' is '{}', which is not there", key, info.name());
    if (!seen.insert(find(node)->name()).second) fail(Code::unimplemented, "two inputs are '{}'", info.name());
    auto& argument = *out.mutable_signature()->add_input_arg();
    argument.set_name(std::string(node));
    argument.set_type(info.dtype());
  }
  std::map<std::string, tf::TensorInfo> outputs(signature.outputs().begin(), signature.outputs().end());
  std::vector<const tf::NodeDef*> open;
  const auto visit = [&](std::string_view input) {
    if (is_control_input(input)) return;
    const tf::NodeDef* node = find(parse_tensorflow_input(input).node);
    if (!node) fail(Code::data_loss, "there is no node '{}'", input);
    if (seen.insert(node->name()).second) open.push_back(node);
  };
  for (const auto& [key, info] : outputs) {
    visit(info.name());
    out.mutable_signature()->add_output_arg()->set_name(key);
    (*out.mutable_ret())[key] = info.name();
  }
  while (!open.empty()) {
    const tf::NodeDef* node = open.back();
    open.pop_back();
    *out.add_node_def() = *node;
    if (is_resource(*node)) continue;
    for (const std::string& input : node->input()) visit(input);
  }
  return out;
}

bool TfVersion1::is_resource(const tf::NodeDef& node) {
  return node.op() == "VarHandleOp" || node.op() == "HashTableV2";
}

TfValue TfVersion1::value_of(const tf::NodeDef& node) {
  TfValue& found = values_[node.name()];
  if (!found.found()) found = node.op() == "VarHandleOp" ? variable_of(node) : table_of(node);
  return found;
}

TfValue TfVersion1::variable_of(const tf::NodeDef& node) {
  const TfNode view(graph_, node, {}, repeated_bytes_);
  const auto key = keys_.find(node.name());
  if (key == keys_.end()) fail(Code::unimplemented, "no op restores the variable");
  const Tensor value = files_.tensor(key->second);
  const DType dtype = view.dtype("dtype");
  const Shape shape = view.shape("shape");
  if (value.dtype() != dtype || !shape.compatible_with(value.shape()))
    fail(Code::data_loss, "the variable is {}{}, but '{}' has {}{}", name(dtype), shape.to_string(), key->second,
         name(value.dtype()), value.shape().to_string());
  const VariableRef made =
      variable(graph_, {.name = graph_.unique_name(node_name(node.name())),
                        .initial_value = constant(graph_, value),
                        .trainable = options_.trainable && trainable_.contains(node.name()) && is_floating(dtype)});
  variables_.push_back(made.name);
  auto resource = std::make_shared<TfResource>();
  resource->name = made.name;
  resource->read = [made] { return made.read(); };
  return {{}, std::move(resource), {}};
}

TfValue TfVersion1::table_of(const tf::NodeDef& node) const {
  const auto found = filled_.find(node.name());
  if (found == filled_.end()) fail(Code::unimplemented, "no op fills the table");
  const tf::NodeDef& fill = *found->second;
  if (fill.op() == "InitializeTableFromTextFileV2" || fill.input_size() < 3)
    fail(Code::unimplemented, "tables of files are not supported in models of version 1");
  auto table = std::make_shared<TfResource>();
  table->name = node.name();
  table->keys = constant_at(fill.input(1), "the keys of a table");
  table->values = constant_at(fill.input(2), "the values of a table");
  if (table->keys.shape().rank() != 1 || table->values.shape() != table->keys.shape())
    fail(Code::data_loss, "a table of keys {} and values {}, expected two vectors of one length",
         table->keys.shape().to_string(), table->values.shape().to_string());
  return {{}, std::move(table), {}};
}

}  // namespace troupe
