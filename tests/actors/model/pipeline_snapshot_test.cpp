// Pipelines that a training reads in place are in snapshots while it does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

#include "tests/actors/training/job_tasks.hpp"
#include <troupe/actors/introspection/introspection.hpp>
#include <troupe/actors/introspection/metrics.hpp>
#include <troupe/actors/model/model.hpp>
#include <troupe/scheduler/data/pipeline_source.hpp>

namespace troupe {
namespace {

using data::Element;
using data::ElementContext;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;

constexpr std::int64_t kPoints = 64;

// Points of a line; calls `f` with the number of each.
data::Pipeline line_points(std::function<void(std::int64_t)> f) {
  return data::range(0, kPoints)
      .map("point", {{"x", DType::f32, Shape{1}}, {"y", DType::f32, Shape{1}}},
           [f = std::move(f)](const Element& e, const ElementContext&) -> Element {
             f(e[0].item<std::int64_t>());
             const auto number = static_cast<float>(e[0].item<std::int64_t>());
             return {Tensor::vector<float>({number / 64}), Tensor::vector<float>({number / 32})};
           });
}

void train_line(const BatchSource& source, Task& task, const JobMode& mode) {
  Model line({layers::dense(1)}, Shape{1});
  line.compile({.outputs = {{.loss = Loss::mean_squared_error}}}, task);
  line.fit(source, {.mode = mode, .epochs = 1, .batch = 32, .quiet = true});
}

TEST(PipelineSnapshots, HaveTheStagesOfWhatATrainingReadsItself) {
  Task task;
  ClusterSnapshot seen;
  const PipelineSource source(line_points([](std::int64_t) {}).take(8));
  const PipelineSource evaluation(line_points([&](std::int64_t number) {
    if (number == 20) seen = task.introspection().view().snapshot();
  }));
  Model line({layers::dense(1)}, Shape{1});
  line.compile({.outputs = {{.loss = Loss::mean_squared_error}}}, task);
  line.fit(source, evaluation, {.mode = LocalMode{.slots = 1}, .epochs = 1, .batch = 4, .quiet = true});
  const auto& pipelines = seen.tasks.at(0).snapshot->pipelines;
  ASSERT_EQ(pipelines.size(), 2u);
  EXPECT_EQ(pipelines[0].data, "training");
  EXPECT_EQ(pipelines[0].feeds, 1u);
  EXPECT_EQ(pipelines[0].made, 2u);
  EXPECT_EQ(pipelines[0].making, 0u);
  EXPECT_EQ(pipelines[0].waited, 0u);
  EXPECT_EQ(pipelines[0].makers, 1u);
  EXPECT_THAT(pipelines[0].stages,
              ElementsAre(Field(&StageSnapshot::name, "range"), Field(&StageSnapshot::name, "map point"),
                          Field(&StageSnapshot::name, "take 8")));
  EXPECT_EQ(pipelines[0].stages[1].elements, 8u);
  EXPECT_GT(pipelines[0].stages[1].busy_ns, 0);
  EXPECT_EQ(pipelines[1].data, "evaluation");
  EXPECT_EQ(pipelines[1].made, 0u);
  EXPECT_EQ(pipelines[1].making, 1u);
  EXPECT_EQ(pipelines[1].stages[1].elements, 20u);
  EXPECT_THAT(to_metrics(seen), HasSubstr("data=\"training\",stage=\"map point\"} 8\n"));
  EXPECT_TRUE(task.introspection().training().pipelines().empty()) << "the training is over";
}

TEST(PipelineSnapshots, AreOfWhoeverMakesTheBatches) {
  Task task;
  ClusterSnapshot seen;
  const PipelineSource source(line_points([](std::int64_t) {
    const auto until = steady_now_ns() + 200'000;
    while (steady_now_ns() < until) {
    }
  }));
  Model line({layers::dense(1)}, Shape{1});
  line.compile({.outputs = {{.loss = Loss::mean_squared_error}}}, task);
  TrainingOptions options{.mode = LocalMode{.slots = 1}, .epochs = 2, .batch = 4, .quiet = true};
  options.on_progress = [&](const StepProgress& at) {
    if (at.epoch == 1 && at.step == 12) seen = task.introspection().view().snapshot();
  };
  line.fit(source, options);
  const auto& pipelines = seen.tasks.at(0).snapshot->pipelines;
  ASSERT_EQ(pipelines.size(), 1u) << "the loop has read in place only in the beginning";
  EXPECT_GT(pipelines[0].ahead, 0u);
}

TEST(PipelineSnapshots, AreOfAWorkerThatReachesNoInputTask) {
  testing::JobTasks tasks(1, 1, {}, {}, 1);
  tasks.shut_down(1);
  TaskSnapshot seen;
  const PipelineSource source(line_points([&](std::int64_t number) {
    if (number == 20) seen = *tasks[2].introspection().view().snapshot().tasks.back().snapshot;
  }));
  tasks.run([&](Task& task) -> std::string {
    if (task.name().job != "input") train_line(source, task, SyncMode{.slots = 1});
    return "";
  });
  EXPECT_EQ(seen.task, "/job:worker/task:0");
  ASSERT_EQ(seen.pipelines.size(), 1u);
  EXPECT_EQ(seen.pipelines[0].making, 1u);
  EXPECT_EQ(seen.pipelines[0].stages.back().elements, 20u);
}

// Whoever reads in place waits in a function of the pipeline until somebody has asked why.
class PipelineSnapshotsWhy : public ::testing::Test {
 protected:
  // Asks until the answer has `part`, at most as long as the training goes on.
  std::string ask(Task& task, const std::string& part, const std::function<void(const BatchSource&)>& train) {
    const PipelineSource source(line_points([this](std::int64_t number) {
      const auto until = steady_now_ns() + 1'000'000;
      while (number < 16 ? steady_now_ns() < until : !seen_) std::this_thread::yield();
    }));
    const auto trained = std::async(std::launch::async, [&] {
      train(source);
      over_ = true;
    });
    std::string why;
    const auto until = std::chrono::steady_clock::now() + testing::kPatience;
    while (why.find(part) == std::string::npos && !over_ && std::chrono::steady_clock::now() < until)
      why = task.introspection().view().why().text;
    seen_ = true;
    trained.wait();
    return why;
  }

 private:
  std::atomic<bool> seen_{false}, over_{false};
};

TEST_F(PipelineSnapshotsWhy, ATrainingByItselfWaitsForItsSlowestStage) {
  Task task;
  const std::string part =
      fmt::format("stage 'map point' of {}, the slowest of its pipeline, ", task.name().to_string());
  EXPECT_THAT(ask(task, part, [&](const BatchSource& source) { train_line(source, task, LocalMode{.slots = 1}); }),
              HasSubstr(part));
}

TEST_F(PipelineSnapshotsWhy, AWorkerWithoutInputTasksWaitsForItsSlowestStage) {
  testing::JobTasks tasks(1, 1);
  const std::string part = "stage 'map point' of /job:worker/task:0, the slowest of its pipeline, ";
  EXPECT_THAT(ask(tasks[0], part,
                  [&](const BatchSource& source) {
                    tasks.run([&](Task& task) -> std::string {
                      train_line(source, task, SyncMode{.slots = 1});
                      return "";
                    });
                  }),
              HasSubstr(part));
}

}  // namespace
}  // namespace troupe
