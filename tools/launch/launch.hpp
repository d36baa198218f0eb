// troupe-launch: starts the tasks of a cluster as processes on this machine, tells them of each other, passes
// their output on, and ends them all.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

struct LaunchOptions {
  int ps = 0;
  int workers = 1;
  int max_workers = 0;                              // others, started by hand, may join up to this; 0: none
  std::vector<std::string> command;                 // APP ARGS...; each task also gets --job J --task I
  std::chrono::duration<double> start_timeout{60};  // until every task has reported its address
  std::chrono::duration<double> grace{10};          // between asking tasks to end and killing them
  std::optional<int> gpus_per_worker;               // and none for other tasks; none: every task sees all GPUs
  int restarts = 0;                                 // how often a task that fails is started again
  bool fail_fast = false;                           // a task that fails for good ends the others
};

// Runs until every process has ended; none survives it. Task output and the launcher's own lines go to
// stderr, the stdout of the chief (if tasks may be started again, of any worker) to stdout. Who the chief is, what ends
// the cluster and what the exit code is: ClusterLife (cluster_life.hpp). To be called once, by the only thread of the
// process. Throws Error if it cannot start.
int launch(const LaunchOptions& options);

}  // namespace troupe
