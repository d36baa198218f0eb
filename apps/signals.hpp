// Signals for an app. The first SIGINT or SIGTERM ends it in order, the second at once.
//
//   StopSignals signals;              // a signal from here on ends the process with 130 or 143 at once,
//   signals.end_in_order();           // and from here on sets stop(), or wakes wait(); a second one kills
//
// At most one object per process at a time: signal handlers keep their state in globals.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <thread>

namespace troupe {

class StopSignals {
 public:
  StopSignals();
  ~StopSignals();  // restores the default handlers
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  void end_in_order();
  // Set by the first signal.
  const std::atomic<bool>& stop() const;
  // Blocks until a signal arrives.
  void wait();
  // 130 or 143 after a signal, else 0.
  int exit_code() const;
};

// Calls a function on its own thread for each signal of one kind, for example SIGUSR1. Must be constructed before any
// thread is started, but for those of other objects of this class.
class HandledSignal {
 public:
  explicit HandledSignal(int number);
  ~HandledSignal();
  HandledSignal(const HandledSignal&) = delete;
  HandledSignal& operator=(const HandledSignal&) = delete;

  // Null: no call. Waits until a running call has returned.
  void on_signal(std::function<void()> call);

 private:
  const int number_;
  std::mutex mutex_;
  std::function<void()> call_;
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

}  // namespace troupe
