#include "troupe/graph/formats/serialize.hpp"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/stubs/logging.h>

#include <limits>

#include <troupe/graph/formats/import.hpp>
#include <troupe/graph/formats/serialize_proto.hpp>
#include <troupe/graph/loaded_ops.hpp>
#include <troupe/graph/rewrite.hpp>

namespace troupe {
namespace {

// Whether the tensor is one that travels beside the message.
bool goes_apart(const AttrValue& value) {
  const Tensor* tensor = std::get_if<Tensor>(&value);
  return tensor && tensor->valid() && tensor->space().on_host() && tensor->num_bytes() >= kApartBytes &&
         reinterpret_cast<std::uintptr_t>(tensor->raw()) % kBufferAlignment == 0;
}

// The version of what an op means. An op whose meaning changes, or that gets an attribute without which its
// nodes would be read wrongly, gets the next one here, and nodes_from_proto() turns earlier nodes into what they meant.
std::uint32_t version_of(std::string_view /*op*/) { return 1; }

proto::Node node_to_proto(const Graph& graph, const Node& node, std::vector<Tensor>* apart) {
  proto::Node out;
  out.set_name(node.name);
  out.set_op(node.op->name);
  if (const std::uint32_t version = version_of(node.op->name); version > 1) out.set_op_version(version);
  for (const Endpoint& e : node.inputs) out.add_input(output_name(graph, e));
  for (int c : node.controls) out.add_control(graph.node(c).name);
  out.set_device(node.device);
  out.set_colocate_with(node.colocate_with);
  for (const auto& [key, value] : node.attributes.all()) {
    proto::Attribute& added = (*out.mutable_attribute())[key];
    if (!apart || !goes_apart(value)) {
      added = to_proto(value);
      continue;
    }
    added.set_tensor_apart(static_cast<std::uint32_t>(apart->size()));
    apart->push_back(std::get<Tensor>(value));
  }
  return out;
}

proto::Function function_to_proto(const Function& function, std::vector<Tensor>* apart = nullptr) {
  proto::Function out;
  out.set_name(function.name);
  for (int id = 0; id < function.body->size(); ++id)
    *out.add_node() = node_to_proto(*function.body, function.body->node(id), apart);
  for (const Endpoint& e : function.results) out.add_result(output_name(*function.body, e));
  return out;
}

using ProtoNodes = google::protobuf::RepeatedPtrField<proto::Node>;

AttrValue attribute_from_proto(const proto::Attribute& message, std::span<const Tensor> apart) {
  if (message.value_case() != proto::Attribute::kTensorApart) return from_proto(message);
  if (message.tensor_apart() >= apart.size())
    invalid_argument("tensor {} is not with the graph, which came with {}", message.tensor_apart(), apart.size());
  return apart[message.tensor_apart()];
}

std::vector<ImportedNode> nodes_from_proto(const ProtoNodes& messages, std::span<const Tensor> apart) {
  std::vector<ImportedNode> nodes;
  nodes.reserve(static_cast<std::size_t>(messages.size()));
  for (const proto::Node& message : messages) {
    ImportedNode& node = nodes.emplace_back();
    node.op = message.op();
    node.name = message.name();
    if (message.op_version() > version_of(node.op))
      fail(Code::unimplemented, "node '{}': its op {} has version {}, this program knows {}: use a later Troupe",
           node.name, node.op, message.op_version(), version_of(node.op));
    node.inputs.assign(message.input().begin(), message.input().end());
    node.controls.assign(message.control().begin(), message.control().end());
    node.device = message.device();
    node.colocate_with = message.colocate_with();
    for (const auto& [key, value] : message.attribute()) {
      try {
        node.attributes.set(key, attribute_from_proto(value, apart));
      } catch (const Error& error) {
        throw error.within(fmt::format("node '{}': attribute '{}'", node.name, key));
      }
    }
  }
  return nodes;
}

template <class Message>
std::string deterministic_bytes(const Message& message) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);  // maps by key
  if (!message.SerializeToCodedStream(&coded)) invalid_argument("the graph cannot be serialized");
  coded.Trim();
  return bytes;
}

// Collects functions of the graph and, recursively, of their bodies. A name stands for one function.
void collect_functions(const Graph& graph, int depth, std::map<std::string, const Function*>& found) {
  if (depth > kMaxFunctionDepth && !graph.functions().empty())
    invalid_argument("functions are nested deeper than {}", kMaxFunctionDepth);
  for (const auto& [name, function] : graph.functions()) {
    const auto [it, first] = found.emplace(name, &function);
    if (first) {
      collect_functions(*function.body, depth + 1, found);
    } else if (it->second->body != function.body && deterministic_bytes(function_to_proto(*it->second)) !=
                                                        deterministic_bytes(function_to_proto(function))) {
      invalid_argument("two different functions are named '{}'", name);
    }
  }
}

}  // namespace

proto::Graph to_proto(const Graph& graph, std::vector<Tensor>* apart) {
  proto::Graph out;
  out.set_version(kGraphVersion);
  for (int id = 0; id < graph.size(); ++id) *out.add_node() = node_to_proto(graph, graph.node(id), apart);
  std::map<std::string, const Function*> functions;
  collect_functions(graph, 1, functions);
  for (const auto& [name, function] : functions) *out.add_function() = function_to_proto(*function, apart);
  for (const OpLibraryId& library : libraries_of(graph)) {
    proto::OpLibrary& added = *out.add_library();
    added.set_name(library.name);
    added.set_version(library.version);
    added.set_sha256(library.sha256);
  }
  return out;
}

std::string serialize(const Graph& graph) {
  const proto::Graph message = to_proto(graph);
  if (message.ByteSizeLong() > static_cast<std::size_t>(std::numeric_limits<int>::max()))
    invalid_argument("the graph is larger than 2 GiB: load large constants into variables instead");
  return deterministic_bytes(message);
}

std::unique_ptr<Graph> from_proto(const proto::Graph& message, const OpRegistry& ops, std::span<const Tensor> apart) {
  if (message.version() == 0) fail(Code::data_loss, "the data has no version: it is not a graph, or is truncated");
  if (message.version() != kGraphVersion)
    invalid_argument("the graph has version {}; this program reads version {}", message.version(), kGraphVersion);
  for (const proto::OpLibrary& library : message.library())
    check_loaded({library.name(), library.version(), library.sha256()});
  ImportedGraph imported{.nodes = nodes_from_proto(message.node(), apart)};
  for (const proto::Function& f : message.function())
    imported.functions.push_back({.name = f.name(),
                                  .nodes = nodes_from_proto(f.node(), apart),
                                  .results = {f.result().begin(), f.result().end()}});
  return import_graph(imported, ops);
}

std::unique_ptr<Graph> parse_graph(std::string_view bytes, const OpRegistry& ops) {
  proto::Graph message;
  if (bytes.size() > static_cast<std::size_t>(std::numeric_limits<int>::max()))
    invalid_argument("a graph of {} bytes exceeds the limit of 2 GiB", bytes.size());
  const google::protobuf::LogSilencer silence;  // bad input is reported to the caller, not to stderr
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    fail(Code::data_loss, "{} bytes of data are not a graph, or are truncated", bytes.size());
  return from_proto(message, ops);
}

}  // namespace troupe
