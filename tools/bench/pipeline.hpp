// A graph of one node, run step by step or with many steps in flight.
#pragma once

#include "actors/cluster/task.hpp"
#include "actors/session/session.hpp"

namespace troupe::bench {

// Runs the callable with up to 1,024 steps in flight, each with a future of its own, for at least `seconds`;
// returns steps per second. Checks every result: the fetches must be the negatives of the feeds, if there are
// any.
double pipelined_per_second(const Callable& callable, bool fed, double seconds);

// y = -x of a scalar x, on a task of its own.
class OneNode {
 public:
  explicit OneNode(TaskOptions options);
  void run_one() const;
  double pipelined_per_second(double seconds) const {
    return bench::pipelined_per_second(callable_, true, seconds);
  }

 private:
  Task task_;
  Graph graph_;
  std::unique_ptr<Session> session_;
  Callable callable_;
};

}  // namespace troupe::bench
