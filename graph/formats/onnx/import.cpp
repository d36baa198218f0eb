// Builds graphs from ONNX models, node by node; converters (onnx_node.hpp) know the ops.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <unordered_map>

#include "messages/proto/onnx.pb.h"
#include <troupe/graph/formats/onnx/onnx.hpp>
#include <troupe/graph/formats/onnx/onnx_node.hpp>
#include <troupe/graph/formats/onnx/onnx_tensors.hpp>

namespace troupe {
namespace {

namespace pb = troupe::onnx;

constexpr int kMaxDepth = 32;                  // of graphs in graphs, and of functions that call functions
constexpr std::int64_t kMaxNodes = 2'000'000;  // with those of called functions

using Weights = OnnxImportOptions::Weights;

// "Conv 'conv1'": how errors name a node.
std::string title(const pb::Node& node) {
  const std::string& name = !node.name().empty() ? node.name() : node.output_size() > 0 ? node.output(0) : node.name();
  return fmt::format("{} '{}'", node.op_type(), name);
}

// The name with characters that names of nodes may have; "x" for one that begins otherwise.
std::string node_name(std::string_view name) {
  std::string out;
  for (const char c : name) {
    const bool allowed = std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '/' || c == '-';
    out += allowed ? c : '_';
  }
  while (!out.empty() && out.back() == '/') out.pop_back();
  if (out.empty() || out.front() == '/' || out.front() == '-') out.insert(0, "x");
  return out;
}

using Opsets = std::map<std::string, std::int64_t>;  // by domain; "" is ai.onnx

std::string domain_of(const pb::Node& node) { return node.domain() == "ai.onnx" ? "" : node.domain(); }

template <class List>
Opsets opsets_of(const List& list) {
  Opsets out;
  for (const pb::OperatorSetId& id : list) out[id.domain() == "ai.onnx" ? "" : id.domain()] = id.version();
  return out;
}

using FunctionKey = std::pair<std::string, std::string>;  // domain, name
using LocalFunctions = std::map<FunctionKey, const pb::Function*>;

// Lists the ops of a model that are not known, at most a few nodes of each.
class UnknownOps {
 public:
  explicit UnknownOps(const LocalFunctions& functions) : functions_(functions) {}

  void add(const pb::Graph& graph, int depth = 0) {
    if (depth > kMaxDepth) invalid_argument("graphs are nested more than {} deep", kMaxDepth);
    for (const pb::Node& node : graph.node()) add(node, depth);
  }
  void add(const pb::Node& node, int depth) {
    const std::string domain = domain_of(node);
    const bool known =
        functions_.contains({domain, node.op_type()}) || (domain.empty() && find_onnx_op(node.op_type()) != nullptr);
    if (!known) nodes_[domain.empty() ? node.op_type() : domain + "." + node.op_type()].push_back(title(node));
    for (const pb::Attribute& attribute : node.attribute()) {
      if (attribute.has_g()) add(attribute.g(), depth + 1);
      for (const pb::Graph& graph : attribute.graphs()) add(graph, depth + 1);
    }
  }
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
};

// The values that nodes of one graph may read, by name: its own, and those of the graph around it, which become
// arguments of its function.
class Scope {
 public:
  explicit Scope(Graph& graph) : graph_(graph) {}
  Scope(Graph& graph, Scope& outer, Function& function, Outputs& captures)
      : graph_(graph), outer_(&outer), function_(&function), captures_(&captures) {}

  Graph& graph() { return graph_; }
  void set(const std::string& name, Output value) { values_[name] = value; }
  void set_constant(const std::string& name, Tensor value) { constants_[name] = std::move(value); }
  bool has(const std::string& name) const { return values_.contains(name) || constants_.contains(name); }

  // Invalid if there is no such value.
  Output find(const std::string& name) {
    if (const auto own = values_.find(name); own != values_.end()) return own->second;
    if (const Tensor* constant = find_constant(name))
      return values_[name] = troupe::constant(
                 graph_, *constant, graph_.unique_name(node_name(name)).substr(graph_.current_scope().size()));
    if (!outer_) return {};
    const Output around = outer_->find(name);
    if (!around.valid()) return {};
    const Node& arg = graph_.add({.op = "Arg",
                                  .attributes = {{"T", around.dtype()},
                                                 {"index", static_cast<std::int64_t>(function_->arguments.size())},
                                                 {"shape", around.shape()}}});
    function_->arguments.push_back({arg.id, 0});
    captures_->push_back(around);
    return values_[name] = graph_.output(arg);
  }

