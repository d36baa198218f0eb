#include "troupe/graph/formats/onnx/export_graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "messages/proto/onnx.pb.h"
#include <troupe/graph/formats/onnx/onnx_tensors.hpp>
#include <troupe/graph/formats/onnx/onnx_view.hpp>
#include <troupe/graph/known_values.hpp>
#include <troupe/messages/element_types.hpp>

namespace troupe {
namespace {

void set_attribute(onnx::Node& node, const std::string& name, const AttrValue& value) {
  onnx::Attribute& out = *node.add_attribute();
  out.set_name(name);
  if (const auto* i = std::get_if<std::int64_t>(&value)) {
    out.set_type(onnx::Attribute::INT);
    out.set_i(*i);
  } else if (const auto* b = std::get_if<bool>(&value)) {
    out.set_type(onnx::Attribute::INT);
    out.set_i(*b ? 1 : 0);
  } else if (const auto* f = std::get_if<double>(&value)) {
    out.set_type(onnx::Attribute::FLOAT);
    out.set_f(static_cast<float>(*f));
  } else if (const auto* s = std::get_if<std::string>(&value)) {
    out.set_type(onnx::Attribute::STRING);
    out.set_s(*s);
  } else if (const auto* t = std::get_if<Tensor>(&value)) {
    out.set_type(onnx::Attribute::TENSOR);
    to_onnx_tensor(*t, "", *out.mutable_t());
  } else if (const auto* dtype = std::get_if<DType>(&value)) {
    out.set_type(onnx::Attribute::INT);
    out.set_i(to_onnx_dtype(*dtype));
  } else if (const auto* ints = std::get_if<Integers>(&value)) {
    out.set_type(onnx::Attribute::INTS);
    for (const std::int64_t v : *ints) out.add_ints(v);
  } else if (const auto* reals = std::get_if<std::vector<double>>(&value)) {
    out.set_type(onnx::Attribute::FLOATS);
    for (const double v : *reals) out.add_floats(static_cast<float>(v));
  } else if (const auto* strings = std::get_if<std::vector<std::string>>(&value)) {
    out.set_type(onnx::Attribute::STRINGS);
    for (const std::string& v : *strings) out.add_strings(v);
  } else {
    fail(Code::internal, "attribute '{}' has a type that is not written", name);
  }
}

}  // namespace

std::string OnnxExportState::unique_name(const std::string& wanted) {
  std::string name = wanted;
  if (!reserved.contains(name) && names.insert(name).second) return name;
  int& i = suffixes[wanted];  // smaller ones are taken
  do name = fmt::format("{}_{}", wanted, ++i);
  while (reserved.contains(name) || !names.insert(name).second);
  return name;
}

OnnxGraphWriter::OnnxGraphWriter(OnnxExportState& state, const Graph& graph, onnx::Graph& out, OnnxGraphWriter* outer)
    : state_(state), graph_(graph), out_(out), outer_(outer), prefix_(out.name()) {}

// ---- values

OnnxName OnnxGraphWriter::final_name(Endpoint e, bool images) {
  const std::string& node = graph_.node(e.node).name;
  const std::string own = e.index > 0 ? fmt::format("{}:{}", node, e.index) : node;
  if (images) return state_.unique_name(own + "/nchw");
  const auto given = output_names_.find(e);
  return given != output_names_.end() && state_.names.insert(given->second).second ? given->second
                                                                                   : state_.unique_name(own);
}

std::optional<Tensor> OnnxGraphWriter::weights(Endpoint e) const {
  if (const auto around = around_.find(e); around != around_.end()) return outer_->weights(around->second);
  if (bound_.contains(e)) return std::nullopt;  // an input of the model
  const Node& node = graph_.node(e.node);
  if (node.op->role == OpRole::constant) return node.attributes.tensor("value");
  if (node.op->role != OpRole::kernel || node.op->name != "ReadVariable") return std::nullopt;
  const auto found = state_.what.variables.find(graph_.node(node.inputs[0].node).name);
  return found == state_.what.variables.end() ? std::nullopt : std::optional(found->second);
}

std::string OnnxGraphWriter::weights_name(Endpoint e) const {
  if (const auto around = around_.find(e); around != around_.end()) return outer_->weights_name(around->second);
  const Node& node = graph_.node(e.node);
  return node.op->role == OpRole::constant ? node.name : graph_.node(node.inputs[0].node).name;
}

OnnxName OnnxGraphWriter::transposed(Endpoint e, const Integers& perm) {
  const auto value = weights(e);
  if (!value) return add("Transpose", {plain(e)}, 1, {{"perm", perm}}, nullptr)[0];
  const std::string name = weights_name(e);
  const auto [known, fresh] = state_.transposed.try_emplace(fmt::format("{} {}", fmt::join(perm, ","), name));
  if (fresh) known->second = constant(transpose_on_host(*value, perm), name);
  return known->second;
}

OnnxName OnnxGraphWriter::initializer(Endpoint e) {
  const Node& node = graph_.node(e.node);
  if (node.op->role == OpRole::constant) {
    // Copies of a constant in bodies share its bytes.
    const Tensor& value = node.attributes.tensor("value");
    const std::string bytes = fmt::format("{} {}{}", static_cast<const void*>(value.raw()), troupe::name(value.dtype()),
                                          value.shape().to_string());
    std::string& known = value.num_bytes() > 0 ? state_.constants[bytes] : values_[e].plain;
    return known.empty() ? known = constant(value, node.name) : known;
  }
  if (node.op->name != "ReadVariable") return "";
  const std::string& variable = graph_.node(node.inputs[0].node).name;
  if (const auto known = state_.variables.find(variable); known != state_.variables.end()) return known->second;
  const auto value = weights(e);
  if (!value) invalid_argument("variable '{}' has no value: pass it", variable);
  return state_.variables[variable] = constant(*value, variable);
}

OnnxName OnnxGraphWriter::plain(Endpoint e) {
  if (const auto around = around_.find(e); around != around_.end()) return outer_->plain(around->second);
  Value& value = values_[e];
  if (value.plain.empty()) value.plain = initializer(e);
  if (!value.plain.empty()) return value.plain;
  if (!value.stacked.empty()) {
    onnx::Node* node = nullptr;
    value.plain = add("SplitToSequence", {value.stacked}, 1, {{"axis", std::int64_t{0}}, {"keepdims", std::int64_t{0}}},
                      &node)[0];
    made_here_.erase(value.plain);
    return value.plain;
  }
  if (value.images.empty()) fail(Code::internal, "'{}' has not been written", graph_.node(e.node).name);
  return value.plain = add_transpose(value.images, kOnnxFromImages, final_name(e, false));
}

OnnxName OnnxGraphWriter::images(Endpoint e) {
  if (const auto around = around_.find(e); around != around_.end()) return outer_->images(around->second);
  if (const auto found = values_.find(e); found != values_.end() && !found->second.images.empty())
    return found->second.images;
  const OnnxName from = plain(e);
  return values_[e].images = add_transpose(from, kOnnxToImages, final_name(e, true));
}

OnnxName OnnxGraphWriter::stacked(Endpoint e) {
  if (const auto around = around_.find(e); around != around_.end()) return outer_->stacked(around->second);
  const auto found = values_.find(e);
  return found == values_.end() ? "" : found->second.stacked;
}

OnnxName OnnxGraphWriter::add_transpose(const OnnxName& from, const Integers& perm, const std::string& name) {
  onnx::Node& node = *out_.add_node();
  node.set_name(state_.unique_name(name + "/transpose"));
  node.set_op_type("Transpose");
  node.add_input(from);
  node.add_output(name);
  set_attribute(node, "perm", perm);
  return name;
}

bool OnnxGraphWriter::has_images(Endpoint e) {
  if (const auto around = around_.find(e); around != around_.end()) return outer_->has_images(around->second);
  const auto found = values_.find(e);
  return found != values_.end() && found->second.plain.empty() && !found->second.images.empty();
}

OnnxName OnnxGraphWriter::constant(const Tensor& value, const std::string& name) {
  state_.initializers.emplace_back(state_.unique_name(name), value);
  return state_.initializers.back().first;
}

OnnxNames OnnxGraphWriter::add(std::string op, OnnxNames inputs, int outputs, const Attributes& attributes,
                               onnx::Node** made) {
  onnx::Node& node = *out_.add_node();
  OnnxNames names;
  for (int i = 0; i < outputs; ++i) names.push_back(state_.unique_name(fmt::format("{}/{}", prefix_, op)));
  node.set_name(names.empty() ? prefix_ : names[0]);
  node.set_op_type(std::move(op));
  for (std::string& input : inputs) node.add_input(std::move(input));
  for (const std::string& name : names) {
    node.add_output(name);
    made_here_.insert(name);
  }
  for (const auto& [name, value] : attributes.all()) set_attribute(node, name, value);
  if (made) *made = &node;
  return names;
}

void OnnxGraphWriter::name_node(const Node& node, onnx::Node& written) {
  if (state_.nodes.insert(node.name).second) written.set_name(node.name);
}

void OnnxGraphWriter::set(Endpoint e, const OnnxName& name, bool images) {
  OnnxName final = name;
  for (int i = made_here_.erase(name) > 0 ? first_ : out_.node_size(); i < out_.node_size(); ++i) {
    auto& outputs = *out_.mutable_node(i)->mutable_output();
    const auto made = std::ranges::find(outputs, name);
    if (made == outputs.end()) continue;
    final = *made = final_name(e, images);
    if (made == outputs.begin()) name_node(graph_.node(e.node), *out_.mutable_node(i));
    for (int later = i + 1; later < out_.node_size(); ++later)
      for (std::string& input : *out_.mutable_node(later)->mutable_input())
        if (input == name) input = final;
    break;
  }
  (images ? values_[e].images : values_[e].plain) = final;
}

// ---- nodes

void OnnxGraphWriter::find_wanted(const std::vector<Endpoint>& outputs) {
  for (const Endpoint& e : outputs) readers_[e].push_back(-1);
  std::vector<Endpoint> pending = outputs;
  std::set<int> nodes;
  while (!pending.empty()) {
    const Endpoint e = pending.back();
    pending.pop_back();
    wanted_.insert(e);
    if (bound_.contains(e) || around_.contains(e) || !nodes.insert(e.node).second) continue;
    const Node& node = graph_.node(e.node);
    if (node.op->role == OpRole::placeholder)
      invalid_argument("placeholder '{}' is needed, but is no input of the model", node.name);
    for (const Endpoint& input : node.inputs) {
      readers_[input].push_back(node.id);
      pending.push_back(input);
    }
  }
}

std::vector<const Node*> OnnxGraphWriter::readers(Endpoint e) const {
  std::vector<const Node*> out;
  if (const auto found = readers_.find(e); found != readers_.end())
    for (const int id : found->second) out.push_back(id < 0 ? nullptr : &graph_.node(id));
  return out;
}

void OnnxGraphWriter::write(const std::vector<Endpoint>& outputs) {
  find_wanted(outputs);
  std::set<int> nodes;
  for (const Endpoint& e : wanted_)
    if (!bound_.contains(e) && !around_.contains(e)) nodes.insert(e.node);
  for (const int id : graph_.topological_order())
    if (nodes.contains(id)) write_node(graph_.node(id));
  prefix_ = out_.name();
}

void OnnxGraphWriter::write_node(const Node& node) {
  if (node.op->is_source()) return;  // initializers are made when they are read
  first_ = out_.node_size();
  made_here_.clear();
  prefix_ = node.name;
  try {
    if (node.op->name == "ReadVariable") {
      if (!node.controls.empty()) fail(Code::unimplemented, "it reads a variable after another node has run");
      return;
    }
    const OnnxWriter writer = find_onnx_writer(node.op->name);
    if (!writer) fail(Code::unimplemented, "");
    OnnxExportNode view(*this, node);
    writer(view);
    for (int i = 0; i < static_cast<int>(node.output_types.size()); ++i)
      if (const Endpoint e{node.id, i}; wanted_.contains(e) && !values_.contains(e))
        fail(Code::unimplemented, "its output {} cannot be expressed", i);
  } catch (...) {
    const Error error = current_error();
    if (error.code() != Code::unimplemented) throw error.within(fmt::format("{} '{}'", node.op->name, node.name));
    state_.unsupported[node.op->name].emplace_back(node.name, error.message());
    for (int i = 0; i < static_cast<int>(node.output_types.size()); ++i)  // go on, to find all
      values_[{node.id, i}].plain = "?";
  }
}

// ---- types

OnnxType OnnxGraphWriter::type(Endpoint e) {
  if (const auto around = around_.find(e); around != around_.end()) return outer_->type(around->second);
  if (const auto known = types_.find(e); known != types_.end() && known->second.dtype != DType::invalid)
    return known->second;
  if (graph_.dtype(e) != DType::list) return {{}, graph_.dtype(e), graph_.shape(e)};
  types_[e] = OnnxType{}.list_of(OnnxType::List::sequence);  // ends cycles
  return types_[e] = list_type(e);
}

OnnxType OnnxGraphWriter::list_type(Endpoint e) {
  constexpr auto kSequence = OnnxType::List::sequence;
  const auto item_of = [&](Endpoint item) {
    OnnxType out = type(item);
    if (!out.is_list()) out.shape = Shape::unknown_rank();
    return out.list_of(kSequence);
  };
  const Node& node = graph_.node(e.node);
  const std::string& op = node.op->name;
  if (op == "ListOf" && !node.inputs.empty()) return item_of(node.inputs[0]);
  if (op == "ListInsert") return item_of(node.inputs[1]);
  if (op == "ListUnstack") return OnnxType{{}, graph_.dtype(node.inputs[0]), Shape::unknown_rank()}.list_of(kSequence);
  if ((op == "ListErase" || op == "Identity") && !node.inputs.empty()) return type(node.inputs[0]);
  if (node.op->is_control_flow()) {
    const bool branch = node.op->role == OpRole::branch;
    const Function* body = graph_.function(node.attributes.get<FunctionName>(branch ? "then_branch" : "body").value);
    if (!body) return type_in_use(e);
    const auto result = static_cast<std::size_t>(e.index);  // of a loop behind the condition, as count is in front
    const bool item = !branch && e.index > node.attributes.integer("carried");
    onnx::Graph unused;
    OnnxGraphWriter inside(state_, *body->body, unused, this);
    for (std::size_t i = 0; i < body->arguments.size(); ++i) {
      const std::size_t input = branch ? i + 1 : i + 1;  // cond, or limit and cond against the index
      if (input < node.inputs.size() && (branch || i > 0)) inside.bind_outer(body->arguments[i], node.inputs[input]);
    }
    OnnxType found = inside.type(body->results.at(result));
    if (item) {
      found.shape = Shape::unknown_rank();
      return found.list_of(kSequence);
    }
    if (found.dtype != DType::invalid) return found;
  }
  return type_in_use(e);
}

// Of a list that is empty where it is made.
OnnxType OnnxGraphWriter::type_in_use(Endpoint list) {
  OnnxType out = OnnxType{}.list_of(OnnxType::List::sequence);
  for (int id = 0; id < graph_.size() && out.dtype == DType::invalid; ++id) {
    const Node& node = graph_.node(id);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] != list || node.op->is_control_flow()) {
        if (node.inputs[i] == list && node.op->role == OpRole::loop && i >= 2 &&
            static_cast<std::int64_t>(i) - 2 < node.attributes.integer("carried"))
          return type({id, static_cast<int>(i) - 1});
        continue;
      }
      if (node.op->name == "ListInsert") return type({id, 0});
      if (node.attributes.has("T") && node.attributes.dtype("T") != DType::list) out.dtype = node.attributes.dtype("T");
    }
  }
  if (out.dtype == DType::invalid) out.dtype = DType::f32;  // nothing is ever put into it
  return out;
}

