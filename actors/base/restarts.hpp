// Decides when an actor resumes after its handler has thrown, and when it has failed too often.
#pragma once

#include <chrono>
#include <optional>

namespace troupe {

// Restart state of one actor.
class Restarts {
 public:
  using Clock = std::chrono::steady_clock;
  explicit Restarts(int limit) : limit_(limit) {}
  // Returns the pause before resuming, or nullopt after too many restarts. A failure 10 s after the last starts a new
  // row.
  std::optional<Clock::duration> after_failure(Clock::time_point now);

 private:
  int limit_;
  int row_ = 0;
  Clock::time_point last_;
};

}  // namespace troupe
