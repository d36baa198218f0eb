#include "troupe/graph/builder/functions.hpp"

#include <utility>

#include <troupe/graph/graph_host.hpp>

namespace troupe {
namespace {

// Bodies run as a part of their node, on its device and without waiting.
void check_bodies_node(const Node& node, const std::string& function, const std::string& device) {
  if (node.op->is_boundary())
    invalid_argument("{} '{}' cannot be in the body '{}': make it before, and read it in the body", node.op->name,
                     node.name, function);
  if (!node.device.empty() && node.device != device)
    invalid_argument("{} '{}' is to run on {}, but all of the body '{}' runs on one device: that of {}", node.op->name,
                     node.name, node.device, function, device.empty() ? "its branch or loop" : device);
}

}  // namespace

Graph* graph_being_built() { return graph_being_built_of_thread(); }
BuildScope::BuildScope(Graph* graph) : outer_(std::exchange(graph_being_built_of_thread(), graph)) {}
BuildScope::~BuildScope() { graph_being_built_of_thread() = outer_; }

FunctionBuilder::FunctionBuilder(Graph& outer, std::string name)
    : outer_(outer),
      body_(std::make_shared<Graph>(outer.ops())),
      scope_(body_->scope(name)),
      function_{.name = std::move(name)} {
  body_->set_around(&outer, [this](const Output& output) { return bring_in(output); });
  building_.emplace(body_.get());
}

FunctionBuilder::~FunctionBuilder() { body_->set_around(nullptr, nullptr); }

Output FunctionBuilder::argument(DType dtype, const Shape& shape) { return add_argument(dtype, shape); }

Output FunctionBuilder::add_argument(DType dtype, const Shape& shape) {
  const auto index = std::ssize(function_.arguments);
  const Node& arg = body_->add({.op = "Arg",
                                .name = "arg_" + std::to_string(index),
                                .attributes = {{"T", dtype}, {"index", std::int64_t{index}}, {"shape", shape}}});
  function_.arguments.push_back({arg.id, 0});
  return body_->output(arg);
}

Output FunctionBuilder::bring_in(const Output& outer) {
  const auto [at, fresh] = brought_in_.try_emplace({outer.eager.get(), {outer.node, outer.index}});
  if (!fresh) return at->second;
  if (outer.eager) {
    kept_.push_back(outer);
    return at->second = constant(*body_, outer.value());
  }
  const Node& source = outer.source();
  if (source.op->role == OpRole::constant) return at->second = constant(*body_, source.attributes.tensor("value"));
  captures_.push_back(outer);
  return at->second = add_argument(outer.dtype(), outer.shape());
}

Function FunctionBuilder::finish(const Outputs& results) {
  for (const Output& given : results) {
    const Output result = body_->brought_in(given);
    function_.results.push_back({result.node, result.index});
  }
  for (int id = 0; id < body_->size(); ++id)
    check_bodies_node(body_->node(id), function_.name, outer_.current_device());
  body_->set_around(nullptr, nullptr);
  building_.reset();
  function_.body = body_;
  return std::move(function_);
}

void copy_functions(const Graph& from, const Node& node, Graph& to) {
  for (const AttrDef& attr : node.op->attrs) {
    if (attr.type != AttrType::function || !node.attributes.has(attr.name)) continue;
    const std::string& name = node.attributes.get<FunctionName>(attr.name).value;
    // A body has the functions that it calls itself.
    if (const Function* function = from.function(name); function && !to.function(name)) to.add_function(*function);
  }
}

Outputs inline_function(Graph& graph, const Function& function, const Outputs& inputs, const std::string& scope) {
  if (inputs.size() != function.arguments.size())
    invalid_argument("function '{}' takes {} arguments, {} were given", function.name, function.arguments.size(),
                     inputs.size());
  const Graph& body = *function.body;
  std::vector<Outputs> values(static_cast<std::size_t>(body.size()));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Endpoint argument = function.arguments[i];
    if (body.dtype(argument) != inputs[i].dtype())
      invalid_argument("function '{}': argument {} must be {}, not {}", function.name, i, name(body.dtype(argument)),
                       name(inputs[i].dtype()));
    values[static_cast<std::size_t>(argument.node)] = {inputs[i]};
  }
  const auto names = graph.scope(scope);
  const auto value = [&](Endpoint e) {
    return values[static_cast<std::size_t>(e.node)][static_cast<std::size_t>(e.index)];
  };
  std::vector<const Node*> copies(values.size(), nullptr);
  for (const int id : body.topological_order()) {
    const Node& node = body.node(id);
    if (node.op->role == OpRole::argument) continue;
    NodeSpec spec{.op = node.op->name, .attributes = node.attributes, .device = node.device};
    for (const Endpoint& e : node.inputs) spec.inputs.push_back(value(e));
    for (const int control : node.controls)
      if (const Node* before = copies[static_cast<std::size_t>(control)])
        spec.controls.push_back(graph.output(*before));
    copy_functions(body, node, graph);
    const Node& copy = graph.add(std::move(spec));
    // Shapes that attributes and inputs do not tell, those of loops and branches.
    for (int i = 0; i < static_cast<int>(copy.output_shapes.size()); ++i)
      graph.refine_shape(copy, i, node.output_shapes[static_cast<std::size_t>(i)]);
    copies[static_cast<std::size_t>(id)] = &copy;
    values[static_cast<std::size_t>(id)] = outputs_of(graph, copy);
  }
  Outputs results;
  for (const Endpoint& e : function.results) results.push_back(value(e));
  return results;
}

Graph& graph_for(const Outputs& inputs) {
  Graph* graph = inputs.front().graph;
  for (const Output& input : inputs)
    if (input.valid() && input.graph != graph && input.graph->is_within(*graph)) graph = input.graph;
  Graph* const being_built = graph_being_built();
  return being_built && being_built->is_within(*graph) ? *being_built : *graph;
}

}  // namespace troupe