// ---- the view of a node

OnnxExportNode::OnnxExportNode(OnnxGraphWriter& writer, const Node& node) : writer_(writer), node_(node) {}

const Graph& OnnxExportNode::graph() const { return writer_.graph(); }

std::int64_t OnnxExportNode::rank(int input) const {
  if (!shape(input).has_rank()) fail(Code::unimplemented, "the rank of its input {} is not known", input);
  return shape(input).rank();
}

std::optional<Tensor> OnnxExportNode::known(int input) const { return known_tensor(graph(), endpoint(input)); }
Integers OnnxExportNode::known_integers(int input, std::string_view what) const {
  const auto value = known(input);
  if (!value) fail(Code::unimplemented, "{} (its input {}) must be known", what, input);
  return dispatch(IndexTypes{}, value->dtype(), [&]<class T>() {
    const auto values = value->values<T>();
    return Integers(values.begin(), values.end());
  });
}

std::optional<Tensor> OnnxExportNode::weights(int input) const { return writer_.weights(endpoint(input)); }

OnnxName OnnxExportNode::in(int input) const { return writer_.plain(endpoint(input)); }

OnnxNames OnnxExportNode::all_inputs() const {
  OnnxNames out;
  for (int i = 0; i < num_inputs(); ++i) out.push_back(in(i));
  return out;
}

