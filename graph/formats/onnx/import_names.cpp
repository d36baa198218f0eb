#include "troupe/graph/formats/onnx/import_names.hpp"

#include <fmt/format.h>

#include <set>

namespace troupe {
namespace {

// Names of all graphs of a program, which are all different.
class NewNames {
 public:
  NewNames(const Graph& graph, const OnnxNodeNames& names) : names_(names) { keep(graph); }

  std::string of(const Node& node) {
    const auto wanted = names_.find(node.name);
    if (wanted == names_.end()) return node.name;
    if (taken_.insert(wanted->second).second) return wanted->second;
    std::string own = node.name;
    for (int i = 1; !taken_.insert(own).second; ++i) own = fmt::format("{}_{}", node.name, i);
    return own;
  }

 private:
  void keep(const Graph& graph) {
    for (int id = 0; id < graph.size(); ++id)
      if (!names_.contains(graph.node(id).name)) taken_.insert(graph.node(id).name);
    for (const auto& [name, function] : graph.functions()) keep(*function.body);
  }

  const OnnxNodeNames& names_;
  std::set<std::string> taken_;
};

std::unique_ptr<Graph> copy_with_names(const Graph& from, NewNames& names) {
  auto to = std::make_unique<Graph>(from.ops());
  for (int id = 0; id < from.size(); ++id) {
    Node node = from.node(id);
    node.name = names.of(node);
    to->add_copy(node, node.inputs, node.controls);
  }
  for (const auto& [name, function] : from.functions()) {
    Function copy = function;
    copy.body = copy_with_names(*function.body, names);
    to->add_function(std::move(copy));
  }
  return to;
}

}  // namespace

std::unique_ptr<Graph> with_node_names(const Graph& graph, const OnnxNodeNames& wanted) {
  NewNames names(graph, wanted);
  return copy_with_names(graph, names);
}

}  // namespace troupe
