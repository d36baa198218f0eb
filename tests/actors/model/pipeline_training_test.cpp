// Models trained from pipelines end with the bits of the same examples in memory, in all modes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>

#include "tests/actors/training/job_tasks.hpp"
#include "tests/error_of.hpp"
#include "tests/temporary_directory.hpp"
#include <troupe/actors/introspection/introspection.hpp>
#include <troupe/actors/model/model.hpp>
#include <troupe/scheduler/data/element_stream.hpp>
#include <troupe/scheduler/data/pipeline_source.hpp>
#include <troupe/scheduler/data/tensor_dataset.hpp>

namespace troupe {
namespace {

using data::Element;
using data::ElementContext;
using data::Pipeline;

constexpr std::int64_t kElements = 150;

// Points and their values, drawn from the number of the element; another order in each epoch.
Pipeline drawn_points() {
  return data::range(0, kElements)
      .shuffle(3)
      .map("point", {{"x", DType::f32, Shape{2}}, {"y", DType::f32, Shape{1}}},
           [](const Element& e, const ElementContext& context) -> Element {
             const auto number = static_cast<float>(e[0].item<std::int64_t>());
             const float a = number / 75 - 1, b = static_cast<float>(context.number % 7) / 7;
             return {Tensor::vector<float>({a, b}), Tensor::vector<float>({a * b + 1})};
           });
}

// The same without every fifth, twice: the number of examples is not known.
Pipeline some_drawn_points() {
  return drawn_points()
      .filter("most", [](const Element& e) { return static_cast<int>(e[0].data<float>()[0] * 75 + 75.5F) % 5 != 0; })
      .flat_map("twice", drawn_points().schema(),
                [](const Element& e, const ElementContext&) {
                  return std::vector<Element>{e, e};
                })
      .shuffle(5, {.buffer = 32});
}

std::string trained(const BatchSource& source, Task& task, TrainingOptions options) {
  Model model({layers::dense(6, Activation::tanh), layers::dense(1)}, Shape{2});
  model.compile({.optimizer = optimizers::Adam{}, .outputs = {{.loss = Loss::mean_squared_error}}}, task);
  options.batch = 4;
  options.quiet = true;
  const TrainingResult result = model.fit(source, options);
  return result.chief ? fmt::format("{} after {} steps", result.params_sha256, result.steps) : "";
}

// The examples of an epoch, in memory.
TensorDataset in_memory(const Pipeline& pipeline, std::uint64_t epoch) {
  const auto stream = open_stream(pipeline.batch(1 << 20).stage());
  stream->start(epoch);
  const Element all = *stream->next();
  return TensorDataset({{"x", all[0]}, {"y", all[1]}});
}

class PipelineTraining : public ::testing::TestWithParam<bool> {
 protected:
  static Pipeline pipeline() { return GetParam() ? drawn_points() : some_drawn_points(); }
};

TEST_P(PipelineTraining, OneEpochIsThatOfItsExamplesInMemory) {
  Task task;
  const TrainingOptions options{.mode = LocalMode{.slots = 2}, .epochs = 1};
  const std::string expected = trained(PipelineSource(data::tensors({{"x", in_memory(pipeline(), 0).tensors()[0]},
                                                                     {"y", in_memory(pipeline(), 0).tensors()[1]}})),
                                       task, options);
  EXPECT_EQ(trained(PipelineSource(pipeline()), task, options), expected);
  EXPECT_EQ(trained(PipelineSource(pipeline().batch(4)), task, options), expected);
  EXPECT_EQ(testing::error_of([&] { trained(PipelineSource(pipeline().batch(5)), task, options); }).message(),
            "the training data makes batches of 5, but TrainingOptions::batch is 4: set it to 5");
}

TEST_P(PipelineTraining, HasTheSameBitsOverAnyNumberOfWorkers) {
  const PipelineSource source(pipeline());
  Task alone;
  const std::string expected = trained(source, alone, {.mode = LocalMode{.slots = 3}, .epochs = 2});
  for (const int workers : {1, 3}) {
    SCOPED_TRACE(workers);
    testing::JobTasks tasks(2, workers);
    EXPECT_THAT(
        tasks.run([&](Task& task) { return trained(source, task, {.mode = SyncMode{.slots = 3}, .epochs = 2}); }),
        ::testing::Contains(expected));
  }
  testing::JobTasks ranks(0, 2);
  EXPECT_THAT(ranks.run([&](Task& task) { return trained(source, task, {.mode = AllReduceMode{}, .epochs = 2}); }),
              ::testing::Contains(trained(source, alone, {.mode = LocalMode{.slots = 2}, .epochs = 2})));
}

// The messages of a run: what the chief ended with among them.
std::vector<std::string> events_of(const testing::JobTasks& tasks, const BatchSource& source,
                                   const TrainingOptions& options) {
  return tasks.run([&](Task& task) { return trained(source, task, options); });
}

TEST_P(PipelineTraining, HasTheSameBitsFromInputTasks) {
  const PipelineSource source(pipeline());
  Task alone;
  const std::string expected = trained(source, alone, {.mode = LocalMode{.slots = 3}, .epochs = 2});
  for (const int inputs : {1, 2}) {
    SCOPED_TRACE(inputs);
    testing::JobTasks tasks(1, 2, {}, {}, inputs);
    EXPECT_THAT(events_of(tasks, source, {.mode = SyncMode{.slots = 3}, .epochs = 2}), ::testing::Contains(expected));
  }
  testing::JobTasks ranks(0, 2, {}, {}, 1);
  EXPECT_THAT(events_of(ranks, source, {.mode = AllReduceMode{}, .epochs = 2}),
              ::testing::Contains(trained(source, alone, {.mode = LocalMode{.slots = 2}, .epochs = 2})));
}

TEST_P(PipelineTraining, TrainsSeveralTimesFromInputTasks) {
  const PipelineSource source(pipeline());
  const auto twice = [&](Task& task, const TrainingOptions& options) {
    return trained(source, task, options) + trained(source, task, options);
  };
  Task alone;
  const std::string expected = twice(alone, {.mode = LocalMode{.slots = 2}, .epochs = 1});
  testing::JobTasks tasks(1, 2, {}, {}, 1);
  EXPECT_THAT(tasks.run([&](Task& task) { return twice(task, {.mode = SyncMode{.slots = 2}, .epochs = 1}); }),
              ::testing::Contains(expected));
}

// Baskets of any number of items, some empty, in ragged batches: their mean vectors predict how many there are.
TEST(RaggedBatches, HaveTheSameBitsInOneTaskOnWorkersAndFromInputTasks) {
  const PipelineSource source(data::range(0, 60)
                                  .map("basket", {{"items", DType::i64, Shape{kUnknown}}, {"y", DType::f32, Shape{1}}},
                                       [](const Element& e, const ElementContext&) -> Element {
                                         const std::int64_t n = e[0].item<std::int64_t>(), count = n * n % 5;
                                         Tensor items(DType::i64, Shape{count});
                                         for (std::int64_t i = 0; i < count; ++i)
                                           items.mutable_data<std::int64_t>()[i] = (n + i * i) % 9;
                                         return {items, Tensor::vector<float>({static_cast<float>(count)})};
                                       })
                                  .shuffle(3)
                                  .ragged_batch(4));
  const Program program = [](ProgramContext& c) -> ProgramOutputs {
    const VariableRef table = c.variable("table", {.shape = {9, 2}}, initializers::glorot_uniform());
    const Output means = embedding_lookup_sparse(table.read(), {c["items.values"], c["items.row_splits"]});
    return {.objectives = {{.loss = mean(squared_difference(sum(means, {1}, {.keep_dims = true}), c["y"]))}}};
  };
  const auto train = [&](Task& task, TrainingOptions options) {
    Model model(program, source.schema());
    model.compile({}, task);
    options.batch = 4;
    options.quiet = true;
    const TrainingResult result = model.fit(source, options);
    return result.chief ? fmt::format("{} after {} steps", result.params_sha256, result.steps) : "";
  };
  Task alone;
  const std::string expected = train(alone, {.mode = LocalMode{.slots = 2}, .epochs = 2});
  EXPECT_THAT(expected, ::testing::HasSubstr("after 14 steps"));
  for (const int inputs : {0, 1}) {
    testing::JobTasks tasks(1, 2, {}, {}, inputs);
    EXPECT_THAT(tasks.run([&](Task& task) { return train(task, {.mode = SyncMode{.slots = 2}, .epochs = 2}); }),
                ::testing::Contains(expected))
        << inputs;
  }
  EXPECT_THAT(
      testing::error_of([&] { train(alone, {.mode = LocalMode{}, .epochs = 1, .micro_batches = 2}); }).message(),
      ::testing::HasSubstr("'items.values' is of a whole batch, which is not cut into 2 micro-batches"));
  EXPECT_EQ(testing::error_of([&] { trained(source, alone, {.epochs = 1}); }).message(),
            "input 'input': 'items.values' is part of a sparse or ragged batch, but layers take rows of one size: use "
            "padded_batch");
}

// A stage that computes for a while keeps everybody waiting until somebody has asked why.
TEST(PipelineTrainingWaits, TheReasonForAWaitIsTheSlowestStage) {
  std::atomic<bool> seen{false};
  const Pipeline slow =
      drawn_points().map("slow", drawn_points().schema(), [&](const Element& e, const ElementContext&) {
        const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(seen ? 0 : 5);
        while (std::chrono::steady_clock::now() < until) {
        }
        return e;
      });
  const PipelineSource source(slow);
  testing::JobTasks tasks(1, 1, {}, {}, 1);
  std::atomic<int> training{3};
  const auto results = std::async(std::launch::async, [&] {
    tasks.run([&](Task& task) {
      std::string out = trained(source, task, {.mode = SyncMode{.slots = 1}, .epochs = 20});
      --training;
      return out;
    });
  });
  std::string why;
  while (why.find("stage 'map slow' of /job:input/task:0, the slowest of its pipeline") == std::string::npos &&
         training == 3)
    why = tasks[2].introspection().view().why().text;
  seen = true;
  results.wait();
  EXPECT_THAT(why,
              ::testing::ContainsRegex("stage 'map slow' of /job:input/task:0, the slowest of its pipeline, [0-9]+ % "
                                       "busy"));
}

// Numbers in two splits, which count how often they are read.
class CountedNumbers final : public data::ElementSource {
 public:
  std::uint64_t splits() const override { return 2; }
  std::unique_ptr<data::ElementCursor> open(std::uint64_t split) const override {
    return std::make_unique<Cursor>(read, split);
  }
  static constexpr std::uint64_t kEach = 500;
  mutable std::atomic<std::uint64_t> read{0};

