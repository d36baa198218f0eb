// SIGINT, SIGTERM and SIGUSR1 for an app. The first two: end in order at the first, at once at the second.
//
//   StopSignals signals;              // a signal from here on ends the process with 130 or 143 at once,
//   signals.end_in_order();           // and from here on sets stop(), or wakes wait(); a second one kills
//
// One object per process at a time: signal handlers have no other place for their state than the process.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <thread>

namespace troupe {

class StopSignals {
 public:
  StopSignals();
  ~StopSignals();  // the process has the default handlers again
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  void end_in_order();
  // Set by the first signal.
  const std::atomic<bool>& stop() const;
  // Until a signal has come.
  void wait();
  // 130 or 143 if a signal has come, else 0.
  int exit_code() const;
};

// Calls a function on a thread of its own for each SIGUSR1. To be made before any other thread of the process.
class ReportSignal {
 public:
  ReportSignal();
  ~ReportSignal();
  ReportSignal(const ReportSignal&) = delete;
  ReportSignal& operator=(const ReportSignal&) = delete;

  // Null: nothing. Waits until the last one has returned.
  void on_report(std::function<void()> report);

 private:
  std::mutex mutex_;
  std::function<void()> report_;
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

}  // namespace troupe
