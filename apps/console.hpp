// Output of a program during training: results on stdout, everything else on stderr.
#pragma once

#include <cstdio>
#include <string>

#include "apps/training_options.hpp"
#include <troupe/actors/training/progress.hpp>

namespace troupe {

// Thread-safe.
class Console {
 public:
  // `program`: its name, before notes. `terminal`: `err` is a terminal and shows a progress bar.
  Console(std::string program, const TrainingAppOptions& options, std::FILE* out, std::FILE* err, bool terminal)
      : program_(std::move(program)), options_(options), out_(out), err_(err), line_(err, terminal) {}

  // For people: "Training {what}: mode local, 5 epochs, batches of 32".
  void begin(const std::string& what);
  // Silent on all tasks but the one that reports.
  void progress(const StepProgress& at, Progress::Time now);
  // Prints a line, or several, to stdout.
  // end_output() reports failures.
  void line(const std::string& text) { line_.print(out_, text); }
  // A note if users should know of the event; with --json a line on stdout instead.
  void event(const JobEvent& event);
  // Prints a line to stderr, prefixed with the program's name.
  void note(const std::string& message);

 private:
  const std::string program_;
  const TrainingAppOptions& options_;
  std::FILE* out_;
  std::FILE* err_;
  ProgressLine line_;
};

}  // namespace troupe
