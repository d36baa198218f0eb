// Ops that ONNX does not have: calls of functions of the model, in our domain, whose bodies are ONNX's ops. Runtimes
// run the body; import_onnx() knows the op by its name and attributes.
#include "messages/proto/onnx.pb.h"
#include <troupe/graph/formats/onnx/export_graph.hpp>
#include <troupe/graph/formats/onnx/onnx_tensors.hpp>

namespace troupe {
namespace {

// The attributes that do not follow from the inputs.
Attributes attributes_of_call(const Node& node) {
  Attributes out;
  for (const auto& [name, value] : node.attributes.all())
    if (node.op->find_attr(name) && !follows_from_inputs(*node.op, name)) out.set(name, value);
  return out;
}

// A function's constants are nodes.
void add_constants(const OnnxExportState& state, onnx::Function& out) {
  for (const auto& [name, value] : state.initializers) {
    onnx::Node& node = *out.add_node();
    node.set_op_type("Constant");
    node.add_output(name);
    onnx::Attribute& attribute = *node.add_attribute();
    attribute.set_name("value");
    attribute.set_type(onnx::Attribute::TENSOR);
    to_onnx_tensor(value, "", *attribute.mutable_t());
  }
}

}  // namespace

bool follows_from_inputs(const OpDef& op, std::string_view attribute) {
  for (const ArgDef& input : op.inputs)
    if (input.type_attr == attribute || input.count_attr == attribute || input.types_attr == attribute) return true;
  return false;
}

std::string OnnxExportState::function_name(const std::string& op, onnx::Function&& function) {
  const auto [known, fresh] = function_names.try_emplace(function.SerializeAsString());
  if (!fresh) return known->second;
  const int others = ++functions_of[op] - 1;
  known->second = others == 0 ? op : fmt::format("{}_{}", op, others);
  function.set_name(known->second);
  functions.push_back(function.SerializeAsString());
  return known->second;
}

void OnnxGraphWriter::write_function(const Node& node, OnnxWriter compose) {
  const OpDef& op = *node.op;
  OnnxExportState inner{.what = state_.what, .opset = state_.opset};
  onnx::Graph body;
  OnnxGraphWriter writer(inner, graph_, body);
  writer.prefix_ = op.name;
  onnx::Function function;
  OnnxNames inputs, outputs;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const std::string name = inner.unique_name(op.inputs.at(i).name);
    function.add_input(name);
    writer.bind(node.inputs[i], name, {{}, graph_.dtype(node.inputs[i]), graph_.shape(node.inputs[i])});
    inputs.push_back(plain(node.inputs[i]));
  }
  for (int i = 0; i < static_cast<int>(op.outputs.size()); ++i)
    if (const Endpoint e{node.id, i}; wanted_.contains(e)) {
      writer.wanted_.insert(e);
      writer.output_names_[e] = op.outputs[static_cast<std::size_t>(i)].name;
    }
  OnnxExportNode view(writer, node);
  compose(view);
  state_.needed_opset = std::max(state_.needed_opset, inner.needed_opset);
  for (const auto& [e, name] : writer.output_names_) {
    if (writer.plain(e) != name) writer.set(e, writer.add("Identity", {writer.plain(e)}, 1, {}, nullptr)[0], false);
    function.add_output(writer.plain(e));
  }
  const Attributes attributes = attributes_of_call(node);
  for (const auto& [name, value] : attributes.all()) function.add_attribute(name);
  function.set_domain(kOnnxOwnDomain);
  function.add_opset_import()->set_version(state_.opset);
  add_constants(inner, function);
  for (onnx::Node& step : *body.mutable_node()) {
    step.clear_name();
    *function.add_node() = std::move(step);
  }
  onnx::Node* call = nullptr;
  const OnnxNames results = add(state_.function_name(op.name, std::move(function)), std::move(inputs),
                                static_cast<int>(writer.output_names_.size()), attributes, &call);
  call->set_domain(kOnnxOwnDomain);
  std::size_t next = 0;
  for (const auto& [e, name] : writer.output_names_) set(e, results[next++], false);
}

void OnnxExportNode::set_by_function(OnnxWriter compose) const { writer_.write_function(node_, compose); }

}  // namespace troupe