 private:
  const Tensor* find_constant(const std::string& name) const {
    const auto own = constants_.find(name);
    if (own != constants_.end()) return &own->second;
    return outer_ && !outer_->values_.contains(name) ? outer_->find_constant(name) : nullptr;
  }

  Graph& graph_;
  Scope* outer_ = nullptr;
  Function* function_ = nullptr;
  Outputs* captures_ = nullptr;
  std::unordered_map<std::string, Output> values_;
  std::unordered_map<std::string, Tensor> constants_;
};

class Importer {
 public:
  Importer(const pb::Model& model, const OnnxImportOptions& options, ReadExternal read)
      : model_(model), options_(options), read_(std::move(read)), opsets_(opsets_of(model.opset_import())) {
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

    OnnxModel out;
    out.graph = std::make_unique<Graph>();
    out.producer = model_.producer_name() + (model_.producer_version().empty() ? "" : " " + model_.producer_version());
    out.opset = opset("");
    Scope scope(*out.graph);
    add_initializers(model_.graph(), scope, &out);
    for (const pb::ValueInfo& input : model_.graph().input())
      if (!scope.has(input.name())) out.inputs.push_back(add_input(input, scope));
    add_nodes(model_.graph().node(), scope, opsets_, 0);
    for (const pb::ValueInfo& output : model_.graph().output()) {
      const Output value = scope.find(output.name());
      if (!value.valid()) invalid_argument("output '{}' is not the output of any node", output.name());
      out.outputs.push_back({output.name(), value, is_list(output.type())});
    }
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

  static bool is_list(const pb::Type& type) {
    return type.value_case() == pb::Type::kSequenceType || type.value_case() == pb::Type::kOptionalType;
  }

  OnnxValue add_input(const pb::ValueInfo& input, Scope& scope) const {
    try {
      if (!input.type().has_tensor_type()) fail(Code::unimplemented, "its type is not a tensor");
      const pb::Type::TensorType& type = input.type().tensor_type();
      const Shape shape = type.has_shape() ? from_onnx_shape(type.shape()) : Shape::unknown_rank();
      const std::string name = scope.graph().unique_name(node_name(input.name()));
      const Output value = placeholder(scope.graph(), from_onnx_dtype(type.elem_type()), shape, name);
      scope.set(input.name(), value);
      return {input.name(), value, false};
    } catch (...) {
      throw current_error().within(fmt::format("input '{}'", input.name()));
    }
  }

  void add_initializers(const pb::Graph& graph, Scope& scope, OnnxModel* model) const {
    if (graph.sparse_initializer_size() > 0) fail(Code::unimplemented, "sparse initializers are not supported");
    for (const pb::Tensor& tensor : graph.initializer()) {
      if (scope.has(tensor.name())) invalid_argument("initializer '{}' occurs twice", tensor.name());
      Tensor value = from_onnx_tensor(tensor, read_);
      if (!model || options_.weights == Weights::constants || !is_floating(value.dtype())) {
        scope.set_constant(tensor.name(), std::move(value));
        continue;
      }
      const std::string name = scope.graph().unique_name(node_name(tensor.name()));
      const VariableRef made = variable(scope.graph(), {.name = name,
                                                        .initial_value = constant(scope.graph(), std::move(value)),
                                                        .trainable = options_.weights == Weights::trainable});
      scope.set(tensor.name(), made.read());
      model->variables.push_back(made.name);
    }
  }

  template <class Nodes>
  void add_nodes(const Nodes& nodes, Scope& scope, const Opsets& opsets, int depth) {
    for (const pb::Node& node : nodes) {
      if (++nodes_ > kMaxNodes) fail(Code::resource_exhausted, "the model has more than {} nodes", kMaxNodes);
      add_node(node, scope, opsets, depth);
    }
  }

  void add_node(const pb::Node& node, Scope& scope, const Opsets& opsets, int depth);
  void call(const pb::Function& function, const pb::Node& node, const Outputs& inputs, Scope& scope, int depth);
  Outputs inputs_of(const pb::Node& node, Scope& scope) const;
  void set_outputs(const pb::Node& node, const Outputs& outputs, Scope& scope) const;

  const pb::Model& model_;
  const OnnxImportOptions& options_;
  ReadExternal read_;
  Opsets opsets_;
  LocalFunctions functions_;
  std::int64_t nodes_ = 0;
};

// A node with its converter's results.
class Importer::Converted final : public OnnxNode {
 public:
  Converted(Importer& importer, const pb::Node& node, Scope& scope, const Opsets& opsets, int depth)
      : OnnxNode(scope.graph(), node, version(node, opsets), importer.inputs_of(node, scope)),
        importer_(importer),
        scope_(scope),
        opsets_(opsets),
        depth_(depth) {}

