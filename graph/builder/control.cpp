// Branches become functions of the graph. A branch's nodes and nested functions are prefixed with the function's name,
// so that names are unique in the whole program.
#include "troupe/graph/builder/control.hpp"

namespace troupe {
namespace {

Function build_branch(Graph& outer, const std::string& name, const Outputs& inputs, const BranchFn& build) {
  auto body = std::make_shared<Graph>(outer.ops());
  const auto scope = body->scope(name);
  Function function{.name = name};
  Outputs arguments;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Node& arg = body->add(
        {.op = "Arg",
         .name = "arg_" + std::to_string(i),
         .attributes = {
             {"T", inputs[i].dtype()}, {"index", static_cast<std::int64_t>(i)}, {"shape", inputs[i].shape()}}});
    arguments.push_back(body->output(arg));
    function.arguments.push_back({arg.id, 0});
  }
  for (const Output& result : build(*body, arguments)) {
    if (result.graph != body.get())
      invalid_argument("branch '{}': result {} {}", name, function.results.size(),
                       result.valid() ? "belongs to another graph: pass it as an input" : "is not a tensor");
    function.results.push_back({result.node, result.index});
  }
  function.body = std::move(body);
  return function;
}

const Function& existing(const Graph& graph, const std::string& name) {
  const Function* function = graph.function(name);
  if (!function) fail(Code::not_found, "the graph has no function '{}'", name);
  return *function;
}

void check_arguments(const Function& function, const Outputs& inputs) {
  if (function.arguments.size() != inputs.size())
    invalid_argument("branch '{}' takes {} arguments, {} were given", function.name, function.arguments.size(),
                     inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (function.body->dtype(function.arguments[i]) != inputs[i].dtype())
      invalid_argument("branch '{}': argument {} must be {}, not {}", function.name, i,
                       name(function.body->dtype(function.arguments[i])), name(inputs[i].dtype()));
}

// The shape of a result, regardless of which branch runs.
Shape common(const Shape& a, const Shape& b) {
  if (!a.has_rank() || !b.has_rank() || a.rank() != b.rank()) return Shape::unknown_rank();
  Shape out = a;
  for (int i = 0; i < a.rank(); ++i)
    if (a[i] != b[i]) out.set_dim(i, kUnknown);
  return out;
}

std::vector<DType> result_types(const Function& then_branch, const Function& else_branch) {
  if (then_branch.results.size() != else_branch.results.size())
    invalid_argument("the branches return different numbers of results: {} and {}", then_branch.results.size(),
                     else_branch.results.size());
  std::vector<DType> types;
  for (std::size_t i = 0; i < then_branch.results.size(); ++i) {
    types.push_back(then_branch.body->dtype(then_branch.results[i]));
    const DType other = else_branch.body->dtype(else_branch.results[i]);
    if (other != types.back())
      invalid_argument("result {} is {} in one branch and {} in the other", i, name(types.back()), name(other));
  }
  return types;
}

}  // namespace

Outputs if_else(Output cond, const Outputs& inputs, const std::string& then_function, const std::string& else_function,
                Name name) {
  if (!cond.valid()) invalid_argument("If: cond is not a tensor");
  Graph& graph = *cond.graph;
  const Function& then_branch = existing(graph, then_function);
  const Function& else_branch = existing(graph, else_function);
  check_arguments(then_branch, inputs);
  check_arguments(else_branch, inputs);
  Outputs all = {cond};
  all.insert(all.end(), inputs.begin(), inputs.end());
  const Node& node = add_node("If", all,
                              {{"Tout", result_types(then_branch, else_branch)},
                               {"then_branch", FunctionName{then_function}},
                               {"else_branch", FunctionName{else_function}}},
                              std::move(name));
  for (std::size_t i = 0; i < then_branch.results.size(); ++i)
    graph.refine_shape(
        node, static_cast<int>(i),
        common(then_branch.body->shape(then_branch.results[i]), else_branch.body->shape(else_branch.results[i])));
  return outputs_of(graph, node);
}

Outputs if_else(Output cond, const Outputs& inputs, const BranchFn& then_branch, const BranchFn& else_branch,
                Name name) {
  if (!cond.valid()) invalid_argument("If: cond is not a tensor");
  for (const Output& input : inputs)
    if (input.graph != cond.graph)
      invalid_argument("If: an input {}", input.valid() ? "belongs to another graph" : "is not a tensor");
  Graph& graph = *cond.graph;
  const std::string full = name.empty() ? graph.unique_name("If") : graph.current_scope() + name;
  if (name.empty()) name = full.substr(graph.current_scope().size());
  Function on_true = build_branch(graph, full + "/then", inputs, then_branch);
  Function on_false = build_branch(graph, full + "/else", inputs, else_branch);
  result_types(on_true, on_false);  // before anything is added
  graph.add_function(std::move(on_true));
  graph.add_function(std::move(on_false));
  return if_else(cond, inputs, full + "/then", full + "/else", std::move(name));
}

}  // namespace troupe
