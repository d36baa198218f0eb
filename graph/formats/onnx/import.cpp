// Builds graphs from ONNX models, node by node; converters (onnx_node.hpp) know the ops.
#include <algorithm>
#include <set>
#include <unordered_map>

#include "messages/proto/onnx.pb.h"
#include <troupe/graph/formats/onnx/import_messages.hpp>
#include <troupe/graph/formats/onnx/import_names.hpp>
#include <troupe/graph/formats/onnx/import_scope.hpp>
#include <troupe/graph/formats/onnx/onnx.hpp>
#include <troupe/graph/formats/onnx/onnx_node.hpp>
#include <troupe/graph/formats/onnx/onnx_tensors.hpp>

namespace troupe {
namespace {

namespace pb = troupe::onnx;

constexpr std::int64_t kMaxNodes = 2'000'000;  // with those of called functions
// Nodes that calls of functions, and loops whose bodies are built again, may add: a small file makes no huge graph.
constexpr std::int64_t kFreeNodes = 100'000, kNodesPerNode = 32;

using Weights = OnnxImportOptions::Weights;

using FunctionKey = std::pair<std::string, std::string>;  // domain, name
using LocalFunctions = std::map<FunctionKey, const pb::Function*>;

// Lists the ops of a model that are not known, at most a few nodes of each.
class UnknownOps {
 public:
  explicit UnknownOps(const LocalFunctions& functions) : functions_(functions) {}

  void add(const pb::Graph& graph, int depth = 0) {
    if (depth > kMaxOnnxDepth) invalid_argument("graphs are nested more than {} deep", kMaxOnnxDepth);
    for (const pb::Node& node : graph.node()) add(node, depth);
  }
  void add(const pb::Node& node, int depth) {
    ++count_;
    const std::string domain = domain_of(node);
    const bool known = functions_.contains({domain, node.op_type()}) || find_onnx_op(domain, node.op_type()) != nullptr;
    if (!known) nodes_[domain.empty() ? node.op_type() : domain + "." + node.op_type()].push_back(title(node));
    for (const pb::Attribute& attribute : node.attribute()) {
      if (attribute.has_g()) add(attribute.g(), depth + 1);
      for (const pb::Graph& graph : attribute.graphs()) add(graph, depth + 1);
    }
  }
  std::int64_t nodes() const { return count_; }  // of all graphs and functions
  void refuse() const {
    if (nodes_.empty()) return;
    std::string text;
    for (const auto& [op, nodes] : nodes_) {
      text += fmt::format("{}{}: ", text.empty() ? "" : "; ", op);
      for (std::size_t i = 0; i < std::min<std::size_t>(nodes.size(), 3); ++i) text += (i == 0 ? "" : ", ") + nodes[i];
      if (nodes.size() > 3) text += fmt::format(" and {} more", nodes.size() - 3);
    }
    fail(Code::unimplemented, "ops that are not known: {}", text);
  }

 private:
  const LocalFunctions& functions_;
  std::map<std::string, std::vector<std::string>> nodes_;
  std::int64_t count_ = 0;
};

class Importer {
 public:
  Importer(const pb::Model& model, const OnnxImportOptions& options, ReadExternal read)
      : model_(model), options_(options), read_(std::move(read)), opsets_(opsets_of(model)) {
    for (const pb::Function& f : model.functions())
      functions_.try_emplace({f.domain() == "ai.onnx" ? "" : f.domain(), f.name()}, &f);
  }

