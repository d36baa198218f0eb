// Graphs of nodes that do nothing, or nothing but spin, as a callable that counts what it runs.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tools/bench/bench_ops.hpp"
#include <troupe/actors/session/session.hpp>

namespace troupe::bench {

// The nodes that each node runs after; in an order of execution.
using Predecessors = std::vector<std::vector<int>>;
Predecessors chain(int length);
Predecessors lattice(int side);  // each after the one above and the one to its left

struct Work {
  std::string op = "BenchNull";  // of the nodes
  Attributes attributes;
  bool tensors = false;  // edges carry tensors (BenchJoin): else control edges
  int threads = 1;
  bool counters = true;        // of the runtime
  bool in_flight = false;      // a step is begun before the last has ended: dispatch is measured, not waking
  std::function<void()> body;  // what a node of a peer does beside counting
};

// On a task and session of its own, passes off.
class NodeGraph {
 public:
  NodeGraph(const Predecessors& predecessors, const Work& work);
  // Runs steps for at least `seconds`; returns the time of a step by the number of nodes. Throws internal if
  // not every node has run once in each step.
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
