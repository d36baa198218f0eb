// Dispatch: the cost of running a node, and whether independent nodes run in parallel.
#include "tools/bench/cases.hpp"
#include "tools/bench/node_graph.hpp"
#include "tools/bench/peers/tbb_peer.hpp"

namespace troupe::bench {
namespace {

Peer tbb_peer(const Predecessors& predecessors, int threads, std::function<void()> body, double slice, double scale) {
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
            if (tally->total() - before != runs * size) fail(Code::internal, "TBB did not run every node once");
            return run / static_cast<double>(size) * scale;
          }};
}

Contest contest(const Predecessors& predecessors, const Work& work, const std::vector<int>& peer_threads,
                const Settings& settings, double scale) {
  auto ours = std::make_shared<NodeGraph>(predecessors, work);
  const double slice = settings.slice_seconds();
  Contest out{.troupe = [ours, slice, scale] { return ours->seconds_per_node(slice) * scale; }};
  for (int threads : peer_threads) out.peers.push_back(tbb_peer(predecessors, threads, work.body, slice, scale));
  return out;
}

constexpr double kNodeSeconds = 20e-6;

}  // namespace

void add_dispatch_cases(std::vector<Case>& cases) {
  cases.push_back(
      {.bench = "null-ops",
       .name = "chain",
       .unit = "ns/op",
       .measures = "10,000 nodes that only count themselves, chained by control edges; passes off; "
                   "executed kernels checked; 4 steps in flight; step time divided by the number of nodes",
       .peer = "TBB flow graph of continue_nodes, best of 1 and 2 threads",
       .ratio_target = 5,
       .value_target = 10,
       .prepare = [](const Settings& s) {
         return contest(chain(s.quick ? 100 : 10000), {.op = "BenchNull", .in_flight = true}, {1, 2}, s, kNano);
       }});
  cases.push_back(
      {.bench = "null-ops",
       .name = "lattice",
       .unit = "ns/op",
       .measures = "a 100x100 lattice of such nodes: each runs after the nodes above and to its left, by control edges",
       .peer = "TBB flow graph of continue_nodes, best of 1 and 2 threads",
       .ratio_target = 5,
       .prepare = [](const Settings& s) {
         return contest(lattice(s.quick ? 10 : 100), {.op = "BenchNull", .in_flight = true}, {1, 2}, s, kNano);
       }});
  cases.push_back({.bench = "null-ops",
                   .name = "lattice-tensors",
                   .unit = "ns/op",
                   .measures = "the same, with a tensor on every edge: each node takes two and passes one on",
                   .peer = "TBB flow graph of continue_nodes, without data; best of 1 and 2 threads",
                   .prepare = [](const Settings& s) {
                     return contest(lattice(s.quick ? 10 : 100),
                                    {.op = "BenchJoin", .tensors = true, .in_flight = true}, {1, 2}, s, kNano);
                   }});
  cases.push_back({.bench = "lattice",
                   .name = "parallel",
                   .unit = "us/node",
                   .measures = "a 100x100 lattice of nodes that spin for 20 us each; "
                               "2 threads: at best 10 us a node",
                   .peer = "TBB flow graph, the same work on 2 threads",
                   .ratio_target = 0.95,
                   .prepare = [](const Settings& s) {
                     const std::int64_t iterations = spin_iterations(s.quick ? 1e-7 : kNodeSeconds);
                     return contest(lattice(s.quick ? 10 : 100),
                                    {.op = "BenchSpin",
                                     .attributes = {{"iterations", iterations}, {"_cost_ns", std::int64_t{20000}}},
                                     .threads = 2,
                                     .body = [iterations] { spin(iterations); }},
                                    {2}, s, kMicro);
                   }});
}

}  // namespace troupe::bench
