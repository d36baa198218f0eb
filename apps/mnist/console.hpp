// What troupe-mnist says while it trains: results on stdout, the rest on stderr.
#pragma once

#include <cstdio>
#include <mutex>
#include <string>

#include "apps/mnist/options.hpp"
#include "apps/progress.hpp"
#include <troupe/kernels/readers/dataset.hpp>

namespace troupe {

// May be called from any thread.
class Console {
 public:
  // `terminal`: `err` is one, and shows a bar.
  Console(const MnistOptions& options, std::FILE* out, std::FILE* err, bool terminal)
      : options_(options), out_(out), err_(err), progress_(terminal) {}

  void begin(const DataSplits& data);
  // Of `epoch`, which counts from 0. Silent on all tasks but the one that speaks.
  void progress(std::uint32_t epoch, std::uint64_t step, std::uint64_t steps, Progress::Time now);
  void epoch(const EpochDone& epoch);
  void result(const TrainingResult& result);
  // A note, if people need to know; with --json a line on stdout instead.
  void event(const JobEvent& event);
  // A line on stderr, after the program's name.
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
