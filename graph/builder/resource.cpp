#include "troupe/graph/builder/resource.hpp"

#include <optional>

#include <troupe/graph/builder/functions.hpp>
#include <troupe/messages/device_name.hpp>

namespace troupe {
namespace {

// Kernels of resources are those of CPUs: where a GPU is asked for, its task's first CPU.
std::string cpu_of(const std::string& device) {
  DeviceName name = DeviceName::parse(device);
  if (name.type != "CPU") name.index.reset();
  name.type = "CPU";
  if (!name.index) name.index = 0;
  return name.to_string();
}

// The body would run it once, before the loop: only its inputs say where a node belongs.
void refuse_in_body(const Name& op, const Output& handle) {
  const Graph* inner = graph_being_built();
  if (inner && inner->around() && !inner->around()->is_eager() && inner->is_within(*handle.graph))
    fail(Code::unimplemented, "{}: the body of a loop or branch cannot wait, or change what steps share: do it outside",
         op);
}

}  // namespace

Output add_resource(Graph& graph, Name op, Attributes attributes, ResourceOptions options) {
  std::optional<InitScope> init;
  if (graph.is_eager()) init.emplace();
  const std::string full = graph.unique_name(options.name.empty() ? static_cast<const std::string&>(op) : options.name);
  const auto device = graph.on_device(options.device);
  attributes.set("_trainable", false);
  NodeSpec spec{.op = op,
                .name = full.substr(graph.current_scope().size()),
                .attributes = std::move(attributes),
                .device = cpu_of(graph.current_device())};
  return graph.apply(std::move(spec))[0];
}

Outputs add_resource_call(Name op, Output handle, Outputs inputs, Attributes attributes, Name name) {
  refuse_in_body(op, handle);
  inputs.insert(inputs.begin(), handle);
  return add_outputs(std::move(op), std::move(inputs), std::move(attributes), std::move(name));
}

Output add_resource_target(Name op, Output handle, Outputs inputs, Attributes attributes, Name name) {
  refuse_in_body(op, handle);
  inputs.insert(inputs.begin(), handle);
  Graph* graph = handle.graph;
  for (const Output& input : inputs)
    if (input.valid() && input.graph != graph && input.graph->is_within(*graph)) graph = input.graph;
  NodeSpec spec{
      .op = std::move(op), .name = std::move(name), .inputs = std::move(inputs), .attributes = std::move(attributes)};
  if (!graph->is_eager()) return add_target(*graph, std::move(spec));
  graph->apply(std::move(spec));
  return {.graph = graph};
}

}  // namespace troupe
