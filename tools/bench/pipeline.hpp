// A one-node graph, run step by step or with many steps in flight.
#pragma once

#include <troupe/actors/cluster/task.hpp>
#include <troupe/actors/session/session.hpp>

namespace troupe::bench {

inline constexpr std::size_t kManyInFlight = 1024;

// Runs the callable with up to `in_flight` steps in flight, each with its own future, for at least `seconds`; checks
// every result: fetches, if any, must be the negatives of the feeds.
struct Pipelined {
  std::uint64_t steps = 0;
  double seconds = 0;
};
Pipelined run_pipelined(const Callable& callable, bool fed, double seconds, std::size_t in_flight);
// Steps per second.
double pipelined_per_second(const Callable& callable, bool fed, double seconds);

// y = -x of a scalar x, on its own task.
class OneNode {
 public:
  explicit OneNode(TaskOptions options);
  void run_one() const;
  double pipelined_per_second(double seconds) const { return bench::pipelined_per_second(callable_, true, seconds); }

 private:
  Task task_;
  Graph graph_;
  std::unique_ptr<Session> session_;
  Callable callable_;
};

}  // namespace troupe::bench
