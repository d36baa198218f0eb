// Graphs of nodes that do nothing or only spin, as a callable that counts the nodes it runs.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tools/bench/bench_ops.hpp"
#include <troupe/actors/session/session.hpp>

namespace troupe::bench {

// The predecessors of each node, in execution order.
using Predecessors = std::vector<std::vector<int>>;
Predecessors chain(int length);
Predecessors lattice(int side);  // each node runs after those above and to its left

struct Work {
  std::string op = "BenchNull";  // of the nodes
  Attributes attributes;
  bool tensors = false;  // edges carry tensors (BenchJoin): else control edges
  int threads = 1;
  bool counters = true;        // of the runtime
  bool in_flight = false;      // a step begins before the last has ended: measures dispatch, not waking
  std::function<void()> body;  // work of a peer's node besides counting
};

// On its own task and session, passes off.
class NodeGraph {
 public:
  NodeGraph(const Predecessors& predecessors, const Work& work);
  // Runs steps for at least `seconds`; returns the step time divided by the number of nodes. Throws internal if a node
  // did not run once in each step.
  double seconds_per_node(double seconds);

 private:
  Tally tally_;
  Task task_;
  std::shared_ptr<const OpRegistry> ops_;
  Graph graph_;
  std::unique_ptr<Session> session_;
  Callable callable_;
  std::uint64_t size_;
  bool in_flight_;
};

}  // namespace troupe::bench
