// Asks a source again and again on a thread of its own, so that whoever shows the answers never waits for them.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "tools/top/observation.hpp"
#include "tools/top/source.hpp"

namespace troupe::top {

// Seconds between questions, at least: who asks a task again sooner gets the same answer.
inline constexpr double kLeastInterval = 0.25;

// How the asking stands.
struct Asked {
  std::optional<double> age;      // seconds since the last answer came; none: no answer yet
  std::optional<double> waiting;  // seconds since a question was asked that has no answer yet
  std::string error;              // why the last question had no answer; "": it had one
  bool ended = false;             // the source has no more answers: it was a recording
};

class Asker {
 public:
  // `wake` is called on the asking thread when there is something new.
  Asker(std::unique_ptr<SnapshotSource> source, std::chrono::nanoseconds interval, std::function<void()> wake);
  // Does not wait for a question that has no answer yet: its thread ends by itself, and calls `wake` no more.
  ~Asker();
  Asker(const Asker&) = delete;
  Asker& operator=(const Asker&) = delete;

  // The newest observation, once.
  std::optional<Observation> take();
  Asked asked() const;
  // From the question after this one on.
  void set_interval(std::chrono::nanoseconds interval);
  void set_paused(bool paused);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace troupe::top
