// A program that trains one model, alone or as one task of a cluster: what such programs share.
//
//   int main(int argc, char** argv) {
//     Digits app;
//     return run_training_app(app, argc, argv);
//   }
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/console.hpp"
#include "apps/training_options.hpp"

namespace troupe {

// The part of a program that is its own. Functions are called once, in this order.
class TrainingApp {
 public:
  virtual ~TrainingApp() = default;
  virtual std::string program() const = 0;
  // Returns nothing if the program should run; then options() are set.
  virtual std::optional<EarlyExit> parse(const std::vector<std::string>& arguments, bool launched) = 0;
  virtual const TrainingAppOptions& options() const = 0;
  // Reads the data, before the task starts. Returns what is trained on what, for Console::begin().
  virtual std::string load() = 0;
  // A model, compiled for the task.
  virtual Model make_model(Task& task) = 0;
  virtual TrainingResult fit(Model& model, const TrainingOptions& options) = 0;
  // The line of an epoch with --json.
  virtual std::string epoch_json(const EpochLogs& epoch) const = 0;
  // Prints the results, on the chief. With --json, the last line is the event "final".
  virtual void report(Model& model, const TrainingResult& result, Console& console) = 0;
};

// Runs it with signals, a task, membership in a cluster, traces, introspection and --save. Returns the exit code.
int run_training_app(TrainingApp& app, int argc, char** argv);

}  // namespace troupe
