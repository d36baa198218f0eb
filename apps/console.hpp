// Output of a program during training: results on stdout, everything else on stderr.
#pragma once

#include <cstdio>
#include <mutex>
#include <string>

#include "apps/progress.hpp"
#include "apps/training_options.hpp"

namespace troupe {

// Thread-safe.
class Console {
 public:
  // `program`: its name, before notes. `terminal`: `err` is a terminal and shows a progress bar.
  Console(std::string program, const TrainingAppOptions& options, std::FILE* out, std::FILE* err, bool terminal)
      : program_(std::move(program)), options_(options), out_(out), err_(err), progress_(terminal) {}

  // For people: "Training {what}: mode local, 5 epochs, batches of 32".
  void begin(const std::string& what);
  // Progress of `epoch`, which counts from 0. Silent on all tasks but the one that reports.
  void progress(std::uint32_t epoch, std::uint64_t step, std::uint64_t steps, Progress::Time now);
  // Prints a line, or several, to stdout.
  void line(const std::string& text) { print(out_, text); }
  // A note if users should know of the event; with --json a line on stdout instead.
  void event(const JobEvent& event);
  // Prints a line to stderr, prefixed with the program's name.
  void note(const std::string& message);

 private:
  void print(std::FILE* stream, const std::string& line);

  const std::string program_;
  const TrainingAppOptions& options_;
  std::FILE* out_;
  std::FILE* err_;
  std::mutex mutex_;
  Progress progress_;
};

}  // namespace troupe
