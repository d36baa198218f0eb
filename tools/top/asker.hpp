// Polls a source on its own thread, so that the display never waits for answers.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "tools/top/observation.hpp"
#include "tools/top/source.hpp"

namespace troupe::top {

// Minimum seconds between requests: a task returns the same answer to earlier ones.
inline constexpr double kLeastInterval = 0.25;

// State of the polling.
struct Asked {
  std::optional<double> age;      // seconds since the last answer came; none: no answer yet
  std::optional<double> waiting;  // seconds since a request that is still unanswered
  std::string error;              // why the last request failed; "": it succeeded
  bool ended = false;             // the source, a recording, has no more answers
};

class Asker {
 public:
  // Calls `wake` on the polling thread when there is news.
  Asker(std::unique_ptr<SnapshotSource> source, std::chrono::nanoseconds interval, std::function<void()> wake);
  // Does not wait for a pending answer: the thread ends by itself and no longer calls `wake`.
  ~Asker();
  Asker(const Asker&) = delete;
  Asker& operator=(const Asker&) = delete;

  // Returns the newest observation, once.
  std::optional<Observation> take();
  Asked asked() const;
  // Takes effect from the next request on.
  void set_interval(std::chrono::nanoseconds interval);
  void set_paused(bool paused);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace troupe::top
