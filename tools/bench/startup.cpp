// Start-up: from process start to the first step, and from a graph to a plan.
#include "tools/bench/cases.hpp"
#include "tools/bench/child.hpp"
#include "tools/bench/children.hpp"
#include "tools/bench/pipeline.hpp"
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/rewrite.hpp>

namespace troupe::bench {
namespace {

Contest first_step(const Settings&) {
  return {.troupe =
              [] {
                const auto begin = std::chrono::steady_clock::now();
                Child child({own_path(), "--child", kFirstStep});
                if (child.read_line() != "done") fail(Code::internal, "the child process did not run its step");
                return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
              },
          .peers = {}};
}

// Shaped like a deep network: each node takes two earlier ones.
std::vector<Output> network(const Output& x, int count) {
  std::vector<Output> nodes = {x};
  for (int i = 1; i < count; ++i) {
    const Output a = nodes.back(), b = nodes[nodes.size() / 2];
    switch (i % 4) {
      case 0:
        nodes.push_back(relu(a));
        break;
      case 1:
        nodes.push_back(a + b);
        break;
      case 2:
        nodes.push_back(a * b);
        break;
      default:
        nodes.push_back(tanh(a));
        break;
    }
  }
  return nodes;
}

int size(const Settings& settings) { return settings.quick ? 100 : 10000; }

Contest copy(const Settings& settings) {
  auto graph = std::make_shared<Graph>();
  network(placeholder(*graph, DType::f32, {kUnknown, 16}, "x"), size(settings));
  return {.troupe =
              [graph] {
                const std::vector<bool> all(static_cast<std::size_t>(graph->size()), true);
                return seconds_per_call(0, [&] {
                  if (copy_subset(*graph, all)->size() != graph->size()) fail(Code::internal, "the copy lacks nodes");
                });
              },
          .peers = {}};
}

Contest compile(const Settings& settings) {
  struct State {
    Task task{{.threads = 1, .gpus = {.count = 0}}};
    Graph graph;
    std::vector<Output> nodes;
  };
  auto state = std::make_shared<State>();
  const Output x = placeholder(state->graph, DType::f32, {kUnknown, 16}, "x");
  state->nodes = network(x, size(settings));
  return {.troupe =
              [state] {
                return seconds_per_call(0, [&] {
                  Session session(state->task, state->graph);
                  session.callable({state->nodes.front()}, {state->nodes.back()});
                });
              },
          .peers = {}};
}

}  // namespace

void add_startup_cases(std::vector<Case>& cases) {
  cases.push_back({.bench = "startup",
                   .name = "first-step",
                   .unit = "s",
                   .measures = "from the start of a process to the end of its first step, a graph of one node",
                   .value_target = 0.3,
                   .prepare = first_step});
  cases.push_back({.bench = "startup",
                   .name = "copy-10k",
                   .unit = "s",
                   .measures = "a copy of a graph of 10,000 elementwise nodes, as each pass makes one",
                   .value_target = 0.1,
                   .prepare = copy});
  cases.push_back({.bench = "startup",
                   .name = "compile-10k",
                   .unit = "s",
                   .measures =
                       "a session for a graph of 10,000 elementwise nodes, and a callable in it: passes, placement, "
                       "plan",
                   .value_target = 0.5,
                   .prepare = compile});
}

}  // namespace troupe::bench
