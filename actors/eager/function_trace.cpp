#include "troupe/actors/eager/function_trace.hpp"

#include <algorithm>
#include <utility>

#include <troupe/actors/eager/values.hpp>
#include <troupe/graph/builder/core.hpp>
#include <troupe/graph/op_runner.hpp>

namespace troupe {
namespace {

// Effects of a node on what is not a variable, its own or those of the functions that it calls.
bool has_effects(const Graph& graph, const Node& node) {
  if (node.op->has_effects) return true;
  for (const AttrDef& attr : node.op->attrs) {
    if (attr.type != AttrType::function || !node.attributes.has(attr.name)) continue;
    const Function* function = graph.function(node.attributes.get<FunctionName>(attr.name).value);
    if (!function) continue;
    for (int id = 0; id < function->body->size(); ++id)
      if (has_effects(*function->body, function->body->node(id))) return true;
  }
  return false;
}

bool takes_variables(const NodeSpec& op) {
  return std::ranges::any_of(op.inputs, [](const Output& x) { return x.valid() && x.dtype() == DType::resource; });
}

}  // namespace

FunctionTrace::FunctionTrace(Graph& eager, const std::vector<TracedArgument>& arguments, const std::string& device,
                             const std::function<Outputs(const Outputs&)>& body)
    : eager_(eager), shared_graph_(std::make_shared<Graph>(eager.ops())) {
  graph_.share_eager_defaults();
  graph_.set_around(&eager, [this](const Output& value) { return bring_in(value); });
  struct Ended {
    ~Ended() {
      graph.set_around(&eager, [](const Output&) -> Output {
        invalid_argument("a tensor of a function that was traced has no value outside of it: return it");
      });
    }
    Graph& graph;
    Graph& eager;
  } const ended{graph_, eager};
  const auto plain = graph_.without_defaults();
  const auto there = graph_.on_device(device);
  for (std::size_t i = 0; i < arguments.size(); ++i)
    arguments_.push_back(placeholder(graph_, arguments[i].dtype, arguments[i].shape, "argument_" + std::to_string(i)));
  {
    const OpRecorder::Pause pause;
    const BuildScope building(&graph_);
    struct Current {
      explicit Current(FunctionTrace* trace) : outer(std::exchange(current, trace)) {}
      ~Current() { current = outer; }
      FunctionTrace* const outer;
    } now(this);
    const Outputs results = body(arguments_);
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (!results[i].valid()) invalid_argument("result {} is not a tensor", i);
      const Output inside = graph_.brought_in(results[i]);
      const Node& source = inside.source();
      // Fetched are only values that a node computes.
      results_.push_back(source.op->is_source() ? identity(inside) : inside);
    }
  }
  order_effects();
}

bool FunctionTrace::builds(const Graph& eager) const {
  const Graph* inner = graph_being_built();
  return &eager == &eager_ && inner && inner->is_within(graph_);
}

std::vector<Output> FunctionTrace::add(const NodeSpec& op) {
  Graph* graph = graph_being_built();
  if (eager_.ops().get(op.op).role == OpRole::variable)
    invalid_argument(
        "variable '{}' cannot begin with a value that a traced function computes: make it before, or of values that "
        "are known",
        op.name);
  if (takes_variables(op) && graph != &graph_) {
    // Gradients reach what the body reads of the tensors around it.
    if (!eager_.ops().get(op.op).reads_only)
      fail(Code::unimplemented,
           "{}: the body of a loop or branch of a traced function cannot change a variable: return the value, and "
           "assign it behind",
           op.op);
    graph = &graph_;
  }
  NodeSpec node = op;
  if (!node.name.empty()) node.name = graph->unique_name(node.name).substr(graph->current_scope().size());
  std::vector<Output> outputs = graph->apply(node);
  if (takes_variables(op) && eager_.ops().get(op.op).reads_only)
    for (Capture& capture : captures_)
      if (capture.value == op.inputs[0]) capture.inside.push_back(outputs[0]);
  return outputs;
}

Output FunctionTrace::add_constant(Tensor value) {
  Graph& graph = *graph_being_built();
  return graph.constant(std::move(value), {});
}

Output FunctionTrace::bring_in(const Output& value) {
  if (!value.eager) invalid_argument("a target of eager mode has no value");
  if (const auto known = captured_.find(value.eager.get()); known != captured_.end()) return known->second;
  const auto plain = graph_.without_defaults();
  if (is_floating(value.dtype())) {  // gradients may be wanted
    const Output inside = placeholder(graph_, value.dtype(), value.shape(), graph_.unique_name("captured"));
    captures_.push_back({value, {inside}});
    return captured_[value.eager.get()] = inside;
  }
  if (value.dtype() != DType::resource) {
    constants_.push_back(value);  // so that no other value gets its place in memory
    return captured_[value.eager.get()] = graph_.constant(value.value(), {});
  }
  const Node& source = value.source();
  const auto there = graph_.on_device(source.device);
  const std::string name = graph_.unique_name(source.name);
  variables_->share(name, static_cast<const EagerVariable&>(*value.eager).shared());
  captures_.push_back({value, {}});
  return captured_[value.eager.get()] =
             graph_.output(graph_.add({.op = source.op->name, .name = name, .attributes = source.attributes}));
}

// Nodes have the order of the program.
void FunctionTrace::order_effects() {
  struct State {
    int write = -1;
    std::vector<int> reads{};  // since then
  };
  std::map<int, State> states;  // of variables, by their nodes
  int last_effect = -1;
  const auto follow = [&](int before, int after) {
    if (before >= 0) graph_.add_control_edge(graph_.node(before), graph_.node(after));
  };
  for (int id = 0; id < graph_.size(); ++id) {
    const Node& node = graph_.node(id);
    bool acts = has_effects(graph_, node);
    if (acts) follow(std::exchange(last_effect, id), id);
    for (const Endpoint& e : node.inputs) {
      if (graph_.dtype(e) != DType::resource) continue;
      State& state = states[e.node];
      follow(state.write, id);
      if (node.op->reads_only) {
        state.reads.push_back(id);
        continue;
      }
      for (const int read : state.reads) follow(read, id);
      state = {.write = id};
      acts = true;
    }
    if (acts) effects_.push_back({&graph_, id, 0});
  }
}

}  // namespace troupe
