// Progress of a training for people: a bar redrawn in place on a terminal, plain lines elsewhere.
//
//   Epoch 2/5 [=====>    ] 150/375  12 s left  loss 0.3100  accuracy 0.9100
//   Epoch 2/5  150 steps  42 steps/s  loss 0.3100  accuracy 0.9100             data of unknown length
//   Epoch 2/5: step 150 of 375, 12 s left, loss 0.3100, accuracy 0.9100        a plain line
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <optional>
#include <string>

#include <troupe/actors/training/epoch_logs.hpp>

namespace troupe {

// The texts. Times are those of one clock.
class Progress {
 public:
  using Time = std::chrono::steady_clock::time_point;
  explicit Progress(bool terminal) : terminal_(terminal) {}

  // Returns the text to print if it is due: a bar of at most `columns` up to ten times a second, a line every ten
  // seconds. Reads the figures only then.
  std::optional<std::string> update(const StepProgress& at, int epochs, int columns, Time now);
  // Returns the text to print before other output: clears the bar.
  std::string clear();

 private:
  // Steps per second of this epoch since its first update; 0: not known yet.
  double rate(const StepProgress& at, Time now);

  bool terminal_;
  bool drawn_ = false;
  std::optional<Time> last_;  // text
  std::optional<std::uint32_t> epoch_;
  std::uint64_t first_step_ = 0;
  Time first_time_;  // of the epoch
};

// Output of a training to two streams, of which `err` has the bar. Thread-safe. Clears the bar at the end.
class ProgressLine {
 public:
  // `terminal`: whether `err` is one.
  ProgressLine(std::FILE* err, bool terminal) : err_(err), terminal_(terminal), progress_(terminal) {}
  ~ProgressLine() { clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void update(const StepProgress& at, int epochs, Progress::Time now);
  // Clears the bar, prints the line and flushes: a reader may be waiting for it.
  void print(std::FILE* stream, const std::string& line);
  void clear();

 private:
  std::FILE* const err_;
  const bool terminal_;
  std::mutex mutex_;
  Progress progress_;
};

}  // namespace troupe
