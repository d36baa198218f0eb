// Builds graphs from SavedModels, node by node; converters (node.hpp) know the ops, control.cpp calls of functions.
#include <algorithm>
#include <set>

#include "messages/proto/tensorflow.pb.h"
#include <troupe/graph/formats/import.hpp>
#include <troupe/graph/formats/saved_model/importer.hpp>
#include <troupe/graph/formats/saved_model/saved_model.hpp>
#include <troupe/graph/formats/saved_model/tensors.hpp>

namespace troupe {
namespace {

namespace tf = troupe::tensorflow;

constexpr std::uint64_t kRepeatedBytes = 1ull << 30;  // of constants that repeat one element
constexpr std::string_view kInitOp = "__saved_model_init_op";

std::string short_name(const std::string& name) {
  constexpr std::size_t kMost = 80;
  return name.size() <= kMost ? name : name.substr(0, kMost) + "...";
}

}  // namespace

std::string TfImporter::title(const tf::NodeDef& node) {
  return fmt::format("{} '{}'", node.op(), short_name(node.name()));
}

TfImporter::TfImporter(const tf::MetaGraphDef& model, const TensorflowFiles& files,
                       const TensorflowImportOptions& options)
    : model_(model),
      options_(options),
      graph_(std::make_unique<Graph>()),
      repeated_bytes_(kRepeatedBytes),
      objects_(model, files, options, *graph_, repeated_bytes_) {
  if (!model.has_object_graph_def())
    version_1_ = std::make_unique<TfVersion1>(model, files, options, *graph_, repeated_bytes_);
}
TfImporter::~TfImporter() = default;

const TfFunction& TfImporter::function(const std::string& name) {
  std::unique_ptr<TfFunction>& found = functions_[name];
  if (!found) {
    const auto own = of_signatures_.find(name);
    const tf::FunctionDef* def = own != of_signatures_.end() ? own->second.get() : objects_.function(name);
    if (!def) fail(Code::data_loss, "there is no function '{}'", short_name(name));
    try {
      found = std::make_unique<TfFunction>(*def);
    } catch (...) {
      throw current_error().within(fmt::format("function '{}'", short_name(name)));
    }
  }
  return *found;
}

// The functions that a node names.
std::vector<std::string> TfImporter::callees(const tf::NodeDef& node) const {
  std::vector<std::string> out;
  if (objects_.function(node.op())) out.push_back(node.op());
  for (const auto& [name, attribute] : node.attr()) {
    if (attribute.has_func()) out.push_back(attribute.func().name());
    for (const tf::NameAttrList& f : attribute.list().func()) out.push_back(f.name());
  }
  return out;
}

// Lists the ops that are not known of the functions that signatures call, at most a few nodes of each.
void TfImporter::refuse_unknown_ops(const std::vector<std::string>& roots) {
  std::map<std::string, std::vector<std::string>> unknown;
  std::set<std::string> seen(roots.begin(), roots.end());
  std::vector<std::string> open = roots;
  while (!open.empty()) {
    const std::string name = open.back();
    open.pop_back();
    for (const tf::NodeDef* node : function(name).nodes()) {
      ++nodes_of_model_;
      if (is_call(*node)) {
        for (const std::string& callee : callees(*node))
          if (seen.insert(callee).second) open.push_back(callee);
      } else if (!find_tensorflow_op(node->op()) && !is_resource(*node)) {
        unknown[node->op()].push_back(short_name(node->name()));
      }
    }
  }
  if (unknown.empty()) return;
  std::string text;
  for (const auto& [op, nodes] : unknown) {
    text += fmt::format("{}{}: ", text.empty() ? "" : "; ", op);
    for (std::size_t i = 0; i < std::min<std::size_t>(nodes.size(), 3); ++i) text += (i == 0 ? "" : ", ") + nodes[i];
    if (nodes.size() > 3) text += fmt::format(" and {} more", nodes.size() - 3);
  }
  fail(Code::unimplemented, "ops that are not known: {}", text);
}

// The call that a signature's results come from.
const tf::NodeDef& TfImporter::call_of(const tf::SignatureDef& signature) const {
  const tf::NodeDef* call = nullptr;
  for (const auto& [name, info] : signature.outputs()) {
    const std::string_view wanted = parse_tensorflow_input(info.name()).node;
    if (call && call->name() != wanted)
      fail(Code::unimplemented, "its results come from several nodes, although the model has objects");
    for (const tf::NodeDef& node : model_.graph_def().node())
      if (!call && node.name() == wanted) call = &node;
    if (!call) fail(Code::data_loss, "result '{}' comes from '{}', which is not there", name, short_name(info.name()));
  }
  if (!call) fail(Code::unimplemented, "it has no results");
  if (call->op() != "StatefulPartitionedCall" && call->op() != "PartitionedCall")
    fail(Code::unimplemented, "its results come from {}, not from a function, although the model has objects",
         title(*call));
  return *call;
}

std::string TfImporter::root_of(const std::string& name, const tf::SignatureDef& signature) {
  if (!version_1_) return function_of(call_of(signature), "f");
  if (signature.outputs().empty()) fail(Code::unimplemented, "it has no results");
  const std::string root = "signature " + name;  // functions have no such names
  of_signatures_[root] = std::make_unique<const tf::FunctionDef>(version_1_->function_of(signature));
  return root;
}

TensorflowSignature TfImporter::add_signature_of_graph(const std::string& name, const tf::SignatureDef& signature) {
  TensorflowSignature out;
  TfValues arguments;
  const std::map<std::string, tf::TensorInfo> inputs(signature.inputs().begin(), signature.inputs().end());
  for (const auto& [key, info] : inputs) {
    out.inputs[key] =
        placeholder(*graph_, from_tensorflow_dtype(info.dtype()), from_tensorflow_shape(info.tensor_shape()),
                    graph_->unique_name(node_name(name + "/" + key)));
    arguments.push_back({out.inputs[key], {}, {}});
  }
  const std::map<std::string, tf::TensorInfo> outputs(signature.outputs().begin(), signature.outputs().end());
  const TfValues results = call_function("signature " + name, arguments, *graph_, 0);
  std::size_t i = 0;
  for (const auto& [key, info] : outputs) {
    if (!results[i].output.valid()) fail(Code::unimplemented, "result '{}' is no tensor", key);
    out.outputs[key] = graph_->brought_in(results[i++].output);
  }
  return out;
}

TensorflowSignature TfImporter::add_signature(const std::string& name, const tf::SignatureDef& signature) {
  if (version_1_) return add_signature_of_graph(name, signature);
  const tf::NodeDef& call = call_of(signature);
  const std::string function_name = function_of(call, "f");
  const TfFunction& f = function(function_name);
  const auto& functions = model_.object_graph_def().concrete_functions();
  const auto bound = functions.find(function_name);
  if (bound == functions.end())
    fail(Code::unimplemented, "its function '{}' is no object of the model", short_name(function_name));
  const int captured = bound->second.bound_inputs_size(), given = f.num_arguments() - captured;
  if (given < 0) fail(Code::data_loss, "{} objects are bound to {} arguments", captured, f.num_arguments());
  TensorflowSignature out;
  TfValues arguments(static_cast<std::size_t>(f.num_arguments()));
  for (const auto& [key, info] : signature.inputs()) {
    int at = 0;  // of the call's input
    while (at < given && (at >= call.input_size() ||
                          parse_tensorflow_input(call.input(at)).node != parse_tensorflow_input(info.name()).node))
      ++at;
    if (at == given) fail(Code::data_loss, "input '{}' is no argument of its function", key);
    const Output x =
        placeholder(*graph_, from_tensorflow_dtype(info.dtype()), from_tensorflow_shape(info.tensor_shape()),
                    graph_->unique_name(node_name(name + "/" + key)));
    out.inputs[key] = x;
    arguments[static_cast<std::size_t>(at)] = {x, {}, {}};
  }
  for (int i = 0; i < captured; ++i)
    arguments[static_cast<std::size_t>(given + i)] = objects_.value_of(bound->second.bound_inputs(i));
  const TfValues results = call_function(function_name, arguments, *graph_, 0);
  for (const auto& [key, info] : signature.outputs()) {
    const int at = parse_tensorflow_input(info.name()).index;
    if (at >= std::ssize(results) || !results[static_cast<std::size_t>(at)].output.valid())
      fail(Code::data_loss, "result '{}' is not a tensor that its function returns", key);
    out.outputs[key] = graph_->brought_in(results[static_cast<std::size_t>(at)].output);
  }
  return out;
}

TensorflowModel TfImporter::run() {
  std::map<std::string, const tf::SignatureDef*> signatures;
  for (const auto& [name, signature] : model_.signature_def())
    if (name != kInitOp && (options_.signatures.empty() || std::ranges::count(options_.signatures, name) > 0))
      signatures[name] = &signature;
  for (const std::string& name : options_.signatures)
    if (!signatures.contains(name)) fail(Code::not_found, "the model has no signature '{}'", name);
  if (signatures.empty()) fail(Code::unimplemented, "the model has no signatures");
  const auto each = [&](auto&& visit) {
    for (const auto& [name, signature] : signatures) {
      try {
        visit(name, *signature);
      } catch (...) {
        throw current_error().within(fmt::format("signature '{}'", name));
      }
    }
  };
  std::vector<std::string> roots;
  each([&](const std::string& name, const tf::SignatureDef& signature) { roots.push_back(root_of(name, signature)); });
  refuse_unknown_ops(roots);
  TensorflowModel out;
  each([&](const std::string& name, const tf::SignatureDef& signature) {
    out.signatures[name] = add_signature(name, signature);
  });
  out.variables = version_1_ ? version_1_->variables() : objects_.variables();
  out.version = model_.meta_info_def().tensorflow_version();
  out.graph = std::move(graph_);
  return out;
}

TensorflowModel parse_tensorflow(std::string_view bytes, const TensorflowFiles& files,
                                 const TensorflowImportOptions& options) {
  if (bytes.size() > 0x7fffffffu) invalid_argument("a model has at most 2 GiB");
  tf::SavedModel model;
  if (!model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) || model.meta_graphs_size() == 0)
    fail(Code::data_loss, "not a SavedModel, or a damaged one");
  const auto serves = [](const tf::MetaGraphDef& graph) {
    return std::ranges::count(graph.meta_info_def().tags(), "serve") > 0;
  };
  const auto found = std::ranges::find_if(model.meta_graphs(), serves);
  if (found == model.meta_graphs().end()) fail(Code::unimplemented, "the model has no graph with the tag 'serve'");
  return TfImporter(*found, files, options).run();
}

}  // namespace troupe
