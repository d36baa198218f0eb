#include "troupe/graph/formats/saved_model/export_writer.hpp"

#include <algorithm>
#include <cctype>

#include "messages/proto/tensorflow.pb.h"
#include <troupe/graph/formats/saved_model/export_node.hpp>
#include <troupe/graph/formats/saved_model/tensors.hpp>
#include <troupe/graph/known_values.hpp>

namespace troupe {
namespace {

namespace tf = troupe::tensorflow;

// "node:1" is result 1 of "node".
std::pair<std::string, std::size_t> split_name(const TfName& name) {
  const std::size_t colon = name.rfind(':');
  if (colon == name.npos) return {name, 0};
  return {name.substr(0, colon), std::stoul(name.substr(colon + 1))};
}
TfName result_name(const std::string& node, std::size_t index) {
  return index == 0 ? node : fmt::format("{}:{}", node, index);
}

std::int64_t attribute_of(const tf::NodeDef& node, std::string_view name) {
  return node.attr().at(std::string(name)).i();
}

// How many results an argument stands for.
std::size_t results_of(const tf::NodeDef& node, const TfArgument& argument) {
  if (argument.types) return static_cast<std::size_t>(node.attr().at(std::string(argument.type)).list().type_size());
  return argument.count.empty() ? 1 : static_cast<std::size_t>(attribute_of(node, argument.count));
}

}  // namespace

std::string tensorflow_name(std::string_view name) {
  std::string out;
  for (const char c : name)
    out += std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '/' || c == '-' ? c : '_';
  if (out.empty() || !(std::isalnum(static_cast<unsigned char>(out[0])) || out[0] == '.')) out = "node" + out;
  return out;
}

std::string TfExportState::unique_name(std::string_view wanted) {
  std::string name(wanted);
  for (int i = 1; !names.insert(name).second; ++i) name = fmt::format("{}_{}", wanted, i);
  return name;
}

TfGraphWriter::TfGraphWriter(TfExportState& state, const Graph& graph, bool root)
    : state_(state), graph_(graph), root_(root) {}
TfGraphWriter::~TfGraphWriter() = default;

void TfGraphWriter::bind(Endpoint e, const TfName& name, DType dtype) {
  values_[e] = name;
  dtypes_[name] = dtype;
}

DType TfGraphWriter::dtype(const TfName& value) const {
  const auto found = dtypes_.find(value);
  if (found == dtypes_.end()) fail(Code::internal, "nothing is named '{}'", value);
  return found->second;
}

TfNames TfGraphWriter::add(const std::string& op, const TfNames& inputs, const Attributes& attributes,
                           const std::string& name) {
  const TfSignature& signature = tensorflow_signature(op);
  Attributes all = attributes;
  const std::vector<TfArgument> arguments = arguments_of(signature.inputs);
  const auto is_list = [](const TfArgument& argument) { return argument.types || !argument.count.empty(); };
  if (inputs.size() + (std::ranges::any_of(arguments, is_list) ? 1 : 0) < arguments.size())
    fail(Code::internal, "{} has {} inputs", op, inputs.size());
  std::size_t at = 0;
  for (const TfArgument& argument : arguments) {
    const bool list = is_list(argument);
    const std::size_t count = list ? inputs.size() - (arguments.size() - 1) : 1;
    if (!argument.count.empty()) all.set(std::string(argument.count), static_cast<std::int64_t>(count));
    if (argument.types) {
      std::vector<DType> types;
      for (std::size_t i = 0; i < count; ++i) types.push_back(dtype(inputs[at + i]));
      all.set(std::string(argument.type), types);
    } else if (argument.fixed == DType::invalid && count > 0) {
      all.set(std::string(argument.type), dtype(inputs[at]));
    } else if (argument.fixed != DType::invalid && count > 0 && dtype(inputs[at]) != argument.fixed) {
      fail(Code::internal, "input {} of {} is {}", at, op, troupe::name(dtype(inputs[at])));
    }
    at += count;
  }
  if (at != inputs.size()) fail(Code::internal, "{} has {} inputs, not {}", op, inputs.size(), at);
  tf::NodeDef& node = nodes_.emplace_back();
  node.set_name(state_.unique_name(name.empty() ? fmt::format("{}/{}", prefix_, op) : name));
  node.set_op(op);
  for (const TfName& input : inputs) node.add_input(input);
  for (const auto& [key, value] : all.all()) to_tensorflow_attr(value, (*node.mutable_attr())[key]);
  TfNames out;
  for (const TfArgument& result : arguments_of(signature.outputs)) {
    const std::size_t count = results_of(node, result);
    for (std::size_t i = 0; i < count; ++i) {
      out.push_back(result_name(node.name(), out.size()));
      DType& type = dtypes_[out.back()];
      if (result.types)
        type = all.get<std::vector<DType>>(result.type)[i];
      else
        type = result.fixed != DType::invalid ? result.fixed : all.dtype(result.type);
    }
  }
  return out;
}

std::string TfGraphWriter::add_node(const std::string& op, const TfNames& inputs, const Attributes& attributes,
                                    const std::string& name) {
  add(op, inputs, attributes, name);
  return nodes_.back().name();
}

TfName TfGraphWriter::constant(const Tensor& value, const std::string& name) {
  return add("Const", {}, {{"dtype", value.dtype()}, {"value", value}}, name).at(0);
}

void TfGraphWriter::add_control(const std::string& node, const std::vector<std::string>& inputs) {
  const auto found = std::ranges::find(nodes_, node, &tf::NodeDef::name);
  if (found == nodes_.end()) fail(Code::internal, "no node is named '{}'", node);
  for (const std::string& input : inputs) found->add_input(input);
}

TfName TfGraphWriter::value(Endpoint e) {
  const auto known = values_.find(e);
  if (known != values_.end()) return known->second;
  const Node& node = graph_.node(e.node);
  if (node.op->role == OpRole::constant)
    return values_[e] = constant(node.attributes.tensor("value"), tensorflow_name(node.name));
  if (node.op->name == "ReadVariable") return values_[e] = variable(node);
  fail(Code::internal, "'{}' has not been written", node.name);
}

// Variables have one handle and one read.
TfName TfGraphWriter::variable(const Node& read) {
  const Node& source = graph_.node(read.inputs[0].node);
  if (!root_) fail(Code::internal, "a function reads variable '{}'", source.name);
  const auto value = state_.what.variables.find(source.name);
  if (value == state_.what.variables.end()) invalid_argument("variable '{}' has no value: pass it", source.name);
  const DType dtype = source.attributes.dtype("T");
  if (value->second.dtype() != dtype || !source.attributes.shape("shape").compatible_with(value->second.shape()))
    invalid_argument("variable '{}' is {}{}, but its value is {}{}", source.name, name(dtype),
                     source.attributes.shape("shape").to_string(), name(value->second.dtype()),
                     value->second.shape().to_string());
  TfVariable& made = state_.variables[source.name];
  if (made.handle.empty()) {
    const Attributes of_handle{{"dtype", dtype}, {"shape", value->second.shape()}, {"shared_name", source.name}};
    made.handle = add("VarHandleOp", {}, of_handle, tensorflow_name(source.name))[0];
    made.read = add("ReadVariableOp", {made.handle}, {{"dtype", dtype}}, made.handle + "/Read/ReadVariableOp")[0];
  }
  return made.read;
}

void TfGraphWriter::set(Endpoint e, TfName name) {
  auto [node, index] = split_name(name);
  if (const auto renamed = renamed_.find(node); renamed != renamed_.end()) node = renamed->second;
  name = result_name(node, index);
  const auto reserved = reserved_.find(e.node);
  const auto made = std::find_if(nodes_.begin() + static_cast<std::ptrdiff_t>(first_), nodes_.end(),
                                 [&, &named = node](const tf::NodeDef& n) { return n.name() == named; });
  if (e.index == 0 && index == 0 && made != nodes_.end() && reserved != reserved_.end()) {
    const std::string final = reserved->second;
    reserved_.erase(reserved);
    renamed_[node] = final;
    made->set_name(final);
    for (std::size_t i = 0; dtypes_.contains(result_name(node, i)); ++i)
      dtypes_[result_name(final, i)] = dtypes_[result_name(node, i)];
    for (auto later = made + 1; later != nodes_.end(); ++later)
      for (std::string& input : *later->mutable_input())
        if (const auto [from, i] = split_name(input); from == node) input = result_name(final, i);
    name = final;
  }
  values_[e] = name;
}

void TfGraphWriter::write(const std::vector<Endpoint>& outputs) {
  std::vector<Endpoint> pending = outputs;
  std::set<int> nodes;
  while (!pending.empty()) {
    const Endpoint e = pending.back();
    pending.pop_back();
    wanted_.insert(e);
    const Node& node = graph_.node(e.node);
    if (values_.contains(e) || !nodes.insert(e.node).second) continue;
    if (node.op->role == OpRole::placeholder)
      invalid_argument("placeholder '{}' is needed, but is no input of the signature", node.name);
    pending.insert(pending.end(), node.inputs.begin(), node.inputs.end());
  }
  for (const int id : nodes) {
    const Node& node = graph_.node(id);
    if (!node.op->is_source() && node.op->name != "ReadVariable" && !reserved_.contains(id))
      reserved_[id] = state_.unique_name(tensorflow_name(node.name));
  }
  for (const int id : graph_.topological_order())
    if (nodes.contains(id) && !values_.contains({id, 0})) write_node(graph_.node(id));
}

void TfGraphWriter::write_node(const Node& node) {
  if (node.op->is_source()) return;
  first_ = nodes_.size();
  renamed_.clear();
  prefix_ = tensorflow_name(node.name);
  try {
    if (node.op->name == "ReadVariable") {
      if (!node.controls.empty()) fail(Code::unimplemented, "it reads a variable after another node has run");
      return;
    }
    const TfWriterFn writer = find_tensorflow_writer(node.op->name);
    if (!writer) fail(Code::unimplemented, "");
    TfExportNode view(*this, node);
    writer(view);
    for (int i = 0; i < view.num_outputs(); ++i)
      if (view.wants(i) && !values_.contains({node.id, i}))
        fail(Code::unimplemented, "its output {} cannot be expressed", i);
  } catch (...) {
    const Error error = current_error();
    if (error.code() != Code::unimplemented) throw error.within(fmt::format("{} '{}'", node.op->name, node.name));
    state_.unsupported[node.op->name].emplace_back(node.name, error.message());
    for (int i = 0; i < static_cast<int>(node.output_types.size()); ++i)  // go on, to find all
      bind({node.id, i}, fmt::format("?{}", node.output_types[static_cast<std::size_t>(i)] == DType::list
                                                ? "list"
                                                : std::string(name(graph_.dtype({node.id, i})))));
  }
}

// "node:output:0", where a graph says "node".
std::string TfGraphWriter::function_input(const TfName& value,
                                          const std::map<std::string, const tf::NodeDef*>& nodes) const {
  auto [name, index] = split_name(value);
  const auto found = nodes.find(name);
  if (found == nodes.end()) return name;  // an argument
  for (const TfArgument& result : arguments_of(tensorflow_signature(found->second->op()).outputs)) {
    const std::size_t count = results_of(*found->second, result);
    if (index < count) return fmt::format("{}:{}:{}", name, result.name, index);
    index -= count;
  }
  fail(Code::internal, "'{}' has no such result", value);
}

void TfGraphWriter::add_function(const std::string& name, const TfNames& arguments, const TfNames& results) {
  tf::FunctionDef& out = *state_.out.mutable_library()->add_function();
  out.mutable_signature()->set_name(name);
  for (const TfName& argument : arguments) {
    auto& arg = *out.mutable_signature()->add_input_arg();
    arg.set_name(argument);
    tf::AttrValue type;
    to_tensorflow_attr(dtype(argument), type);
    arg.set_type(type.type());
  }
  std::map<std::string, const tf::NodeDef*> by_name;
  for (const tf::NodeDef& node : nodes_) by_name[node.name()] = &node;
  for (const tf::NodeDef& node : nodes_) {
    tf::NodeDef& copy = *out.add_node_def();
    copy = node;
    for (std::string& input : *copy.mutable_input()) input = function_input(input, by_name);
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    auto& arg = *out.mutable_signature()->add_output_arg();
    arg.set_name(fmt::format("result_{}", i));
    tf::AttrValue type;
    to_tensorflow_attr(dtype(results[i]), type);
    arg.set_type(type.type());
    (*out.mutable_ret())[arg.name()] = function_input(results[i], by_name);
  }
}

// ---- the view of a node

TfName scalar_in(TfGraphWriter& writer, DType dtype, double value) {
  Tensor out(dtype, Shape{});
  dispatch(DataTypes{}, dtype, [&]<class T>() {
    if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>)
      *out.mutable_data<T>() = T(static_cast<float>(value));
    else
      *out.mutable_data<T>() = static_cast<T>(value);
  });
  return writer.constant(out);
}

