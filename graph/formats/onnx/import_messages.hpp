// Names, versions and readers of the nodes of a model, which the importer needs before it builds anything.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include <troupe/graph/formats/onnx/import_scope.hpp>
#include <troupe/graph/formats/onnx/onnx_node.hpp>

namespace troupe::onnx {
class Function;
class Model;
}  // namespace troupe::onnx

namespace troupe {

inline constexpr int kMaxOnnxDepth = 32;  // of graphs in graphs, and of functions that call functions

// "Conv 'conv1'": how errors name a node.
std::string title(const onnx::Node& node);
// Its name in our graph, or the beginning of the names of its nodes.
std::string name_of(const onnx::Node& node);

using Opsets = std::map<std::string, std::int64_t>;  // by domain; "" is ai.onnx
std::string domain_of(const onnx::Node& node);
Opsets opsets_of(const onnx::Model& model);
Opsets opsets_of(const onnx::Function& function);
std::int64_t version_of(const onnx::Node& node, const Opsets& opsets);

// The readers of each value of a graph. Nodes of graphs inside are readers too.
OnnxScope::Readers readers_of(const onnx::Graph& graph);
OnnxScope::Readers readers_of(const onnx::Function& function);
OnnxScope::Declared declared_in(const onnx::Graph& graph);

// The op of ours that a function stands for which export_onnx() added; null if it is no such function.
const OpDef* find_own_op(const onnx::Node& node);
Attributes own_attributes(const OpDef& op, const onnx::Node& node);

// The operands of an elementwise node with channels last, if one of them is images and all others can be.
std::optional<Outputs> operands_with_channels_last(std::string_view op, const OnnxNode::Values& inputs);

}  // namespace troupe