 private:
  class Cursor final : public data::ElementCursor {
   public:
    Cursor(std::atomic<std::uint64_t>& read, std::uint64_t split) : read_(read), split_(split) {}
    bool next(Element& element) override {
      if (at_ == kEach) return false;
      ++read_;
      element = {Tensor::scalar(static_cast<std::int64_t>(split_ * kEach + at_++))};
      return true;
    }
    std::uint64_t position() const override { return at_; }
    void seek(std::uint64_t position) override { at_ = position; }

   private:
    std::atomic<std::uint64_t>& read_;
    std::uint64_t split_, at_ = 0;
  };
};

// A job that was stopped at step 200 of 250 reads on from its last position, not from the beginning.
TEST(PipelineTrainingResumes, FromAPositionInItsCheckpoint) {
  const auto numbers = std::make_shared<const CountedNumbers>();
  const Pipeline read =
      data::from_source("numbers", {{"number", DType::i64, Shape{}}},
                        std::static_pointer_cast<const data::ElementSource>(numbers))
          .shuffle(3, {.buffer = 16})
          .map("point", drawn_points().schema(), [](const Element& e, const ElementContext&) -> Element {
            const auto number = static_cast<float>(e[0].item<std::int64_t>());
            return {Tensor::vector<float>({number / 500, 1}), Tensor::vector<float>({number / 300})};
          });
  const PipelineSource source(read);
  Task alone;
  const std::string expected = trained(source, alone, {.mode = LocalMode{.slots = 1}, .epochs = 1});
  const std::uint64_t whole = numbers->read;
  const auto resumed = [&](const JobMode& mode, const std::function<std::vector<std::string>(TrainingOptions)>& run) {
    const testing::TemporaryDirectory directory;
    std::atomic<bool> stop{false};
    TrainingOptions options{.mode = mode, .epochs = 1, .checkpoint = directory.path().string(), .stop = &stop};
    options.on_progress = [&](const StepProgress& at) { stop = stop || at.step >= 200; };
    run(options);
    numbers->read = 0;
    stop = false;
    options.on_progress = nullptr;
    EXPECT_THAT(run(options), ::testing::Contains(expected));
    EXPECT_LT(numbers->read, whole / 2);  // from step 192 or 128 on, and a block
    EXPECT_GE(numbers->read, whole / 25);
  };
  resumed(LocalMode{.slots = 1}, [&](const TrainingOptions& options) -> std::vector<std::string> {
    try {
      return {trained(source, alone, options)};
    } catch (const Error& error) {
      return {error.message()};
    }
  });
  for (const int inputs : {0, 1}) {
    SCOPED_TRACE(inputs);
    resumed(SyncMode{.slots = 1}, [&](const TrainingOptions& options) {
      testing::JobTasks tasks(1, 1, {}, {}, inputs);
      return events_of(tasks, source, options);
    });
  }
}

// The mean loss of an epoch during which parameters do not change: each example has its part in it, once.
std::string mean_loss(const BatchSource& source, Task& task, const TrainingOptions& options) {
  Model model({layers::dense(1)}, Shape{2});
  model.compile({.optimizer = optimizers::SGD{.learning_rate = 1e-30}, .outputs = {{.loss = Loss::mean_squared_error}}},
                task);
  const TrainingResult result = model.fit(source, options);
  return result.chief ? fmt::format("{:.10g} after {} steps", result["loss"], result.steps) : "";
}

TEST_P(PipelineTraining, EachExampleCountsOnceInAJobThatGoesOn) {
  const PipelineSource source(pipeline());
  for (const JobMode& mode :
       {JobMode(SyncMode{.slots = 2}), JobMode(SspMode{.slots = 2}), JobMode(AsyncMode{}), JobMode(AllReduceMode{})}) {
    SCOPED_TRACE(name(mode));
    const testing::TemporaryDirectory directory;
    std::atomic<bool> stop{false};
    TrainingOptions options{.mode = mode, .epochs = 1, .batch = 3, .quiet = true};
    const auto run = [&] {
      testing::JobTasks tasks(std::holds_alternative<AllReduceMode>(mode) ? 0 : 1, 2);
      return tasks.run([&](Task& task) { return mean_loss(source, task, options); });
    };
    const std::vector<std::string> whole = run();
    const auto expected = std::ranges::find_if(whole, [](const std::string& text) { return !text.empty(); });
    ASSERT_NE(expected, whole.end());
    options.checkpoint = directory.path().string();
    options.stop = &stop;
    stop = std::holds_alternative<AllReduceMode>(mode);  // ranks agree after the first step, then about once a second
    options.on_progress = [&](const StepProgress& at) { stop = stop || at.step >= 11; };
    EXPECT_THAT(run(), ::testing::Not(::testing::Contains(*expected)));
    stop = false;
    options.on_progress = nullptr;
    EXPECT_THAT(run(), ::testing::Contains(*expected));
  }
}

std::int64_t makers_of(Task& task) {
  std::int64_t count = 0;
  for (const TaskReport& report : task.introspection().view().snapshot().tasks)
    if (report.task == task.name().to_string() && report.snapshot)
      count = std::ranges::count(report.snapshot->actors, "maker", &ActorSnapshot::kind);
  return count;
}

TEST(PipelineTrainingReadsAhead, WithAsManyThreadsAsItMay) {
  const PipelineSource source(drawn_points());
  Task alone;
  const std::string expected = trained(source, alone, {.mode = LocalMode{.slots = 1}, .epochs = 1});
  for (const int threads : {1, 5}) {
    testing::JobTasks tasks(1, 1, {}, {}, 1);
    std::atomic<std::int64_t> makers{0};
    TrainingOptions options{.mode = SyncMode{.slots = 1}, .epochs = 1, .read_ahead = {.threads = threads}};
    options.on_progress = [&](const StepProgress& at) {
      if (at.step == 3) makers = makers_of(tasks[1]);
    };
    EXPECT_THAT(events_of(tasks, source, options), ::testing::Contains(expected));
    EXPECT_EQ(makers, threads);
  }
  EXPECT_EQ(testing::error_of([&] { trained(source, alone, {.read_ahead = {.threads = -1}}); }).message(),
            "read_ahead.threads must be 0 to 1024 (0: the task's share of the cores), not -1");
}

// A reader that was waited for is given time to go ahead: it makes what was asked for, and no more.
TEST(PipelineTrainingReadsAhead, WithinItsMemory) {
  std::atomic<std::uint64_t> mapped{0};
  const Pipeline counted =
      drawn_points().map("count", drawn_points().schema(), [&](const Element& e, const ElementContext& context) {
        const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(context.number < 16 ? 1 : 0);
        while (std::chrono::steady_clock::now() < until) {
        }
        ++mapped;
        return e;
      });
  const PipelineSource source(counted);
  const auto furthest_ahead = [&](const ReadAhead& budget) {
    mapped = 0;
    std::uint64_t ahead = 0;
    TrainingOptions options{.mode = SyncMode{.slots = 1}, .epochs = 1, .read_ahead = budget};
    options.on_progress = [&](const StepProgress& at) {
      if (at.step != 8) return;
      const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(budget.memory == 0 ? 50 : 10'000);
      while (ahead < 3 && std::chrono::steady_clock::now() < until) ahead = mapped / 4 - at.step;
    };
    testing::JobTasks tasks(1, 1, {}, {}, 1);
    events_of(tasks, source, options);
    return ahead;
  };
  EXPECT_LT(furthest_ahead({.memory = 0}), 3U);  // a worker wants two
  EXPECT_GE(furthest_ahead({}), 3U);
}

TEST(PipelineTrainingErrors, AnInputTaskWithOtherDataIsNamed) {
  const auto errors_with = [](const Pipeline& of_input) {
    testing::JobTasks tasks(1, 1, {}, {}, 1);
    return tasks.run([&](Task& task) {
      const PipelineSource source(task.name().job == "input" ? of_input : drawn_points());
      return trained(source, task, {.mode = SyncMode{.slots = 1, .servers = {.on_loss = OnLoss::fail}}, .epochs = 1});
    });
  };
  constexpr std::string_view kOther = "/job:input/task:0 runs another program than /job:worker/task:0: train_data";
  EXPECT_THAT(errors_with(drawn_points().take(100)),
              ::testing::Contains(::testing::HasSubstr(fmt::format("{} is ", kOther))));
  // As many examples, in another order.
  const std::string another = fmt::format("{}.4 is 'shuffle (seed 9, ", kOther);
  EXPECT_THAT(errors_with(drawn_points().shuffle(9)), ::testing::Contains(::testing::HasSubstr(another)));
}

TEST(PipelineTrainingErrors, AnErrorOfTheDataNamesTheInputTask) {
  const Pipeline damaged =
      drawn_points().map("fails", drawn_points().schema(), [](const Element& e, const ElementContext& c) {
        if (c.number == 37) fail(Code::data_loss, "'points.csv', line 38: damaged");
        return e;
      });
  const PipelineSource source(damaged);
  testing::JobTasks tasks(1, 1, {}, {}, 1);
  const auto errors = tasks.run([&](Task& task) {
    return trained(source, task, {.mode = SyncMode{.slots = 1, .servers = {.on_loss = OnLoss::fail}}, .epochs = 1});
  });
  EXPECT_THAT(errors, ::testing::Contains(::testing::HasSubstr(
                          "/job:input/task:0: stage 'map fails': 'points.csv', line 38: damaged")));
}

INSTANTIATE_TEST_SUITE_P(All, PipelineTraining, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Addressable" : "Forward"; });

}  // namespace
}  // namespace troupe