int TfExportNode::rank(int input) const {
  if (!shape(input).has_rank()) fail(Code::unimplemented, "the rank of its input {} is not known", input);
  return shape(input).rank();
}

std::int64_t TfExportNode::dim(int input, std::int64_t axis) const {
  const std::int64_t at = axis < 0 ? axis + rank(input) : axis;
  if (at < 0 || at >= rank(input) || shape(input)[static_cast<int>(at)] == kUnknown)
    fail(Code::unimplemented, "dimension {} of its input {} is not known", axis, input);
  return shape(input)[static_cast<int>(at)];
}

std::optional<Tensor> TfExportNode::known(int input) const { return known_tensor(writer_.graph(), endpoint(input)); }
std::optional<Integers> TfExportNode::known_integers(int input) const {
  const auto value = known(input);
  if (!value || (value->dtype() != DType::i32 && value->dtype() != DType::i64)) return std::nullopt;
  return dispatch(IndexTypes{}, value->dtype(), [&]<class T>() {
    const auto values = value->values<T>();
    return Integers(values.begin(), values.end());
  });
}
Integers TfExportNode::integers_in(int input, std::string_view what) const {
  auto found = known_integers(input);
  if (!found) fail(Code::unimplemented, "{} (its input {}) must be known", what, input);
  return *std::move(found);
}