  OnnxModel run() {
    if (!model_.has_graph()) fail(Code::data_loss, "the model has no graph");
    if (model_.training_info_size() > 0)
      fail(Code::unimplemented, "the model has training information, which is not supported");
    check_opsets();
    UnknownOps unknown(functions_);
    unknown.add(model_.graph());
    for (const pb::Function& f : model_.functions())
      for (const pb::Node& node : f.node()) unknown.add(node, 0);
    unknown.refuse();
    most_nodes_ = std::min(kMaxNodes, kFreeNodes + kNodesPerNode * unknown.nodes());

    OnnxModel out;
    out.graph = std::make_unique<Graph>();
    out.producer = model_.producer_name() + (model_.producer_version().empty() ? "" : " " + model_.producer_version());
    out.opset = opset("");
    OnnxScope scope(*out.graph, names_);
    main_scope_ = &scope;
    scope.set_readers(readers_of(model_.graph()));
    scope.set_declared(declared_in(model_.graph()));
    add_initializers(model_.graph(), scope, true);
    std::set<std::string> given;
    for (const pb::ValueInfo& input : model_.graph().input()) {
      if (!given.insert(input.name()).second) invalid_argument("two inputs are named '{}'", input.name());
      if (!scope.has(input.name()) && !filters_.contains(input.name())) out.inputs.push_back(add_input(input, scope));
    }
    add_nodes(model_.graph().node(), scope, opsets_, 0);
    for (const pb::ValueInfo& output : model_.graph().output()) {
      const OnnxScope::Value value = scope.find(output.name());
      if (!value.found()) invalid_argument("output '{}' is not the output of any node", output.name());
      out.outputs.push_back({output.name(), value.get(), value.type});
    }
    for (const pb::Tensor& tensor : model_.graph().initializer())
      if (const auto made = variables_.find(tensor.name()); made != variables_.end())
        out.variables.push_back(made->second);
    out.graph = with_node_names(*out.graph, names_);
    for (std::vector<OnnxValue>* values : {&out.inputs, &out.outputs})
      for (OnnxValue& value : *values) value.output.graph = out.graph.get();
    return out;
  }

  class Converted;

 private:
  std::int64_t opset(const std::string& domain) const {
    const auto found = opsets_.find(domain);
    return found == opsets_.end() ? 1 : found->second;
  }

  void check_opsets() const {
    for (const auto& [domain, version] : opsets_)
      if (version < 1) invalid_argument("opset {} of domain '{}' does not exist", version, domain);
  }

  OnnxValue add_input(const pb::ValueInfo& input, OnnxScope& scope) const {
    try {
      OnnxType type = from_onnx_type(input.type());
      const std::string name = scope.graph().unique_name(node_name(input.name()));
      const Output value = type.is_list() ? placeholder(scope.graph(), DType::list, Shape{}, name)
                                          : placeholder(scope.graph(), type.dtype, type.shape, name);
      scope.set(input.name(), {value, type, {}});
      return {input.name(), value, std::move(type)};
    } catch (...) {
      throw current_error().within(fmt::format("input '{}'", input.name()));
    }
  }

  // `variables`: what is floating may become variables.
  void add_initializers(const pb::Graph& graph, OnnxScope& scope, bool variables) {
    if (graph.sparse_initializer_size() > 0) fail(Code::unimplemented, "sparse initializers are not supported");
    for (const pb::Tensor& tensor : graph.initializer()) {
      if (scope.has(tensor.name()) || filters_.contains(tensor.name()))
        invalid_argument("initializer '{}' occurs twice", tensor.name());
      if (variables && is_filter_only(tensor, scope)) {
        filters_[tensor.name()] = &tensor;
        continue;
      }
      Tensor value = from_onnx_tensor(tensor, read_);
      if (variables && is_variable(value.dtype()))
        scope.set(tensor.name(), add_variable(tensor.name(), std::move(value), scope));
      else
        scope.set_constant(tensor.name(), std::move(value));
    }
  }

  bool is_variable(DType dtype) const { return options_.weights != Weights::constants && is_floating(dtype); }

  OnnxScope::Value add_variable(const std::string& name, Tensor value, OnnxScope& scope) {
    const VariableRef made = variable(scope.graph(), {.name = scope.graph().unique_name(node_name(name)),
                                                      .initial_value = constant(scope.graph(), std::move(value)),
                                                      .trainable = options_.weights == Weights::trainable});
    variables_[name] = made.name;
    return {made.read(), {{}, made.dtype, made.shape}, {}};
  }

