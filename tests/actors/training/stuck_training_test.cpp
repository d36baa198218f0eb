// Training in a cluster whose last worker gets stuck while its links are fine: after the step timeout the job fails,
// and the error names that worker.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <latch>

#include "tests/actors/training/classifying.hpp"
#include "tests/actors/training/job_tasks.hpp"
#include "tests/error_of.hpp"
#include "tests/patience.hpp"
#include <troupe/actors/model/model.hpp>
#include <troupe/kernels/readers/digits.hpp>

namespace troupe {
namespace {

using ::testing::AllOf;
using testing::error_of;
using ::testing::HasSubstr;

struct Stuck {
  std::function<JobMode(std::chrono::milliseconds step_timeout)> mode;
  int ps;
  std::string missing;  // what is said of the last worker
};
void PrintTo(const Stuck& stuck, std::ostream* out) {
  *out << "mode " << name(stuck.mode(std::chrono::milliseconds(0)));
}

class StuckTraining : public ::testing::TestWithParam<Stuck> {};

// What each task says that has got stuck, or waits for that one.
std::vector<std::string> train(const Stuck& stuck_in, std::chrono::milliseconds step_timeout) {
  constexpr int kWorkers = 3;
  const DataSplits data = draw_digits({.train = 96, .test = 10});
  testing::JobTasks tasks(stuck_in.ps, kWorkers);
  std::latch others_failed(stuck_in.ps + kWorkers - 1);
  return tasks.run([&](Task& task) {
    const bool stuck = task.name() == TaskName{"worker", kWorkers - 1};
    const Error error = error_of([&] {
      Model model({layers::rescaling(1 / 255.0), layers::flatten(), layers::dense(10)}, Shape{28, 28, 1}, DType::u8);
      model.compile(testing::classifying(optimizers::SGD{}), task);
      TrainingOptions options{.mode = stuck_in.mode(step_timeout), .epochs = 1000, .batch = 8};
      if (stuck) options.on_progress = [&](const StepProgress&) { others_failed.wait(); };
      model.fit(data, options);
    });
    if (!stuck) others_failed.count_down();
    return error.to_string();
  });
}

TEST_P(StuckTraining, FailsEverywhereNamingWhoIsMissing) {
  const ::testing::Matcher<std::string> says = AllOf(HasSubstr("deadline_exceeded"), HasSubstr(GetParam().missing));
  std::vector<std::string> said;
  EXPECT_TRUE(testing::holds_with_more_time(std::chrono::milliseconds(1500), [&](std::chrono::milliseconds limit) {
    said = train(GetParam(), limit);  // another may be late too
    return std::ranges::all_of(said, [&](const std::string& text) { return says.Matches(text); });
  })) << ::testing::PrintToString(said);
}
INSTANTIATE_TEST_SUITE_P(
    Modes, StuckTraining,
    ::testing::Values(Stuck{[](auto limit) { return AllReduceMode{.step_timeout = limit}; }, 0,
                            "rank 2 (/job:worker/task:2) has not begun all_reduce"},
                      Stuck{[](auto limit) { return SyncMode{.servers = {.step_timeout = limit}}; }, 1, "(worker 2"},
                      Stuck{[](auto limit) { return AsyncMode{.servers = {.step_timeout = limit}}; }, 1, "(worker 2"}));

}  // namespace
}  // namespace troupe
