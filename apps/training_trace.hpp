// troupe-mnist --trace: records what is done in a training, by this task and, in a cluster, by all others.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <thread>

#include <troupe/actors/cluster/task.hpp>

namespace troupe {

// Works on a thread of its own, from when the task has computed its first step: that one is unlike the others.
class TrainingTrace {
 public:
  struct Options {
    std::string path;
    std::uint64_t steps = 10;
    std::string cluster;                          // its name
    std::function<void(const std::string&)> say;  // called on that thread
  };
  // The task outlives it.
  TrainingTrace(Task& task, Options options);
  // Gives up.
  ~TrainingTrace();
  TrainingTrace(const TrainingTrace&) = delete;
  TrainingTrace& operator=(const TrainingTrace&) = delete;

  // There will be no other step: waits until what there is has been written. False if nothing has; why has been said.
  bool end();

 private:
  void record(const std::stop_token& stop);

  Task& task_;
  const Options options_;
  bool written_ = false;  // by the thread, until it has ended
  std::jthread thread_;
};

}  // namespace troupe