  // Filters of convolutions, which keep the order of dimensions that their images have. They are made when the first
  // convolution reads them.
  static bool is_filter_only(const pb::Tensor& tensor, const OnnxScope& scope) {
    const auto& readers = scope.readers(tensor.name());
    constexpr std::int32_t kFloats[] = {pb::Tensor::FLOAT, pb::Tensor::FLOAT16, pb::Tensor::DOUBLE,
                                        pb::Tensor::BFLOAT16};
    return tensor.dims_size() == 4 && std::ranges::count(kFloats, tensor.data_type()) > 0 && !readers.empty() &&
           std::ranges::all_of(readers, [&](const pb::Node* node) {
             return node && node->op_type() == "Conv" && domain_of(*node).empty() && node->input_size() > 1 &&
                    node->input(0) != tensor.name() && node->input(1) == tensor.name() &&
                    (node->input_size() < 3 || node->input(2) != tensor.name());
           });
  }
  void add_filter(const std::string& name, bool images, OnnxScope& scope) {
    Tensor value = from_onnx_tensor(*filters_.extract(name).mapped(), read_);
    if (images) value = transpose_on_host(value, kOnnxFromFilter);
    OnnxScope::Value made;
    if (is_variable(value.dtype())) {
      made = add_variable(name, std::move(value), scope);
    } else {
      made.output = constant(scope.graph(), std::move(value), scope.graph().unique_name(node_name(name)));
      made.type = {{}, made.output.dtype(), made.output.shape()};
    }
    if (images) {
      made.view = std::make_shared<OnnxView>(OnnxView{made.output, kOnnxToFilter, {}});
      made.output = {};
      made.type.shape = made.view->shape();
    }
    scope.set(name, std::move(made));
  }

  void count_node() {
    if (++nodes_ > most_nodes_)
      fail(Code::resource_exhausted, "the model becomes a graph of more than {} nodes: its functions call too much",
           most_nodes_);
  }

  template <class Nodes>
  void add_nodes(const Nodes& nodes, OnnxScope& scope, const Opsets& opsets, int depth) {
    for (const pb::Node& node : nodes) {
      count_node();
      add_node(node, scope, opsets, depth);
    }
  }

  void add_node(const pb::Node& node, OnnxScope& scope, const Opsets& opsets, int depth);
  void call(const pb::Function& function, const pb::Node& node, const OnnxNode::Values& inputs, OnnxScope& scope,
            int depth);
  bool add_own_op(const pb::Node& node, const OnnxNode::Values& inputs, OnnxScope& scope);
  OnnxNode::Values inputs_of(const pb::Node& node, OnnxScope& scope);
  void set_outputs(const pb::Node& node, const OnnxNode::Values& outputs, OnnxScope& scope) const;

  const pb::Model& model_;
  const OnnxImportOptions& options_;
  ReadExternal read_;
  Opsets opsets_;
  LocalFunctions functions_;
  std::map<std::string, const pb::Tensor*> filters_{};  // not made yet
  std::map<std::string, std::string> variables_{};      // by initializer
  OnnxNodeNames names_{};
  const OnnxScope* main_scope_ = nullptr;
  std::int64_t nodes_ = 0, most_nodes_ = kMaxNodes;
};

// A node with its converter's results.
class Importer::Converted final : public OnnxNode {
 public:
  Converted(Importer& importer, const pb::Node& node, OnnxScope& scope, const Opsets& opsets, int depth, Values inputs)
      : OnnxNode(scope.graph(), node, version_of(node, opsets), std::move(inputs)),
        importer_(importer),
        scope_(scope),
        opsets_(opsets),
        depth_(depth) {}

  const Values& outputs() const { return outputs_; }

  bool is_only_reader(int input) const override {
    return input < node_.input_size() && scope_.readers(node_.input(input)).size() == 1;
  }
  bool some_reader(int output, bool (*is)(std::string_view op)) const override {
    return std::ranges::any_of(readers(output),
                               [&](const pb::Node* reader) { return reader && is(reader->op_type()); });
  }
  bool all_readers(int output, bool (*is)(std::string_view op)) const override {
    return std::ranges::all_of(readers(output),
                               [&](const pb::Node* reader) { return reader && is(reader->op_type()); });
  }
  Shape declared_shape(int output) const override {
    const pb::ValueInfo* info = output < num_outputs() ? scope_.declared(node_.output(output)) : nullptr;
    if (!info || !info->type().has_tensor_type() || !info->type().tensor_type().has_shape())
      return Shape::unknown_rank();
    return from_onnx_shape(info->type().tensor_type().shape());
  }
  bool only_names_output() const override { return readers(0).size() == 1 && !readers(0)[0]; }

  Output named(const std::string& name) override {
    const Output found = scope_.find(name).get();
    if (!found.valid()) invalid_argument("there is no value '{}'", name);
    return found;
  }

