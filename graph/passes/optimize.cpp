#include "graph/passes/optimize.hpp"

#include <algorithm>

#include "graph/passes/common_subexpressions.hpp"
#include "graph/passes/prune.hpp"

namespace troupe {

std::vector<Pass> optimizations(const OptimizeOptions& options) {
  const auto fold = [evaluate = options.evaluator, bytes = options.folded_bytes](const Graph& graph) {
    return evaluate ? fold_constants(graph, evaluate, bytes) : graph.clone();
  };
  std::vector<Pass> passes = {
      {"prune", prune_callable},
      {"fold_constants", fold},
      {"common_subexpressions", eliminate_common_subexpressions},
      {"prune_again", prune_callable},  // what folding and sharing made superfluous
  };
  for (const std::string& name : options.switched_off)
    if (std::erase_if(passes, [&](const Pass& pass) { return pass.name == name; }) == 0)
      fail(Code::not_found, "there is no optimization '{}' to switch off", name);
  return passes;
}

std::unique_ptr<Graph> optimize(std::unique_ptr<Graph> graph, const OptimizeOptions& options) {
  for (const Pass& pass : optimizations(options)) {
    const int before = graph->size();
    const auto start = std::chrono::steady_clock::now();
    try {
      graph = pass.run(*graph);
    } catch (const Error& error) {
      throw error.within(fmt::format("optimization '{}'", pass.name));
    }
    if (options.report)
      options.report({pass.name, before, graph->size(), std::chrono::steady_clock::now() - start});
  }
  return graph;
}

}  // namespace troupe