TfNames TfExportNode::all_inputs() const {
  TfNames out;
  for (int i = 0; i < num_inputs(); ++i) out.push_back(in(i));
  return out;
}

TfName TfExportNode::integers(const Integers& values) const {
  return constant(Tensor::of<std::int64_t>(Shape{std::ssize(values)}, values));
}

TfName TfExportNode::cast(const TfName& x, DType to) const {
  return writer_.dtype(x) == to ? x : add("Cast", {x}, {{"DstT", to}});
}

TfName TfExportNode::dims_of(const TfName& x, std::int64_t begin, std::int64_t count) const {
  return add("Slice", {shape_of(x), integers({begin}), integers({count})});
}

TfName TfExportNode::joined(const TfNames& vectors) const {
  if (vectors.size() == 1) return vectors[0];
  TfNames inputs = vectors;
  inputs.push_back(integer32(0));
  return add("ConcatV2", inputs);
}

TfName TfExportNode::reduced(const char* op, const TfName& x, const Integers& axes, bool keep) const {
  return add(op, {x, integers(axes)}, {{"keep_dims", keep}});
}

void TfExportNode::set_all(const TfNames& values) const {
  for (int i = 0; i < num_outputs(); ++i) set(i, values.at(static_cast<std::size_t>(i)));
}

}  // namespace troupe
