// Training in a cluster whose last worker gets stuck while its links are fine: after the step timeout the job fails,
// and the error names that worker.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <latch>

#include "actors/training/model.hpp"
#include "kernels/data/digits.hpp"

namespace troupe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct Stuck {
  JobMode mode;
  int ps;
  std::string missing;  // what is said of the last worker
};
void PrintTo(const Stuck& stuck, std::ostream* out) { *out << "mode " << static_cast<int>(stuck.mode); }

class StuckTraining : public ::testing::TestWithParam<Stuck> {};

TEST_P(StuckTraining, FailsEverywhereNamingWhoIsMissing) {
  constexpr int kWorkers = 3;
  const DataSplits data = draw_digits({.train = 96, .test = 10});
  ClusterSpec cluster{"stuck", "token", {}};
  std::vector<std::unique_ptr<Task>> tasks;
  for (int i = 0; i < GetParam().ps + kWorkers; ++i) {
    const TaskName name = i < GetParam().ps ? TaskName{"ps", i} : TaskName{"worker", i - GetParam().ps};
    tasks.push_back(std::make_unique<Task>(TaskOptions{.name = name, .threads = 1, .networked = true}));
    cluster.tasks[name] = {"127.0.0.1", tasks.back()->port()};
  }
  std::latch others_failed(static_cast<std::ptrdiff_t>(tasks.size()) - 1);
  std::vector<std::future<std::string>> running;
  for (const auto& task : tasks)
    running.push_back(std::async(std::launch::async, [&, task = task.get()]() -> std::string {
      const bool stuck = task->name() == TaskName{"worker", kWorkers - 1};
      std::string error;
      try {
        task->join(cluster, std::chrono::seconds(20));
        Model model({layers::flatten(), layers::dense(10)}, Shape{28, 28, 1});
        model.compile(optimizers::SGD{}, *task);
        TrainingOptions options{
            .mode = GetParam().mode, .epochs = 1000, .batch = 8, .step_timeout = std::chrono::milliseconds(1500)};
        if (stuck) options.on_progress = [&](std::uint32_t, std::uint64_t, std::uint64_t) { others_failed.wait(); };
        model.fit(data, options);
      } catch (const Error& e) {
        error = e.to_string();
      }
      if (!stuck) others_failed.count_down();
      return error;
    }));
  for (std::size_t i = 0; i < running.size(); ++i)
    EXPECT_THAT(running[i].get(), AllOf(HasSubstr("deadline_exceeded"), HasSubstr(GetParam().missing)))
        << tasks[i]->name().to_string();
}
INSTANTIATE_TEST_SUITE_P(
    Modes, StuckTraining,
    ::testing::Values(Stuck{JobMode::allreduce, 0, "rank 2 (/job:worker/task:2) has not begun all_reduce"},
                      Stuck{JobMode::sync, 1, "(worker 2"}, Stuck{JobMode::async, 1, "(worker 2"}));

}  // namespace
}  // namespace troupe
