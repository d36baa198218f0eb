// What a model says of itself.
#include <algorithm>
#include <set>

#include "messages/proto/onnx.pb.h"
#include <troupe/graph/formats/onnx/onnx_export.hpp>
#include <troupe/graph/formats/onnx/onnx_node.hpp>
#include <troupe/graph/formats/onnx/onnx_tensors.hpp>

namespace troupe {
namespace {

constexpr int kMaxInfoDepth = 64;

std::string type_text(const onnx::Type& type) {
  try {
    return to_string(from_onnx_type(type));
  } catch (const Error& error) {
    return fmt::format("({})", error.message());
  }
}

constexpr std::int64_t kShownClasses = 10;

class OpCounter {
 public:
  OpCounter(OnnxInfo& info, const onnx::Model& model) : info_(info) {
    for (const onnx::Function& f : model.functions()) functions_.insert(full_name(f.domain(), f.name()));
  }
  void add(const onnx::Graph& graph, int depth = 0) {
    if (depth > kMaxInfoDepth) invalid_argument("graphs are nested more than {} deep", kMaxInfoDepth);
    for (const onnx::Node& node : graph.node()) add(node, depth);
    for (const onnx::Tensor& tensor : graph.initializer()) {
      ++info_.initializers;
      std::int64_t elements = 1;
      for (const std::int64_t d : tensor.dims())
        if (d < 0 || __builtin_mul_overflow(elements, d, &elements))
          fail(Code::data_loss, "tensor '{}' has dimensions that no tensor has", tensor.name());
      std::int64_t bytes = 0;
      try {
        bytes = static_cast<std::int64_t>(size_of(from_onnx_dtype(tensor.data_type())));
      } catch (const Error&) {  // of a type that Troupe lacks: it has elements all the same
      }
      if (__builtin_add_overflow(info_.parameters, elements, &info_.parameters) ||
          __builtin_mul_overflow(bytes, elements, &bytes) ||
          __builtin_add_overflow(info_.parameter_bytes, bytes, &info_.parameter_bytes))
        fail(Code::data_loss, "tensor '{}' has more elements than there can be", tensor.name());
    }
  }
  void add(const onnx::Node& node, int depth) {
    const std::string name = full_name(node.domain(), node.op_type());
    const std::string domain = node.domain() == "ai.onnx" ? "" : node.domain();
    if (++info_.ops[name] == 1 && !functions_.contains(name) && !find_onnx_op(domain, node.op_type()))
      info_.unknown_ops.push_back(name);
    for (const onnx::Attribute& attribute : node.attribute()) {
      if (attribute.has_g()) add(attribute.g(), depth + 1);
      for (const onnx::Graph& graph : attribute.graphs()) add(graph, depth + 1);
    }
  }

 private:
  static std::string full_name(const std::string& domain, const std::string& op) {
    return domain.empty() || domain == "ai.onnx" ? op : domain + "." + op;
  }
  OnnxInfo& info_;
  std::set<std::string> functions_;
};

}  // namespace

std::string class_labels(const OnnxType& type) {
  if (!type.classes.valid()) return "";
  const std::int64_t count = type.classes.num_elements();
  std::string out;
  for (std::int64_t i = 0; i < std::min(count, kShownClasses); ++i) {
    const auto at = static_cast<std::size_t>(i);
    out += (i == 0 ? "" : ", ") + (type.classes.dtype() == DType::string
                                       ? type.classes.values<std::string>()[at]
                                       : std::to_string(type.classes.values<std::int64_t>()[at]));
  }
  if (count > kShownClasses) out += fmt::format(" and {} more", count - kShownClasses);
  return out;
}

std::string to_string(const OnnxType& type) {
  if (!type.is_list()) {
    const std::string labels = class_labels(type);
    return std::string(name(type.dtype)) + type.shape.to_string() + (labels.empty() ? "" : " of classes " + labels);
  }
  return (type.lists.front() == OnnxType::List::optional ? "optional " : "sequence of ") + to_string(type.item());
}

OnnxInfo onnx_info(std::string_view bytes) {
  onnx::Model model;
  if (bytes.size() > 0x7fffffffu || !model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) ||
      !model.has_graph())
    fail(Code::data_loss, "not an ONNX model, or a damaged one");
  OnnxInfo info;
  info.producer = model.producer_name() + (model.producer_version().empty() ? "" : " " + model.producer_version());
  info.ir_version = model.ir_version();
  info.functions = model.functions_size();
  for (const onnx::OperatorSetId& id : model.opset_import())
    info.opsets[id.domain().empty() ? "ai.onnx" : id.domain()] = id.version();
  OpCounter counter(info, model);
  counter.add(model.graph());
  for (const onnx::Function& f : model.functions())
    for (const onnx::Node& node : f.node()) counter.add(node, 0);
  std::ranges::sort(info.unknown_ops);
  std::set<std::string> given;
  for (const onnx::Tensor& tensor : model.graph().initializer()) given.insert(tensor.name());
  for (const onnx::ValueInfo& input : model.graph().input())
    if (!given.contains(input.name())) info.inputs.emplace_back(input.name(), type_text(input.type()));
  for (const onnx::ValueInfo& output : model.graph().output())
    info.outputs.emplace_back(output.name(), type_text(output.type()));
  return info;
}

OnnxOps onnx_ops() {
  OnnxOps out{.read = known_onnx_ops()};
  for (const std::string& name : standard_ops().names()) {
    const OpDef& op = *standard_ops().find(name);
    // Sources are initializers, inputs and arguments of a model. What crosses partitions is in no graph that users
    // build.
    if (op.is_source() || op.is_boundary()) continue;
    (name == "ReadVariable" || find_onnx_writer(name) ? out.written : out.refused).push_back(name);
  }
  return out;
}

}  // namespace troupe
