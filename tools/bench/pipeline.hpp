// A graph of one node, run step by step or with many steps in flight.
#pragma once

#include <troupe/actors/cluster/task.hpp>
#include <troupe/actors/session/session.hpp>

namespace troupe::bench {

inline constexpr std::size_t kManyInFlight = 1024;

// Runs the callable with up to `in_flight` steps in flight, each with a future of its own, for at least `seconds`;
// checks every result: the fetches must be the negatives of the feeds, if there are any.
struct Pipelined {
  std::uint64_t steps = 0;
  double seconds = 0;
};
Pipelined run_pipelined(const Callable& callable, bool fed, double seconds, std::size_t in_flight);
// Steps per second.
double pipelined_per_second(const Callable& callable, bool fed, double seconds);

// y = -x of a scalar x, on a task of its own.
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
