// troupe-launch: starts the tasks of a cluster as processes on this machine, gives them each other's addresses,
// forwards their output, and ends them together.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

struct LaunchOptions {
  int ps = 0;
  int inputs = 0;
  int serve = 0;  // replicas behind a router, which is the chief: then there are no other tasks
  int workers = 1;
  int max_workers = 0;                              // others, started by hand, may join up to this; 0: none
  std::vector<std::string> command;                 // APP ARGS...; each task also gets --job J --task I
  std::chrono::duration<double> start_timeout{60};  // until every task has reported its address
  std::chrono::duration<double> grace{10};          // between asking tasks to end and killing them
  // Of all tasks.
  int tasks() const { return serve > 0 ? serve + 1 : ps + inputs + workers; }
  std::optional<int> gpus_per_worker;  // no GPUs for other tasks; none: every task sees all GPUs
  int restarts = 0;                    // maximum restarts of a failing task
  bool fail_fast = false;              // a task that fails for good ends the others
};

// Runs until every process has ended; none survives it. Task output and the launcher's own lines go to stderr, the
// stdout of the chief (of every worker if tasks may be restarted) to stdout. ClusterLife (cluster_life.hpp) decides
// which task is the chief, when the cluster ends, and the exit code. Call once, from the only thread of the process.
// Throws Error if it cannot start.
int launch(const LaunchOptions& options);

}  // namespace troupe
