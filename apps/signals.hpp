// SIGINT, SIGTERM and SIGUSR1 for an app. The first SIGINT or SIGTERM ends it in order, the second at once.
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

// Calls a function on its own thread for each SIGUSR1. Must be constructed before any other thread is started.
class ReportSignal {
 public:
  ReportSignal();
  ~ReportSignal();
  ReportSignal(const ReportSignal&) = delete;
  ReportSignal& operator=(const ReportSignal&) = delete;

  // Null: no call. Waits until a running call has returned.
  void on_report(std::function<void()> report);

 private:
  std::mutex mutex_;
  std::function<void()> report_;
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

}  // namespace troupe
