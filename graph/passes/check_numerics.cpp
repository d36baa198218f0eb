#include "troupe/graph/passes/check_numerics.hpp"

#include <troupe/graph/rewrite.hpp>

namespace troupe {
namespace {

bool is_checked(const Node& node, int output) {
  return node.op->has_kernel() && is_floating(node.output_types[static_cast<std::size_t>(output)]);
}

// Consumers of a checked output read the check's.
void add_check(Rewriter& rewriter, const Node& old, const Node& made, int output) {
  Graph& to = rewriter.to();
  std::vector<Output> inputs{to.output(made, output)};
  for (const Endpoint& e : made.inputs)
    if (is_data(to.dtype(e))) inputs.push_back({&to, e.node, e.index});
  const std::string which = old.output_types.size() > 1 ? fmt::format(", output {}", output) : "";
  const Node& check = to.add({.op = "CheckNumerics",
                              .name = rewriter.new_name(old.name + "/check"),
                              .inputs = std::move(inputs),
                              .attributes = {{"message", fmt::format("{} '{}'{}", old.op->name, old.name, which)}},
                              .device = made.device,
                              .colocate_with = made.colocate_with});
  rewriter.replace({old.id, output}, {check.id, 0});
}

struct Checked {
  std::unique_ptr<Graph> graph;
  std::vector<Endpoint> results;
};

// `results`: outputs of the graph that are wanted, for functions.
Checked with_checks(const Graph& graph, const std::vector<Endpoint>& results) {
  Rewriter rewriter(graph);
  for (const int id : graph.topological_order()) {
    const Node& old = graph.node(id);
    const Node& made = rewriter.copy(old);
    for (int i = 0; i < static_cast<int>(old.output_types.size()); ++i)
      if (is_checked(old, i)) add_check(rewriter, old, made, i);
  }
  const std::vector<Endpoint> mapped = rewriter.mapped(results);
  Checked out{rewriter.finish(), mapped};
  for (const auto& [name, function] : graph.functions()) {
    std::vector<Endpoint> wanted = function.results;
    wanted.insert(wanted.end(), function.arguments.begin(), function.arguments.end());
    Checked body = with_checks(*function.body, wanted);
    Function checked{.name = name, .body = std::move(body.graph), .arguments = {}, .results = {}};
    const auto end = body.results.begin() + std::ssize(function.results);
    checked.results.assign(body.results.begin(), end);
    checked.arguments.assign(end, body.results.end());
    out.graph->replace_function(std::move(checked));
  }
  return out;
}

}  // namespace

std::unique_ptr<Graph> check_numerics(const Graph& graph) { return with_checks(graph, {}).graph; }

}  // namespace troupe