OnnxName OnnxExportNode::images(int input) const { return writer_.images(endpoint(input)); }
OnnxName OnnxExportNode::transposed(int input, const Integers& perm) const {
  return writer_.transposed(endpoint(input), perm);
}

std::optional<OnnxName> OnnxExportNode::image_operand(int input) const {
  const Shape& own = shape(input);
  if (!own.has_rank()) return std::nullopt;
  if (own.rank() == 4) return images(input);
  if (own.rank() > 1) return std::nullopt;
  if (own.is_scalar() || own[0] == 1) return in(input);
  if (const auto value = weights(input)) return constant(value->reshaped(Shape{value->num_elements(), 1, 1}));
  return add("Unsqueeze", {in(input), integers({1, 2})});
}

bool OnnxExportNode::has_images(int input) const { return writer_.has_images(endpoint(input)); }

bool OnnxExportNode::any_images() const {
  for (int i = 0; i < num_inputs(); ++i)
    if (has_images(i)) return true;
  return false;
}

std::int64_t OnnxExportNode::images_axis(std::int64_t axis) {
  if (axis < -4 || axis >= 4) invalid_argument("axis {} is outside of rank 4", axis);
  constexpr std::int64_t kPlaces[] = {0, 2, 3, 1};
  return kPlaces[axis < 0 ? axis + 4 : axis];
}

