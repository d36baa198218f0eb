// A task's view of its cluster: queries the introspectors of all tasks in parallel.
#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <optional>

#include <troupe/actors/base/snapshot.hpp>
#include <troupe/actors/http/client.hpp>

namespace troupe {

// A task of the cluster, and the address of its introspector.
struct KnownTask {
  std::string task;
  HttpTarget target;    // port 0 if unknown
  std::string unknown;  // why it is unknown: "no link yet to ..."
};

// Thread-safe.
class ClusterView {
 public:
  static constexpr std::chrono::milliseconds kPatience{900};  // per task; about a second in total

  using Clock = std::chrono::steady_clock;

  // `own`: the snapshot of this task. `others`: the other tasks.
  ClusterView(std::function<TaskSnapshot()> own, std::function<std::vector<KnownTask>()> others,
              std::function<Clock::time_point()> now = Clock::now)
      : own_(std::move(own)), others_(std::move(others)), now_(std::move(now)) {}

  // Queries all tasks and returns within about a second. Calls within a quarter of a second share one answer: many
  // viewers cost the job no more than one.
  ClusterSnapshot snapshot();
  // Explains the waits in the cluster.
  WaitAnalysis why() { return analyse(snapshot()); }
  // Answers of all tasks to a request, by task; this task's answer comes from `own`. Failures are returned as errors in
  // place of answers.
  struct Answer {
    std::string task;
    std::string body;
    Error error;
    std::int64_t took_ns = 0;
  };
  static std::vector<Answer> ask_all(const std::vector<KnownTask>& tasks, const std::string& path,
                                     std::chrono::milliseconds patience, bool post = false);
  std::vector<KnownTask> others() const { return others_(); }

 private:
  const std::function<TaskSnapshot()> own_;
  const std::function<std::vector<KnownTask>()> others_;
  const std::function<Clock::time_point()> now_;
  std::mutex mutex_;
  std::optional<ClusterSnapshot> last_;
  Clock::time_point last_at_;
};

// Finds a task by name, "/job:worker/task:1" or "worker/1". Throws not_found listing the existing tasks.
const KnownTask& find_task(const std::vector<KnownTask>& tasks, const std::string& name);
// Throws the task's error, or the reason for its missing answer, with its name.
std::string ask_task(const KnownTask& task, const std::string& path, std::chrono::milliseconds patience);

// Combines answers to "/task".
ClusterSnapshot cluster_of(const std::vector<KnownTask>& tasks, std::vector<ClusterView::Answer> answers);

}  // namespace troupe
