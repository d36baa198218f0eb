#include "tools/bench/node_graph.hpp"

#include "tools/bench/harness.hpp"
#include "tools/bench/pipeline.hpp"
#include <troupe/graph/builder/builder.hpp>

namespace troupe::bench {
namespace {

TaskOptions task_options(const Work& work, Tally& tally) {
  TaskOptions options = bench_task(work.threads, tally);
  options.counters = work.counters;
  return options;
}

}  // namespace

Predecessors chain(int length) {
  Predecessors out(static_cast<std::size_t>(length));
  for (int i = 1; i < length; ++i) out[static_cast<std::size_t>(i)] = {i - 1};
  return out;
}

Predecessors lattice(int side) {
  Predecessors out;
  for (int i = 0; i < side; ++i)
    for (int j = 0; j < side; ++j) {
      auto& before = out.emplace_back();
      if (i > 0) before.push_back((i - 1) * side + j);
      if (j > 0) before.push_back(i * side + j - 1);
    }
  return out;
}

NodeGraph::NodeGraph(const Predecessors& predecessors, const Work& work)
    : task_(task_options(work, tally_)),
      ops_(bench_ops()),
      graph_(*ops_),
      size_(predecessors.size()),
      in_flight_(work.in_flight) {
  std::vector<Output> nodes;
  const Output source = work.tensors ? constant(graph_, 1.0f) : Output();
  for (const auto& before : predecessors) {
    NodeSpec spec{.op = work.op, .attributes = work.attributes};
    for (int p : before) (work.tensors ? spec.inputs : spec.controls).push_back(nodes[static_cast<std::size_t>(p)]);
    while (work.tensors && spec.inputs.size() < 2) spec.inputs.push_back(source);
    const Node& node = graph_.add(std::move(spec));
    nodes.push_back({&graph_, node.id, 0});
  }
  session_ = std::make_unique<Session>(task_, graph_, SessionOptions{.optimize = false});
  callable_ = session_->callable({}, {}, {nodes.back()});
}

double NodeGraph::seconds_per_node(double seconds) {
  const std::uint64_t before = tally_.total();
  std::uint64_t steps = 0;
  double step = 0;
  if (in_flight_) {
    const Pipelined run = run_pipelined(callable_, false, seconds, 4);
    steps = run.steps;
    step = run.seconds / static_cast<double>(run.steps);
  } else {
    step = seconds_per_call(seconds, [&] {
      callable_({});
      ++steps;
    });
  }
  const std::uint64_t executed = tally_.total() - before;
  if (executed != steps * size_)
    fail(Code::internal, "{} steps of {} nodes executed {} kernels", steps, size_, executed);
  return step / static_cast<double>(size_);
}

}  // namespace troupe::bench