  Values build(std::string_view attribute, troupe::Graph& body, const Values& arguments) override {
    if (depth_ >= kMaxOnnxDepth) invalid_argument("graphs are nested more than {} deep", kMaxOnnxDepth);
    const pb::Graph& graph = body_of(attribute);
    if (static_cast<std::size_t>(graph.input_size()) != arguments.outputs.size())
      invalid_argument("'{}' has {} inputs, not {}", attribute, graph.input_size(), arguments.outputs.size());
    OnnxScope inner(body, scope_);
    for (std::size_t i = 0; i < arguments.outputs.size(); ++i)
      inner.set(graph.input(static_cast<int>(i)).name(), {arguments.outputs[i], arguments.types[i], {}});
    inner.set_readers(readers_of(graph));
    inner.set_declared(declared_in(graph));
    importer_.add_initializers(graph, inner, false);
    importer_.add_nodes(graph.node(), inner, opsets_, depth_ + 1);
    Values out;
    for (const pb::ValueInfo& output : graph.output()) {
      OnnxScope::Value value = inner.find(output.name());
      if (!value.found()) invalid_argument("output '{}' of '{}' is not made by any node", output.name(), attribute);
      out.outputs.push_back(value.get());
      out.types.push_back(std::move(value.type));
    }
    return out;
  }

 private:
  const std::vector<const pb::Node*>& readers(int output) const {
    return scope_.readers(output < node_.output_size() ? node_.output(output) : std::string());
  }

