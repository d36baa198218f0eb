// The option --trace of programs that train: records the activity of this task and, in a cluster, of all others during
// training.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <thread>

#include <troupe/actors/cluster/task.hpp>

namespace troupe {

// Runs on its own thread, starting after the task's first step, which is not typical.
class TrainingTrace {
 public:
  struct Options {
    std::string path;
    std::uint64_t steps = 10;
    std::string cluster;                          // its name
    std::function<void(const std::string&)> say;  // called on the trace's thread
  };
  // `task` must outlive this object.
  TrainingTrace(Task& task, Options options);
  // Cancels the recording.
  ~TrainingTrace();
  TrainingTrace(const TrainingTrace&) = delete;
  TrainingTrace& operator=(const TrainingTrace&) = delete;

  // Call when no further step will come: waits until everything recorded has been written. False if nothing was
  // written; the reason has been reported through `say`.
  bool end();

 private:
  void record(const std::stop_token& stop);

  Task& task_;
  const Options options_;
  bool written_ = false;  // set by the thread, read after it has ended
  std::jthread thread_;
};

}  // namespace troupe
