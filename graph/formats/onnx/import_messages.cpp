#include "troupe/graph/formats/onnx/import_messages.hpp"

#include <algorithm>
#include <cctype>

#include "messages/proto/onnx.pb.h"
#include <troupe/graph/formats/onnx/onnx_export.hpp>
#include <troupe/graph/formats/onnx/onnx_tensors.hpp>

namespace troupe {

namespace pb = troupe::onnx;

namespace {

void add_inner_readers(const pb::Node& node, OnnxScope::Readers& out, int depth) {
  if (depth > kMaxOnnxDepth) invalid_argument("graphs are nested more than {} deep", kMaxOnnxDepth);
  const auto add = [&](const pb::Graph& graph) {
    for (const pb::ValueInfo& output : graph.output()) out[output.name()].push_back(nullptr);
    for (const pb::Node& inner : graph.node()) {
      for (const std::string& input : inner.input()) out[input].push_back(nullptr);
      add_inner_readers(inner, out, depth + 1);
    }
  };
  for (const pb::Attribute& attribute : node.attribute()) {
    if (attribute.has_g()) add(attribute.g());
    for (const pb::Graph& graph : attribute.graphs()) add(graph);
  }
}
template <class Nodes>
OnnxScope::Readers readers_of_nodes(const Nodes& nodes) {
  OnnxScope::Readers out;
  for (const pb::Node& node : nodes) {
    for (const std::string& input : node.input()) out[input].push_back(&node);
    add_inner_readers(node, out, 0);
  }
  return out;
}

// Or that of the first output, if the node has none.
const std::string& given_name(const pb::Node& node) {
  return node.name().empty() && node.output_size() > 0 ? node.output(0) : node.name();
}

template <class List>
Opsets opsets_in(const List& list) {
  Opsets out;
  for (const pb::OperatorSetId& id : list) out[id.domain() == "ai.onnx" ? "" : id.domain()] = id.version();
  return out;
}

AttrValue own_attribute(const pb::Attribute& given, const AttrDef& wanted) {
  switch (wanted.type) {
    case AttrType::integer:
      return given.i();
    case AttrType::boolean:
      return given.i() != 0;
    case AttrType::real:
      return static_cast<double>(given.f());
    case AttrType::string:
      return given.s();
    case AttrType::dtype:
      return from_onnx_dtype(static_cast<std::int32_t>(given.i()));
    case AttrType::integers:
      return std::vector<std::int64_t>(given.ints().begin(), given.ints().end());
    default:
      fail(Code::unimplemented, "attribute '{}' cannot be in a model", wanted.name);
  }
}

}  // namespace

std::string title(const pb::Node& node) { return fmt::format("{} '{}'", node.op_type(), given_name(node)); }

std::string name_of(const pb::Node& node) { return node_name(given_name(node)); }

std::string domain_of(const pb::Node& node) { return node.domain() == "ai.onnx" ? "" : node.domain(); }

Opsets opsets_of(const pb::Model& model) { return opsets_in(model.opset_import()); }
Opsets opsets_of(const pb::Function& function) { return opsets_in(function.opset_import()); }

std::int64_t version_of(const pb::Node& node, const Opsets& opsets) {
  const auto found = opsets.find(domain_of(node));
  return found == opsets.end() ? 1 : found->second;
}

OnnxScope::Readers readers_of(const pb::Graph& graph) {
  OnnxScope::Readers out = readers_of_nodes(graph.node());
  for (const pb::ValueInfo& output : graph.output()) out[output.name()].push_back(nullptr);
  return out;
}

OnnxScope::Readers readers_of(const pb::Function& function) {
  OnnxScope::Readers out = readers_of_nodes(function.node());
  for (const std::string& output : function.output()) out[output].push_back(nullptr);
  return out;
}

OnnxScope::Declared declared_in(const pb::Graph& graph) {
  OnnxScope::Declared out;
  for (const pb::ValueInfo& info : graph.value_info()) out[info.name()] = &info;
  for (const pb::ValueInfo& info : graph.output()) out[info.name()] = &info;
  return out;
}

const OpDef* find_own_op(const pb::Node& node) {
  if (node.domain() != kOnnxOwnDomain) return nullptr;
  std::string_view name = node.op_type();
  while (!name.empty() && std::isdigit(static_cast<unsigned char>(name.back()))) name.remove_suffix(1);
  if (name.ends_with('_')) name.remove_suffix(1);
  const OpDef* op = standard_ops().find(name);
  return op && op->has_kernel() && find_onnx_writer(name) ? op : nullptr;
}

Attributes own_attributes(const OpDef& op, const pb::Node& node) {
  Attributes out;
  for (const pb::Attribute& given : node.attribute()) {
    const AttrDef* wanted = op.find_attr(given.name());
    if (!wanted) invalid_argument("{} has no attribute '{}'", op.name, given.name());
    out.set(given.name(), own_attribute(given, *wanted));
  }
  return out;
}

std::optional<Outputs> operands_with_channels_last(std::string_view op, const OnnxNode::Values& inputs) {
  bool images = false;
  for (const OnnxViewPtr& view : inputs.views) images = images || (view && view->perm == kOnnxToImages);
  const OnnxOp* known = images ? find_onnx_op("", op) : nullptr;
  if (!known || known->images != OnnxImages::elementwise) return std::nullopt;
  Outputs out;
  for (std::size_t i = 0; i < inputs.outputs.size(); ++i) {
    const bool absent = !inputs.outputs[i].valid() && !inputs.views[i];
    out.push_back(absent ? Output() : with_channels_last(inputs.outputs[i], inputs.views[i]));
    if (!absent && !out.back().valid()) return std::nullopt;
  }
  return out;
}

}  // namespace troupe
