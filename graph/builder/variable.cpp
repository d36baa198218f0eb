#include "troupe/graph/builder/variable.hpp"

#include <algorithm>
#include <optional>

#include <troupe/graph/builder/array.hpp>
#include <troupe/graph/builder/functions.hpp>

namespace troupe {
namespace {

// Free-form attributes of the Variable node.
constexpr const char* kTrainable = "_trainable";
constexpr const char* kInitialValue = "_initial_value";
constexpr const char* kInitializer = "_initializer";
constexpr const char* kOnDemand = "_on_demand";

// Zeros for variable `of`.
Output zeros(Graph& graph, DType dtype, const Shape& shape, std::string_view of) {
  if (!shape.fully_known())
    invalid_argument(
        "variable '{}': needs an initial value, or a fully known shape to fill with zeros; its shape is {}", of,
        shape.to_string());
  const auto scope = graph.scope("zeros");
  const Output dims = constant(graph, Tensor::of<std::int64_t>(Shape{shape.rank()}, shape.dims()), "dims");
  return fill(dims, constant(graph, Tensor::zeros(dtype, Shape{}), "value"));
}

Output node_of(Output handle, const char* op, Outputs inputs, DType dtype, Name name, Attributes attributes = {}) {
  Graph& graph = *handle.graph;
  inputs.insert(inputs.begin(), handle);
  attributes.set("T", dtype);
  return graph.apply({.op = op,
                      .name = std::move(name),
                      .inputs = std::move(inputs),
                      .attributes = std::move(attributes),
                      .device = handle.source().device,
                      .colocate_with = handle.source().name})[0];
}

template <class T>
T note(const Node& node, const char* name, T otherwise) {
  return node.attributes.has(name) ? node.attributes.get<T>(name) : otherwise;
}

// Not a resource, such as a queue.
bool is_variable(const Node& node) { return node.op->role == OpRole::variable && node.attributes.has("T"); }

// The endpoint named by "node" or "node:1", or {-1, 0}.
Endpoint find_endpoint(const Graph& graph, const std::string& text) {
  const std::size_t colon = text.find(':');
  const Node* node = graph.find(text.substr(0, colon));
  if (!node) return {};
  const std::string_view digits = colon == std::string::npos ? "0" : std::string_view(text).substr(colon + 1);
  for (int i = 0; i < static_cast<int>(node->output_types.size()); ++i)
    if (std::to_string(i) == digits) return {node->id, i};
  return {};
}

VariableInfo describe(const Graph& graph, const Node& node) {
  VariableInfo info{.name = node.name,
                    .dtype = node.attributes.dtype("T"),
                    .shape = node.attributes.shape("shape"),
                    .handle = {node.id, 0}};
  try {
    info.trainable = note(node, kTrainable, true);
    info.on_demand = note(node, kOnDemand, false);
    const auto value = note<std::string>(node, kInitialValue, "");
    info.initial_value = find_endpoint(graph, value);
    if (info.initial_value.node >= 0 && graph.dtype(info.initial_value) != info.dtype)
      invalid_argument("its initial value '{}' is {}", value, name(graph.dtype(info.initial_value)));
    const auto initializer = note<std::string>(node, kInitializer, "");
    if (graph.find(initializer)) info.initializer = initializer;
  } catch (const Error& error) {
    throw error.within(fmt::format("variable '{}'", node.name));
  }
  return info;
}

}  // namespace

VariableRef variable(Graph& graph, VariableOptions options) {
  std::optional<InitScope> init;
  if (graph.is_eager() && (!options.initial_value.valid() || options.initial_value.eager)) init.emplace();
  if (options.name.ends_with('/'))  // its nodes would be "w//read" and so on
    invalid_argument("variable '{}': a name cannot end with '/'", graph.current_scope() + options.name);
  const std::string full = graph.unique_name(options.name);
  const std::string local = full.substr(graph.current_scope().size());
  const auto device = graph.on_device(options.device);
  VariableRef ref;
  {
    const auto scope = graph.scope(local);
    const Output value =
        options.initial_value.valid() ? options.initial_value : zeros(graph, options.dtype, options.shape, full);
    ref.initial_value = identity(value, "initial_value");
  }
  const auto shape = ref.initial_value.shape().merged(options.shape);
  if (!shape)
    invalid_argument("variable '{}': the shape is {}, but the initial value is {}", full, options.shape.to_string(),
                     ref.initial_value.shape().to_string());
  ref.dtype = ref.initial_value.dtype();
  ref.shape = *shape;
  ref.name = full;
  Attributes attributes{{"T", ref.dtype},
                        {"shape", ref.shape},
                        {kTrainable, options.trainable},
                        {kInitialValue, ref.initial_value.name()},
                        {kInitializer, full + "/assign"}};
  if (options.on_demand) attributes.set(kOnDemand, true);
  ref.handle = graph.apply({.op = "Variable", .name = local, .attributes = std::move(attributes)})[0];
  const auto scope = graph.scope(local);
  node_of(ref.handle, "AssignVariable", {ref.initial_value}, ref.dtype, "assign");
  if (graph.is_eager())
    ref.initial_value = {};  // its memory is the variable's from now on
  else
    node_of(ref.handle, "ReadVariable", {}, ref.dtype, "read");
  return ref;
}

Output VariableRef::read() const { return handle.eager ? fresh_read() : handle.graph->output(name + "/read"); }
Output VariableRef::fresh_read() const { return node_of(handle, "ReadVariable", {}, dtype, {}); }
Output VariableRef::assign(Output value) const { return node_of(handle, "AssignVariable", {value}, dtype, {}); }
Output VariableRef::assign_add(Output value) const { return node_of(handle, "AssignAddVariable", {value}, dtype, {}); }
Output VariableRef::assign_sub(Output value) const { return node_of(handle, "AssignSubVariable", {value}, dtype, {}); }

Output VariableRef::scatter(Output rows, Output updates, std::string reduction) const {
  return scatter_nd(expand_dims(rows, -1), updates, std::move(reduction));
}
Output VariableRef::scatter_nd(Output indices, Output updates, std::string reduction) const {
  return node_of(handle, "ScatterVariable", {indices, updates}, dtype, {}, {{"reduction", std::move(reduction)}});
}

std::vector<VariableInfo> variables(const Graph& graph) {
  std::vector<VariableInfo> out;
  for (int id = 0; id < graph.size(); ++id)
    if (is_variable(graph.node(id))) out.push_back(describe(graph, graph.node(id)));
  std::ranges::sort(out, {}, &VariableInfo::name);
  return out;
}

bool is_on_demand(const Node& variable) { return note(variable, kOnDemand, false); }

VariableRef find_variable(Graph& graph, std::string_view name) {
  const Node* node = graph.find(name);
  if (!node || !is_variable(*node)) fail(Code::not_found, "the graph has no variable '{}'", name);
  const VariableInfo info = describe(graph, *node);
  VariableRef ref{.handle = graph.output(*node), .dtype = info.dtype, .shape = info.shape, .name = info.name};
  if (info.initial_value.node >= 0) ref.initial_value = {&graph, info.initial_value.node, info.initial_value.index};
  return ref;
}

Output initializer(Graph& graph, Name name) {
  Outputs assigns;
  for (const VariableInfo& v : variables(graph))
    if (!v.initializer.empty()) assigns.push_back(graph.output(graph.get(v.initializer)));
  const std::string full = graph.unique_name(name);
  return group(graph, assigns, full.substr(graph.current_scope().size()));
}

Output initialize_once(Graph& graph, Name name) {
  Outputs set;
  for (const VariableInfo& v : variables(graph))
    if (v.initial_value.node >= 0)
      set.push_back(node_of({&graph, v.handle.node, 0}, "InitializeVariable",
                            {{&graph, v.initial_value.node, v.initial_value.index}}, v.dtype, {}));
  const std::string full = graph.unique_name(name);
  return group(graph, set, full.substr(graph.current_scope().size()));
}

}  // namespace troupe
