// Dispatch: what it costs to run a node, and whether nodes that could run side by side do.
#include "actors/session/session.hpp"
#include "graph/ops.hpp"
#include "tools/bench/bench_ops.hpp"
#include "tools/bench/cases.hpp"
#include "tools/bench/tbb_peer.hpp"

namespace troupe::bench {
namespace {

// The nodes that each node runs after; in an order of execution.
using Predecessors = std::vector<std::vector<int>>;

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

struct Work {
  std::string op;  // of the nodes
  Attributes attributes;
  bool tensors = false;  // edges carry tensors (BenchJoin): else control edges
  int threads = 1;
  std::function<void()> body;  // what a node of a peer does beside counting
};

// The graph as a callable of a session, with all that must live meanwhile.
class TroupeGraph {
 public:
  TroupeGraph(const Predecessors& predecessors, const Work& work)
      : task_(bench_task(work.threads, tally_)),
        ops_(bench_ops()),
        graph_(*ops_),
        size_(predecessors.size()) {
    std::vector<Output> nodes;
    const Output source = work.tensors ? constant(graph_, 1.0f) : Output();
    for (const auto& before : predecessors) {
      NodeSpec spec{.op = work.op, .attributes = work.attributes};
      for (int p : before)
        (work.tensors ? spec.inputs : spec.controls).push_back(nodes[static_cast<std::size_t>(p)]);
      while (work.tensors && spec.inputs.size() < 2) spec.inputs.push_back(source);
      const Node& node = graph_.add(std::move(spec));
      nodes.push_back({&graph_, node.id, 0});
    }
    session_ = std::make_unique<Session>(task_, graph_, SessionOptions{.optimize = false});
    callable_ = session_->callable({}, {}, {nodes.back()});
  }

  double seconds_per_node(double seconds) {
    const std::uint64_t before = tally_.total();
    std::uint64_t steps = 0;
    const double step = seconds_per_call(seconds, [&] {
      callable_({});
      ++steps;
    });
    const std::uint64_t executed = tally_.total() - before;
    if (executed != steps * size_)
      fail(Code::internal, "{} steps of {} nodes have executed {} kernels", steps, size_, executed);
    return step / static_cast<double>(size_);
  }

 private:
  Tally tally_;
  Task task_;
  std::shared_ptr<const OpRegistry> ops_;
  Graph graph_;
  std::unique_ptr<Session> session_;
  Callable callable_;
  std::uint64_t size_;
};

Peer tbb_peer(const Predecessors& predecessors, int threads, std::function<void()> body, double slice,
              double scale) {
  auto tally = std::make_shared<Tally>();
  auto graph = std::make_shared<TbbGraph>(predecessors, threads, [tally, body = std::move(body)] {
    tally->add();
    if (body) body();
  });
  return {fmt::format("TBB flow graph, {} thread{}", threads, threads == 1 ? "" : "s"),
          [tally, graph, slice, scale, size = predecessors.size()] {
            const std::uint64_t before = tally->total();
            std::uint64_t runs = 0;
            const double run = seconds_per_call(slice, [&] {
              graph->run();
              ++runs;
            });
            if (tally->total() - before != runs * size)
              fail(Code::internal, "TBB has not run every node once");
            return run / static_cast<double>(size) * scale;
          }};
}

Contest contest(const Predecessors& predecessors, const Work& work, const std::vector<int>& peer_threads,
                const Settings& settings, double scale) {
  auto ours = std::make_shared<TroupeGraph>(predecessors, work);
  const double slice = settings.slice_seconds();
  Contest out{.troupe = [ours, slice, scale] { return ours->seconds_per_node(slice) * scale; }};
  for (int threads : peer_threads)
    out.peers.push_back(tbb_peer(predecessors, threads, work.body, slice, scale));
  return out;
}

constexpr double kNano = 1e9, kMicro = 1e6;
constexpr double kNodeSeconds = 20e-6;

}  // namespace

void add_dispatch_cases(std::vector<Case>& cases) {
  cases.push_back(
      {.bench = "null-ops",
       .name = "chain",
       .unit = "ns/op",
       .measures = "10,000 nodes that only count themselves, one after another by control edges; passes off; "
                   "executed kernels checked; time of the whole step by the number of nodes",
       .peer = "TBB flow graph of continue_nodes, best of 1 and 2 threads",
       .ratio_target = 5,
       .value_target = 10,
       .prepare = [](const Settings& s) {
         return contest(chain(s.quick ? 100 : 10000), {.op = "BenchNull"}, {1, 2}, s, kNano);
       }});
  cases.push_back(
      {.bench = "null-ops",
       .name = "lattice",
       .unit = "ns/op",
       .measures = "100x100 such nodes, each after the one above and the one to its left, by control edges",
       .peer = "TBB flow graph of continue_nodes, best of 1 and 2 threads",
       .ratio_target = 5,
       .prepare = [](const Settings& s) {
         return contest(lattice(s.quick ? 10 : 100), {.op = "BenchNull"}, {1, 2}, s, kNano);
       }});
  cases.push_back(
      {.bench = "null-ops",
       .name = "lattice-tensors",
       .unit = "ns/op",
       .measures = "the same, with a tensor on every edge: each node takes two and hands one on",
       .peer = "TBB flow graph of continue_nodes, without any data; best of 1 and 2 threads",
       .prepare = [](const Settings& s) {
         return contest(lattice(s.quick ? 10 : 100), {.op = "BenchJoin", .tensors = true}, {1, 2}, s, kNano);
       }});
  cases.push_back(
      {.bench = "lattice",
       .name = "parallel",
       .unit = "us/node",
       .measures =
           "100x100 nodes that each spin for 20 us, each after the one above and the one to its left; "
           "2 threads: at best 10 us a node",
       .peer = "TBB flow graph, the same work on 2 threads",
       .ratio_target = 0.95,
       .prepare = [](const Settings& s) {
         const std::int64_t iterations = spin_iterations(s.quick ? 1e-7 : kNodeSeconds);
         return contest(lattice(s.quick ? 10 : 100),
                        {.op = "BenchSpin",
                         .attributes = {{"iterations", iterations}},
                         .threads = 2,
                         .body = [iterations] { spin(iterations); }},
                        {2}, s, kMicro);
       }});
}

}  // namespace troupe::bench
