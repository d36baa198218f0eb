// Tasks of one process that train together, parameter servers first.
#pragma once

#include "tests/actors/task_cluster.hpp"
#include <troupe/troupe.hpp>

namespace troupe::testing {

class JobTasks : public TaskCluster {
 public:
  // `gpus`: of each worker; none given: of all, what a task has by default.
  JobTasks(int ps, int workers, const NetworkOptions& network = {}, const std::vector<GpuOptions>& gpus = {},
           int inputs = 0) {
    std::vector<TaskOptions> tasks;
    for (int i = 0; i < ps; ++i) tasks.push_back({.name = {"ps", i}, .network = network});
    for (int i = 0; i < inputs; ++i) tasks.push_back({.name = {"input", i}, .network = network});
    for (int i = 0; i < workers; ++i) {
      TaskOptions options{.name = {"worker", i}, .network = network};
      if (!gpus.empty()) options.gpus = gpus.at(static_cast<std::size_t>(i));
      tasks.push_back(std::move(options));
    }
    start(std::move(tasks));
  }
};

}  // namespace troupe::testing
