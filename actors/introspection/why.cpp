// Why what waits in a cluster waits.
#include "actors/introspection/snapshot.hpp"

namespace troupe {

WaitAnalysis analyse(const ClusterSnapshot& snapshot) {
  Waiting all;
  std::vector<SilentTask> silent;
  for (const TaskReport& report : snapshot.tasks) {
    if (report.snapshot) all.append(report.snapshot->waiting);
    if (!report.answered) silent.push_back({report.task, report.error});
  }
  return analyse(all, silent);
}

}  // namespace troupe
