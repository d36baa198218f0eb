// What a task sees of its cluster: asks the introspectors of all tasks at once.
#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <optional>

#include <troupe/actors/base/snapshot.hpp>
#include <troupe/actors/http/client.hpp>

namespace troupe {

// A task of the cluster, and how its introspector can be asked.
struct KnownTask {
  std::string task;
  HttpTarget target;    // port 0: not known
  std::string unknown;  // why not: "it has not been met: ..."
};

// Thread-safe.
class ClusterView {
 public:
  static constexpr std::chrono::milliseconds kPatience{900};  // with a task: a second in all

  using Clock = std::chrono::steady_clock;

  // `own`: of this task. `others`: of the other tasks.
  ClusterView(std::function<TaskSnapshot()> own, std::function<std::vector<KnownTask>()> others,
              std::function<Clock::time_point()> now = Clock::now)
      : own_(std::move(own)), others_(std::move(others)), now_(std::move(now)) {}

  // Asks everyone and returns within about a second. Who asks again within a quarter of a second gets the same answer:
  // many viewers cost the job no more than one.
  ClusterSnapshot snapshot();
  // Why what waits in the cluster waits.
  WaitAnalysis why() { return analyse(snapshot()); }
  // The answers of all tasks to a request, this one's too, which `own` gives; by task. Errors are in the place of
  // answers.
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

// The one of this name, "/job:worker/task:1" or "worker/1". Throws not_found naming those that there are.
const KnownTask& find_task(const std::vector<KnownTask>& tasks, const std::string& name);
// Throws why it does not answer, with its name.
std::string ask_task(const KnownTask& task, const std::string& path, std::chrono::milliseconds patience);

// Of answers to "/task".
ClusterSnapshot cluster_of(const std::vector<KnownTask>& tasks, std::vector<ClusterView::Answer> answers);

}  // namespace troupe