OnnxName OnnxExportNode::add(std::string op, OnnxNames inputs, const Attributes& attributes) const {
  return writer_.add(std::move(op), std::move(inputs), 1, attributes, nullptr)[0];
}
OnnxNames OnnxExportNode::add_many(std::string op, OnnxNames inputs, int outputs, const Attributes& attributes,
                                   onnx::Node** made) const {
  return writer_.add(std::move(op), std::move(inputs), outputs, attributes, made);
}

OnnxName OnnxExportNode::constant(const Tensor& value) const { return writer_.own_constant(value); }
OnnxName OnnxExportNode::integers(const Integers& values) const {
  return constant(Tensor::of<std::int64_t>(Shape{std::ssize(values)}, values));
}
OnnxName OnnxExportNode::integer(std::int64_t value) const { return constant(Tensor::scalar(value)); }

OnnxName OnnxExportNode::scalar_of(DType dtype, double value) const {
  Tensor out(dtype, Shape{});
  dispatch(DataTypes{}, dtype, [&]<class T>() {
    if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>)
      *out.mutable_data<T>() = T(static_cast<float>(value));
    else
      *out.mutable_data<T>() = static_cast<T>(value);
  });
  return constant(out);
}

OnnxName OnnxExportNode::add_reduction(const std::string& op, const OnnxName& x, const Integers& axes,
                                       bool keep) const {
  const Attributes kept{{"keepdims", keep}};
  if (axes.empty()) return add(op, {x}, kept);
  if (op == "ReduceSum" || opset() >= 18) return add(op, {x, integers(axes)}, kept);
  Attributes with_axes = kept;
  with_axes.set("axes", axes);
  return add(op, {x}, with_axes);
}

void OnnxExportNode::defer() const { writer_.set_deferred(node_); }

std::int64_t OnnxExportNode::opset() const { return writer_.state().opset; }
void OnnxExportNode::need_opset(std::int64_t version) const {
  writer_.state().needed_opset = std::max(writer_.state().needed_opset, version);
}

bool OnnxExportNode::wants(int output) const { return writer_.is_wanted({node_.id, output}); }
void OnnxExportNode::set(int output, const OnnxName& value) const { writer_.set({node_.id, output}, value, false); }
void OnnxExportNode::set_images(int output, const OnnxName& value) const {
  writer_.set({node_.id, output}, value, true);
}

}  // namespace troupe
