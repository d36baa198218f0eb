// The gradient of If: another If, whose branches go back through the original branches.
#include <troupe/graph/ops/gradients.hpp>

namespace troupe {
namespace {

// Results and arguments that a branch is differentiated between, by position.
struct Flow {
  std::vector<int> results;
  std::vector<int> arguments;
};

// A copy of `function` without the nodes that its results do not need: a recomputed branch must not repeat side
// effects.
Function pruned(Function function) {
  const Graph& full = *function.body;
  std::vector<bool> wanted(static_cast<std::size_t>(full.size()), false);
  std::vector<int> pending;
  const auto want = [&](int id) {
    if (!wanted[static_cast<std::size_t>(id)]) pending.push_back(id);
    wanted[static_cast<std::size_t>(id)] = true;
  };
  for (const Endpoint& e : function.arguments) want(e.node);
  for (const Endpoint& e : function.results) want(e.node);
  while (!pending.empty()) {
    const Node& node = full.node(pending.back());
    pending.pop_back();
    for (const Endpoint& e : node.inputs) want(e.node);
  }
  auto body = std::make_shared<Graph>(full.ops());
  std::vector<int> moved(wanted.size(), -1);
  for (int id : full.topological_order()) {
    if (!wanted[static_cast<std::size_t>(id)]) continue;
    const Node& node = full.node(id);
    std::vector<Endpoint> inputs = node.inputs;
    for (Endpoint& e : inputs) e.node = moved[static_cast<std::size_t>(e.node)];
    std::vector<int> controls;
    for (int c : node.controls)
      if (moved[static_cast<std::size_t>(c)] >= 0) controls.push_back(moved[static_cast<std::size_t>(c)]);
    moved[static_cast<std::size_t>(id)] = body->add_copy(node, std::move(inputs), std::move(controls)).id;
  }
  for (auto* endpoints : {&function.arguments, &function.results})
    for (Endpoint& e : *endpoints) e.node = moved[static_cast<std::size_t>(e.node)];
  for (const auto& [name, inner] : full.functions()) body->add_function(inner);
  function.body = std::move(body);
  return function;
}

// The function (arguments of the branch, gradients of flow.results) -> gradients of flow.arguments.
Function branch_gradient(const Function& branch, const std::string& name, const Flow& flow,
                         const Outputs& output_gradients) {
  const std::shared_ptr<Graph> body = branch.body->clone();
  const auto scope = body->scope(name);  // ends before body does
  Function out{.name = name, .arguments = branch.arguments};
  Outputs ys, xs;
  GradientOptions options;
  for (std::size_t i = 0; i < flow.results.size(); ++i) {
    const Endpoint e = branch.results[static_cast<std::size_t>(flow.results[i])];
    const Node& arg = body->add({.op = "Arg",
                                 .name = "gradient_" + std::to_string(flow.results[i]),
                                 .attributes = {{"T", output_gradients[i].dtype()},
                                                {"index", static_cast<std::int64_t>(out.arguments.size())},
                                                {"shape", body->shape(e)}}});
    ys.push_back({body.get(), e.node, e.index});
    options.grad_ys.push_back(body->output(arg));
    out.arguments.push_back({arg.id, 0});
  }
  for (int i : flow.arguments) xs.push_back({body.get(), branch.arguments[static_cast<std::size_t>(i)].node, 0});
  const std::vector<Gradient> found = gradients(ys, xs, options);
  for (std::size_t i = 0; i < xs.size(); ++i) {
    const Output result = dense(found[i], xs[i]);
    out.results.push_back({result.node, result.index});
  }
  out.body = body;
  return pruned(std::move(out));
}

}  // namespace

void if_gradient(GradientContext& c) {
  Graph& graph = c.graph();
  const auto branch = [&](const char* attribute) -> const Function& {
    const auto& wanted = c.attributes().get<FunctionName>(attribute).value;
    const Function* function = graph.function(wanted);
    if (!function) fail(Code::not_found, "the graph has no function '{}'", wanted);
    return *function;
  };
  Flow flow;
  Outputs inputs, output_gradients;
  for (int i = 1; i < c.num_inputs(); ++i) {
    inputs.push_back(c.input(i));
    if (c.needs(i)) flow.arguments.push_back(i - 1);
  }
  for (int i = 0; i < c.num_outputs(); ++i) {
    if (!c.has_grad(i)) continue;
    flow.results.push_back(i);
    output_gradients.push_back(c.grad(i));
  }
  const std::string full = graph.unique_name("If");
  for (const auto& [attribute, suffix] : {std::pair{"then_branch", "/then"}, std::pair{"else_branch", "/else"}})
    graph.add_function(branch_gradient(branch(attribute), full + suffix, flow, output_gradients));
  inputs.insert(inputs.end(), output_gradients.begin(), output_gradients.end());
  const Outputs results =
      if_else(c.input(0), inputs, full + "/then", full + "/else", full.substr(graph.current_scope().size()));
  for (std::size_t i = 0; i < results.size(); ++i) c.set(flow.arguments[i] + 1, results[i]);
}

}  // namespace troupe
