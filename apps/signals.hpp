// SIGINT and SIGTERM for an app: end in order at the first, at once at the second.
//
//   StopSignals signals;              // a signal from here on ends the process with 130 or 143 at once,
//   signals.end_in_order();           // and from here on sets stop(), or wakes wait(); a second one kills
//
// One object per process at a time: signal handlers have no other place for their state than the process.
#pragma once

#include <atomic>

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

}  // namespace troupe