  const Outputs& outputs() const { return outputs_; }

  Body body(std::string_view attribute, const std::vector<BodyInput>& inputs) override {
    const pb::Attribute* found = find(attribute);
    if (!found || !found->has_g()) invalid_argument("attribute '{}' is missing", attribute);
    if (depth_ >= kMaxDepth) invalid_argument("graphs are nested more than {} deep", kMaxDepth);
    const pb::Graph& graph = found->g();
    if (static_cast<std::size_t>(graph.input_size()) != inputs.size())
      invalid_argument("'{}' has {} inputs, not {}", attribute, graph.input_size(), inputs.size());
    Body out{.function = graph_.unique_name(std::string(attribute))};
    auto body = std::make_shared<troupe::Graph>(graph_.ops());
    Function function{.name = out.function};
    {
      const auto names = body->scope(out.function);
      Scope inner(*body, scope_, function, out.captures);
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        const Node& arg = body->add(
            {.op = "Arg",
             .attributes = {
                 {"T", inputs[i].dtype}, {"index", static_cast<std::int64_t>(i)}, {"shape", inputs[i].shape}}});
        function.arguments.push_back({arg.id, 0});
        inner.set(graph.input(static_cast<int>(i)).name(), body->output(arg));
      }
      importer_.add_initializers(graph, inner, nullptr);
      importer_.add_nodes(graph.node(), inner, opsets_, depth_ + 1);
      for (const pb::ValueInfo& output : graph.output()) {
        const Output value = inner.find(output.name());
        if (!value.valid()) invalid_argument("output '{}' of '{}' is not made by any node", output.name(), attribute);
        function.results.push_back({value.node, value.index});
      }
    }
    out.results = function.results.size();
    function.body = std::move(body);
    graph_.add_function(std::move(function));
    return out;
  }

 private:
  static std::int64_t version(const pb::Node& node, const Opsets& opsets) {
    const auto found = opsets.find(domain_of(node));
    return found == opsets.end() ? 1 : found->second;
  }

  Importer& importer_;
  Scope& scope_;
  const Opsets& opsets_;
  int depth_;
};

Outputs Importer::inputs_of(const pb::Node& node, Scope& scope) const {
  Outputs inputs;
  for (const std::string& name : node.input()) {
    inputs.push_back(name.empty() ? Output{} : scope.find(name));
    if (!name.empty() && !inputs.back().valid())
      invalid_argument("input '{}' is not the output of an earlier node", name);
  }
  return inputs;
}

void Importer::set_outputs(const pb::Node& node, const Outputs& outputs, Scope& scope) const {
  for (int i = 0; i < node.output_size(); ++i) {
    if (node.output(i).empty()) continue;
    const Output value = outputs[static_cast<std::size_t>(i)];
    if (!value.valid()) fail(Code::unimplemented, "output {} ('{}') is not supported", i, node.output(i));
    if (scope.has(node.output(i))) invalid_argument("'{}' is the output of two nodes", node.output(i));
    scope.set(node.output(i), value);
  }
}

void Importer::add_node(const pb::Node& node, Scope& scope, const Opsets& opsets, int depth) {
  try {
    const auto function = functions_.find({domain_of(node), node.op_type()});
    if (function != functions_.end()) return call(*function->second, node, inputs_of(node, scope), scope, depth);
    Converted converted(*this, node, scope, opsets, depth);
    const std::string name = !node.name().empty() ? node.name() : node.output_size() > 0 ? node.output(0) : "";
    const auto names = scope.graph().scope(node_name(name));
    find_onnx_op(node.op_type())(converted);
    set_outputs(node, converted.outputs(), scope);
  } catch (...) {
    throw current_error().within(title(node));
  }
}

// A call of a local function: its nodes are added in place of the call.
void Importer::call(const pb::Function& function, const pb::Node& node, const Outputs& inputs, Scope& scope,
                    int depth) {
  if (depth >= kMaxDepth) invalid_argument("functions are nested more than {} deep", kMaxDepth);
  if (inputs.size() > static_cast<std::size_t>(function.input_size()))
    invalid_argument("takes {} inputs, {} were given", function.input_size(), inputs.size());
  std::map<std::string, const pb::Attribute*> given;
  for (const pb::Attribute& a : function.attribute_proto()) given[a.name()] = &a;
  for (const pb::Attribute& a : node.attribute()) given[a.name()] = &a;
  const Opsets opsets = opsets_of(function.opset_import());
  Scope inner(scope.graph());
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].valid()) inner.set(function.input(static_cast<int>(i)), inputs[i]);
  const auto names = scope.graph().scope(node_name(node.name().empty() ? node.op_type() : node.name()));
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
    if (++nodes_ > kMaxNodes) fail(Code::resource_exhausted, "the model has more than {} nodes", kMaxNodes);
    add_node(resolved, inner, opsets, depth + 1);
  }
  Outputs outputs;
  for (int i = 0; i < node.output_size(); ++i)
    outputs.push_back(i < function.output_size() ? inner.find(function.output(i)) : Output{});
  set_outputs(node, outputs, scope);
}

