// A load of requests: decides when each is sent, and keeps how long its answer took. Without clocks and sockets: those
// who send them bring both.
//
//   LoadRun run({.rate = 1000, .seconds = 5}, now);
//   while (const auto intended = run.next(now)) send(*intended);   // while there is a free connection
//   run.ended(intended, now, true);
//
// With a rate, requests are due at fixed times, and latencies are counted from there: a request that waits for a free
// connection, because others are slow, is late (Tene, "How NOT to measure latency"). Without, each free connection
// sends its next request at once.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace troupe::bench {

using LoadClock = std::chrono::steady_clock;

struct LoadPlan {
  double rate = 0;  // requests per second; 0: as fast as answers come
  double seconds = 1;
  const std::atomic<bool>* stop = nullptr;  // ends it earlier
};

struct LoadFigures {
  std::vector<double> latencies{};  // seconds, ascending; of answers that were right
  std::size_t failed = 0;
  std::string first_failure{};
  double seconds = 0;  // from the beginning to the last answer

  double rate() const;  // right answers per second
  // The smallest latency that at least this part of the answers does not exceed. Throws unavailable if there are none.
  double percentile(double part) const;
  double longest() const { return percentile(1); }
  // Throws internal if a request failed.
  const LoadFigures& all_right() const;
};

class LoadRun {
 public:
  using Time = LoadClock::time_point;

  // Throws invalid_argument for a time or rate below 0.
  LoadRun(const LoadPlan& plan, Time now);
  // Begins a request if one is due, and returns the time that it was due at.
  std::optional<Time> next(Time now);
  // When the next one is due; nullopt: never.
  std::optional<Time> due(Time now) const;
  // An empty `failure`: the answer was right.
  void ended(Time intended, Time now, const std::string& failure = "");
  bool finished(Time now) const { return in_flight_ == 0 && !due(now); }
  LoadFigures figures() const;

 private:
  Time due_at(std::size_t number) const;

  const LoadPlan plan_;
  const Time began_;
  std::size_t begun_ = 0, in_flight_ = 0;
  Time last_;
  LoadFigures figures_;
};

}  // namespace troupe::bench
