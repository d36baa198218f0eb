// What it costs that a task can be watched: the same work with and without the runtime's counters.
#include "tools/bench/cases.hpp"
#include "tools/bench/node_graph.hpp"
#include "tools/bench/pipeline.hpp"

namespace troupe::bench {
namespace {

constexpr const char* kWithout = "itself without counters";
constexpr int kRounds = 41;  // a difference of a percent needs many turns

Contest pair(const Measure& with, const Measure& without) {
  return {.troupe = with, .peers = {{kWithout, without}}, .rounds = kRounds};
}

double slice_seconds(const Settings& settings) { return settings.slice_seconds() / 10; }

Contest null_chain(const Settings& settings) {
  const auto measure = [&](bool counters) -> Measure {
    auto graph = std::make_shared<NodeGraph>(chain(settings.quick ? 100 : 10000), Work{.counters = counters});
    return [graph, slice = slice_seconds(settings)] { return 1e9 * graph->seconds_per_node(slice); };
  };
  return pair(measure(true), measure(false));
}

Contest pipelined(const Settings& settings) {
  const auto measure = [&](bool counters) -> Measure {
    auto graph = std::make_shared<OneNode>(TaskOptions{.threads = 1, .counters = counters});
    return [graph, slice = slice_seconds(settings)] { return graph->pipelined_per_second(slice); };
  };
  return pair(measure(true), measure(false));
}

}  // namespace

void add_overhead_cases(std::vector<Case>& cases) {
  cases.push_back({.bench = "overhead",
                   .name = "counters-chain",
                   .unit = "ns/op",
                   .measures = "null-ops/chain with the counters that actors keep (TaskOptions::counters)",
                   .peer = kWithout,
                   .ratio_target = 0.99,
                   .prepare = null_chain});
  cases.push_back({.bench = "overhead",
                   .name = "counters-pipelined",
                   .unit = "steps/s",
                   .more_is_better = true,
                   .measures = "step/pipelined with the counters that actors keep",
                   .peer = kWithout,
                   .ratio_target = 0.93,
                   .prepare = pipelined});
}

}  // namespace troupe::bench