  Importer& importer_;
  OnnxScope& scope_;
  const Opsets& opsets_;
  int depth_;
};

OnnxNode::Values Importer::inputs_of(const pb::Node& node, OnnxScope& scope) {
  OnnxNode::Values inputs;
  for (const std::string& name : node.input()) {
    if (&scope == main_scope_ && filters_.contains(name)) {
      const OnnxViewPtr image = inputs.view(0);
      add_filter(name, image && image->perm == kOnnxToImages, scope);
    }
    OnnxScope::Value value = name.empty() ? OnnxScope::Value{} : scope.find(name);
    if (!name.empty() && !value.found()) invalid_argument("input '{}' is not the output of an earlier node", name);
    inputs.outputs.push_back(value.output);
    inputs.types.push_back(std::move(value.type));
    inputs.views.push_back(std::move(value.view));
  }
  return inputs;
}

void Importer::set_outputs(const pb::Node& node, const OnnxNode::Values& outputs, OnnxScope& scope) const {
  for (int i = 0; i < node.output_size(); ++i) {
    if (node.output(i).empty()) continue;
    const auto index = static_cast<std::size_t>(i);
    OnnxScope::Value value;
    if (index < outputs.outputs.size()) value = {outputs.outputs[index], outputs.types[index], outputs.view(i)};
    if (!value.found()) fail(Code::unimplemented, "output {} ('{}') is not supported", i, node.output(i));
    if (scope.has(node.output(i)) || (&scope == main_scope_ && filters_.contains(node.output(i))))
      invalid_argument("'{}' is the output of two nodes", node.output(i));
    scope.set(node.output(i), std::move(value));
  }
}

// The node that makes the first output has the name of the model's node; so has a branch or loop. Only nodes that were
// added for it do, from `first_added` on, or one of those before that it `takes_over`.
void note_name(const pb::Node& node, const OnnxNode::Values& outputs, OnnxScope& scope, int first_added,
               bool takes_over = false) {
  const Graph& graph = scope.graph();
  int made = -1;
  for (int id = first_added; id < graph.size(); ++id)
    if (graph.node(id).op->is_control_flow()) made = id;
  const OnnxViewPtr view = outputs.view(0);
  const Output first = view ? view->source : outputs.outputs.empty() ? Output() : outputs.outputs[0];
  if (made < 0 && first.valid() && first.graph == &graph && (takes_over || first.node >= first_added))
    made = first.node;
  // An Identity that only names an output, which has become none.
  if (made < 0 && node.op_type() == "Identity" && first.valid() && first.graph == &graph &&
      !first.source().op->is_source() && !scope.names().contains(first.source().name))
    made = first.node;
  if (made < 0) return;
  scope.names()[graph.node(made).name] = scope.prefix() + name_of(node);
}

void Importer::add_node(const pb::Node& node, OnnxScope& scope, const Opsets& opsets, int depth) {
  try {
    const auto function = functions_.find({domain_of(node), node.op_type()});
    if (function != functions_.end()) {
      const OnnxNode::Values inputs = inputs_of(node, scope);
      if (add_own_op(node, inputs, scope)) return;
      return call(*function->second, node, inputs, scope, depth);
    }
    OnnxNode::Values inputs = inputs_of(node, scope);
    const auto images =
        version_of(node, opsets) >= 7 ? operands_with_channels_last(node.op_type(), inputs) : std::nullopt;
    if (images) {
      inputs.outputs = *images;
      inputs.views.clear();
    }
    Converted converted(*this, node, scope, opsets, depth, std::move(inputs));
    const int nodes_before = scope.graph().size();
    const auto names = scope.graph().scope(name_of(node));
    find_onnx_op(domain_of(node), node.op_type())->convert(converted);
    if (images) converted.set_images(0, converted.outputs().outputs.at(0));
    note_name(node, converted.outputs(), scope, nodes_before, converted.takes_over());
    set_outputs(node, converted.outputs(), scope);
  } catch (...) {
    throw current_error().within(title(node));
  }
}

// False if the function is not one that export_onnx() added, or one of another version: then its body tells.
bool Importer::add_own_op(const pb::Node& node, const OnnxNode::Values& inputs, OnnxScope& scope) {
  const OpDef* op = find_own_op(node);
  if (!op) return false;
  Outputs read = inputs.outputs;
  for (std::size_t i = 0; i < read.size(); ++i)
    if (const OnnxViewPtr view = inputs.view(static_cast<int>(i))) read[i] = view->get();
  const int nodes_before = scope.graph().size();
  OnnxNode::Values out;
  try {
    const auto names = scope.graph().scope(name_of(node));
    out.outputs = add_outputs(op->name, read, own_attributes(*op, node));
  } catch (const Error&) {
    return false;
  }
  out.outputs.resize(std::min(out.outputs.size(), static_cast<std::size_t>(node.output_size())));
  for (const Output& y : out.outputs) out.types.push_back({{}, y.dtype(), y.shape()});
  note_name(node, out, scope, nodes_before);
  set_outputs(node, out, scope);
  return true;
}

// A call of a local function: its nodes are added in place of the call.
void Importer::call(const pb::Function& function, const pb::Node& node, const OnnxNode::Values& inputs,
                    OnnxScope& scope, int depth) {
  if (depth >= kMaxOnnxDepth) invalid_argument("functions are nested more than {} deep", kMaxOnnxDepth);
  const auto given_inputs = static_cast<int>(inputs.outputs.size());
  if (given_inputs > function.input_size())
    invalid_argument("takes {} inputs, {} were given", function.input_size(), given_inputs);
  std::map<std::string, const pb::Attribute*> given;
  for (const pb::Attribute& a : function.attribute_proto()) given[a.name()] = &a;
  for (const pb::Attribute& a : node.attribute()) given[a.name()] = &a;
  const Opsets opsets = opsets_of(function);
  OnnxScope inner(scope.graph(), scope.names(), scope.prefix() + name_of(node) + "/");
  for (int i = 0; i < given_inputs; ++i) {
    const auto index = static_cast<std::size_t>(i);
    OnnxScope::Value value{inputs.outputs[index], inputs.types[index], inputs.view(i)};
    if (value.found()) inner.set(function.input(i), std::move(value));
  }
  inner.set_readers(readers_of(function));
  const auto names = scope.graph().scope(name_of(node));
  for (const pb::Node& step : function.node()) {
    pb::Node resolved = step;
    for (int i = resolved.attribute_size(); i-- > 0;) {
      pb::Attribute& attribute = *resolved.mutable_attribute(i);
      if (attribute.ref_attr_name().empty()) continue;
      const auto found = given.find(attribute.ref_attr_name());
      const std::string own = attribute.name();
      if (found == given.end()) {
        resolved.mutable_attribute()->DeleteSubrange(i, 1);
      } else {
        attribute = *found->second;
        attribute.set_name(own);
      }
    }
    count_node();
    add_node(resolved, inner, opsets, depth + 1);
  }
  OnnxNode::Values outputs;
  for (int i = 0; i < node.output_size(); ++i) {
    OnnxScope::Value value = i < function.output_size() ? inner.find(function.output(i)) : OnnxScope::Value{};
    outputs.outputs.push_back(value.output);
    outputs.types.push_back(std::move(value.type));
    outputs.views.push_back(std::move(value.view));
  }
  set_outputs(node, outputs, scope);
}

}  // namespace

OnnxModel import_onnx_model(const pb::Model& model, const OnnxImportOptions& options, const ReadExternal& read) {
  return Importer(model, options, read).run();
}

}  // namespace troupe