// Reads files of the folder of a model, and of folders below it.
ReadExternal reader_of(const std::string& folder) {
  return [folder](const std::string& file, std::uint64_t offset, std::uint64_t length) {
    namespace fs = std::filesystem;
    const fs::path relative(file);
    const bool outside =
        file.empty() || relative.is_absolute() || std::ranges::find(relative, fs::path("..")) != relative.end();
    std::error_code error;
    const fs::path base = fs::weakly_canonical(folder.empty() ? "." : folder, error);
    const fs::path path = error ? fs::path() : fs::weakly_canonical(base / relative, error);
    const auto [end, unused] = std::ranges::mismatch(base, path);
    if (outside || error || end != base.end())
      invalid_argument("external data '{}' are not in the folder of the model", file);
    std::ifstream in(path, std::ios::binary | std::ios::ate);
    const auto size = in ? static_cast<std::uint64_t>(in.tellg()) : 0;
    if (!in || offset > size || length > size - offset)
      fail(Code::data_loss, "external data '{}' have {} bytes; {} from {} are needed", path.string(), size, length,
           offset);
    std::string bytes(length, '\0');
    in.seekg(static_cast<std::streamoff>(offset));
    if (!in.read(bytes.data(), static_cast<std::streamsize>(length)))
      fail(Code::data_loss, "cannot read {} bytes of '{}'", length, path.string());
    return bytes;
  };
}

}  // namespace

OnnxModel parse_onnx(std::string_view bytes, const OnnxImportOptions& options,
                     const std::optional<std::string>& folder) {
  pb::Model model;
  if (bytes.size() > 0x7fffffffu) invalid_argument("a model file has at most 2 GiB: keep its tensors in other files");
  if (!model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    fail(Code::data_loss, "not an ONNX model, or a damaged one");
  return Importer(model, options, folder ? reader_of(*folder) : ReadExternal()).run();
}

OnnxModel import_onnx(const std::string& path, const OnnxImportOptions& options) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  if (!in) fail(Code::not_found, "cannot open '{}'", path);
  const auto size = in.tellg();
  std::string bytes(size > 0 ? static_cast<std::size_t>(size) : 0, '\0');
  in.seekg(0);
  if (!in.read(bytes.data(), static_cast<std::streamsize>(bytes.size())))
    fail(Code::data_loss, "cannot read '{}'", path);
  try {
    return parse_onnx(bytes, options, std::filesystem::path(path).parent_path().string());
  } catch (...) {
    throw current_error().within(path);
  }
}

Tensor parse_onnx_tensor(std::string_view bytes) {
  pb::Tensor tensor;
  if (!tensor.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    fail(Code::data_loss, "not a tensor of ONNX's test data");
  return from_onnx_tensor(tensor);
}

}  // namespace troupe
