// Output of troupe-mnist during training: results on stdout, everything else on stderr.
#pragma once

#include <cstdio>
#include <mutex>
#include <string>

#include "apps/mnist/options.hpp"
#include "apps/progress.hpp"
#include <troupe/kernels/readers/dataset.hpp>

namespace troupe {

// Thread-safe.
class Console {
 public:
  // `terminal`: `err` is a terminal and shows a progress bar.
  Console(const MnistOptions& options, std::FILE* out, std::FILE* err, bool terminal)
      : options_(options), out_(out), err_(err), progress_(terminal) {}

  void begin(const DataSplits& data);
  // Progress of `epoch`, which counts from 0. Silent on all tasks but the one that reports.
  void progress(std::uint32_t epoch, std::uint64_t step, std::uint64_t steps, Progress::Time now);
  void epoch(const EpochLogs& epoch);
  void result(const TrainingResult& result);
  // A note if users should know of the event; with --json a line on stdout instead.
  void event(const JobEvent& event);
  // Prints a line to stderr, prefixed with the program's name.
  void note(const std::string& message);

 private:
  void print(std::FILE* stream, const std::string& line);

  const MnistOptions& options_;
  std::FILE* out_;
  std::FILE* err_;
  std::mutex mutex_;
  Progress progress_;
};

}  // namespace troupe
