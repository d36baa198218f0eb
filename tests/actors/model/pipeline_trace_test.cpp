// The stages of pipelines in the traces of trainings.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "tests/actors/training/job_tasks.hpp"
#include <troupe/actors/base/actor_record.hpp>
#include <troupe/actors/model/model.hpp>
#include <troupe/scheduler/data/pipeline_source.hpp>

namespace troupe {
namespace {

constexpr std::int64_t kBusyNs = 50'000, kBatchOf = 4;

// Points of which each takes 50 us; in order, or by number.
data::Pipeline slow_points(bool addressable) {
  const data::Pipeline points =
      data::range(0, 80).map("slow", {{"x", DType::f32, Shape{1}}, {"y", DType::f32, Shape{1}}},
                             [](const data::Element& e, const data::ElementContext&) -> data::Element {
                               const auto until = steady_now_ns() + kBusyNs;
                               while (steady_now_ns() < until) {
                               }
                               const auto number = static_cast<float>(e[0].item<std::int64_t>());
                               return {Tensor::vector<float>({number / 80}), Tensor::vector<float>({number / 40})};
                             });
  return addressable ? points : points.filter("all", [](const data::Element&) { return true; });
}

void train(const BatchSource& source, Task& task, const JobMode& mode) {
  Model line({layers::dense(1)}, Shape{1});
  line.compile({.outputs = {{.loss = Loss::mean_squared_error}}}, task);
  line.fit(source, {.mode = mode, .epochs = 1, .batch = kBatchOf, .quiet = true});
}

// All slices of a name.
std::vector<TraceEvent> slices(const TraceRecording& recording, std::string_view name) {
  std::vector<TraceEvent> out;
  for (const TraceEvent& e : recording.events)
    if (recording.names[e.name] == name && e.kind != TraceKind::mailbox && e.kind != TraceKind::departs &&
        e.kind != TraceKind::arrives)
      out.push_back(e);
  return out;
}

// The slice of a stage lies in one of `around`, on its track.
void expect_within(const TraceEvent& stage, const std::vector<TraceEvent>& around) {
  EXPECT_EQ(std::ranges::count_if(around,
                                  [&](const TraceEvent& e) {
                                    return e.track == stage.track && e.begin_ns <= stage.begin_ns &&
                                           stage.end_ns <= e.end_ns;
                                  }),
            1);
}

TEST(PipelineTrace, HasTheStagesOfInputTasksOnTheTracksOfWhoWorksForThem) {
  for (const bool addressable : {true, false}) {
    SCOPED_TRACE(addressable);
    const PipelineSource source(slow_points(addressable));
    testing::JobTasks tasks(1, 1, {}, {}, 1);
    Trace& trace = tasks[1].actors().trace();
    trace.start();
    tasks.run([&](Task& task) -> std::string {
      train(source, task, SyncMode{.slots = 1});
      return "";
    });
    trace.stop();
    const TraceRecording recording = trace.take();
    const auto of_map = slices(recording, "map slow");
    EXPECT_EQ(of_map.size(), 20u);  // batches
    // What a filter looks at is made where it is read; the rest there or by makers, when there are several.
    auto works = slices(recording, "BeginBatch");
    if (addressable) std::ranges::copy(slices(recording, "MakeBatch"), std::back_inserter(works));
    std::int64_t all = 0;
    for (const TraceEvent& stage : of_map) {
      EXPECT_THAT(recording.tracks[stage.track], ::testing::MatchesRegex("(reader|maker) /job:input/task:0.*"));
      expect_within(stage, works);
      all += stage.end_ns - stage.begin_ns;
    }
    EXPECT_GE(all, 80 * kBusyNs);
    const auto of_filter = slices(recording, "filter all");
    EXPECT_EQ(of_filter.size(), addressable ? 0u : 20u);
    for (const TraceEvent& stage : of_filter) {
      expect_within(stage, works);
      for (const TraceEvent& other : of_map)
        EXPECT_TRUE(other.track != stage.track || other.end_ns <= stage.begin_ns || stage.end_ns <= other.begin_ns);
    }
  }
}

TEST(PipelineTrace, HasTheStagesOfBatchesThatAreReadInPlace) {
  const PipelineSource source(slow_points(true));
  Task task;
  task.actors().trace().start();
  train(source, task, LocalMode{.slots = 1});
  task.actors().trace().stop();
  const TraceRecording recording = task.actors().trace().take();
  const auto of_map = slices(recording, "map slow"), reads = slices(recording, "read"),
             batches = slices(recording, "batch");
  EXPECT_EQ(of_map.size(), 20u);
  ASSERT_FALSE(reads.empty());  // others read ahead after a few
  for (const TraceEvent& read : reads) {
    expect_within(read, batches);
    const auto in_it = std::ranges::count_if(of_map, [&](const TraceEvent& stage) {
      return stage.track == read.track && read.begin_ns <= stage.begin_ns && stage.end_ns <= read.end_ns &&
             stage.end_ns - stage.begin_ns >= kBatchOf * kBusyNs;
    });
    EXPECT_EQ(in_it, 1);
  }
}

}  // namespace
}  // namespace troupe
