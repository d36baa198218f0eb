// Programs that are no classifiers, in all modes: they have the same bits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/actors/training/job_tasks.hpp"
#include <troupe/actors/training/training_plan.hpp>
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/name_pattern.hpp>
#include <troupe/scheduler/data/tensor_dataset.hpp>

namespace troupe {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

// y = x [4] times fixed numbers, 5 more than 60 examples.
TensorDataset line(std::int64_t examples) {
  std::vector<float> x, y;
  std::mt19937 random(3);
  for (std::int64_t i = 0; i < examples; ++i) {
    float sum = 1;
    for (int j = 0; j < 4; ++j) {
      x.push_back(static_cast<float>(random() % 1000) / 500.0F - 1);
      sum += static_cast<float>(j) * x.back();
    }
    y.push_back(sum);
  }
  return TensorDataset({{"x", Tensor::of<float>(Shape{examples, 4}, std::span<const float>(x))},
                        {"y", Tensor::of<float>(Shape{examples, 1}, std::span<const float>(y))}});
}

// A source that does not know how many examples it has.
class Unknown final : public BatchSource {
 public:
  explicit Unknown(const BatchSource& source) : source_(source) {}
  const BatchSchema& schema() const override { return source_.schema(); }
  std::optional<std::uint64_t> examples() const override { return std::nullopt; }
  std::unique_ptr<BatchReader> open(const BatchPlan& plan) const override { return source_.open(plan); }

 private:
  const BatchSource& source_;
};

ProgramOutputs regress(ProgramContext& c) {
  LayerContext context = c.layers();
  const Output y =
      Sequential({layers::dense(8, Activation::tanh), layers::dropout(0.1), layers::dense(1)}).apply(context, c["x"]);
  const Output error = squared_difference(y, c["y"]);
  const Output sums = reshape(sum(error), Shape{1});
  return {.objectives = {{.name = "mse", .loss = mean(error), .optimizer = optimizers::Adam{.learning_rate = 0.05}}},
          .figures = {{.name = "total",
                       .sums = sums,
                       .result = [](const Tensor& s) { return Tensor::scalar(s.data<double>()[0]); }}},
          .predictions = {{"y", y}}};
}

// The second objective wants its number near the sum of the weights that the first has just changed.
ProgramOutputs pursue(ProgramContext& c) {
  const VariableRef slope = c.variable("slope/w", {.shape = Shape{4, 1}}, initializers::ones());
  const VariableRef follower = c.variable("follower/w", {.shape = Shape{1}}, initializers::zeros());
  const VariableRef fixed = c.variable("fixed/w", {.shape = Shape{1}}, initializers::ones());
  const Output y = add(matmul(c["x"], slope.read()), fixed.read());
  const Output first = mean(squared_difference(y, c["y"]));
  const Output goal = reshape(sum(slope.read()), Shape{1});
  const Output second = mean(squared_difference(follower.read(), goal));
  return {.objectives = {{.name = "line", .loss = first, .train = {"slope/*"}, .optimizer = optimizers::SGD{0.1}},
                         {.name = "pursuit",
                          .loss = second,
                          .train = {"follower/?"},
                          .optimizer = optimizers::Adam{.learning_rate = 0.1}}}};
}

class Programs : public ::testing::Test {
 protected:
  struct Result {
    std::string hash;
    Parameters parameters;
    std::vector<EpochLogs> epochs;
    std::uint64_t steps = 0;
  };
  struct Job {
    const Program& program;
    const BatchSource& train;
    const BatchSource* evaluation = nullptr;
    TrainingOptions options{};
  };

  static Result run(const Job& job, Task& task) {
    TrainingState state;
    Result result;
    TrainingOptions options = job.options;
    options.on_epoch = [&](const EpochLogs& epoch) { result.epochs.push_back(epoch); };
    const TrainingPlan plan{.program = job.program,
                            .description = "test",
                            .train = job.train,
                            .evaluation = job.evaluation,
                            .options = options,
                            .state = state,
                            .task = task};
    const TrainingResult trained = troupe::train(plan);
    result.hash = trained.params_sha256;
    result.steps = trained.steps;
    result.parameters = state.parameters;
    return result;
  }
  static Result local(Job job, int slots) {
    job.options.mode = LocalMode{.slots = slots};
    Task task({.threads = 1});
    return run(job, task);
  }
  // Of the chief; the others' errors are failures.
  static Result cluster(Job job, const JobMode& mode, int ps, int workers) {
    job.options.mode = mode;
    testing::JobTasks tasks(ps, workers);
    Result chief;
    const std::vector<std::string> errors = tasks.run([&](Task& task) {
      Result result = run(job, task);
      if (task.name() == TaskName{"worker", 0}) chief = std::move(result);
      return std::string();
    });
    EXPECT_THAT(errors, Each(""));
    return chief;
  }

  struct Tasks {
    JobMode mode;
    int ps = 0, workers = 0;
  };
  // The same parameters and figures, bit by bit.
  static void expect_same_in_clusters(const Job& job, const Result& expected, const std::vector<Tasks>& clusters) {
    for (const auto& [mode, ps, workers] : clusters) {
      SCOPED_TRACE(fmt::format("{} with {} and {}", name(mode), ps, workers));
      const Result got = cluster(job, mode, ps, workers);
      EXPECT_EQ(got.hash, expected.hash);
      ASSERT_EQ(got.epochs.size(), expected.epochs.size());
      for (std::size_t i = 0; i < got.epochs.size(); ++i)
        EXPECT_EQ(got.epochs[i].figures, expected.epochs[i].figures) << i;
    }
  }

  const JobMode two_slots = SyncMode{.slots = 2};
  const Program regression = regress, pursuit = pursue;
  const TensorDataset train = line(65), test = line(23);
};

TEST_F(Programs, HaveTheSameBitsAndFiguresInEveryMode) {
  const Job job{regression, train, &test, {.epochs = 3, .batch = 5, .evaluation_batch = 4}};
  const Result two = local(job, 2);
  EXPECT_EQ(two.steps, 18u);
  ASSERT_EQ(two.epochs.size(), 3u);
  EXPECT_LT(two.epochs[2]["val_mse"], two.epochs[0]["val_mse"] / 2);
  EXPECT_NEAR(two.epochs[2]["total"], two.epochs[2]["mse"] * 60, 1e-4);
  EXPECT_NEAR(two.epochs[2]["val_total"], two.epochs[2]["val_mse"] * 23, 1e-4);
  expect_same_in_clusters(job, two, {{two_slots, 1, 2}, {two_slots, 2, 3}, {AllReduceMode{}, 0, 2}});
}

TEST_F(Programs, PhasesSeeTheUpdatesOfThoseBeforeInEveryMode) {
  const Job job{pursuit, train, nullptr, {.epochs = 4, .batch = 5}};
  const Result two = local(job, 2);
  EXPECT_EQ(two.steps, 24u);
  EXPECT_EQ(two.parameters.at("fixed/w").data<float>()[0], 1);
  Job together = job;
  together.options.simultaneous = true;
  EXPECT_NE(local(together, 2).hash, two.hash);
  expect_same_in_clusters(job, two, {{two_slots, 1, 2}, {two_slots, 2, 1}, {AllReduceMode{}, 0, 2}});
  EXPECT_EQ(cluster(job, AsyncMode{}, 2, 2).steps, 52u);
}

TEST_F(Programs, TheDataMayBeOfUnknownLength) {
  const Unknown unknown(train), unknown_test(test);
  const Job known{regression, train, &test, {.epochs = 2, .batch = 5, .evaluation_batch = 4}};
  const Result two = local(known, 2);
  const Job job{regression, unknown, &unknown_test, known.options};
  const Result found = local(job, 2);
  EXPECT_EQ(found.hash, two.hash);
  EXPECT_EQ(found.steps, 12u);
  for (const auto& [mode, ps] : {std::pair<JobMode, int>(SyncMode{}, 1), std::pair<JobMode, int>(AllReduceMode{}, 0)}) {
    const Result other = cluster(job, mode, ps, 2);
    EXPECT_EQ(other.hash, two.hash) << name(mode);
    EXPECT_EQ(other.steps, 12u) << name(mode);
    ASSERT_EQ(other.epochs.size(), 2u);
    EXPECT_EQ(other.epochs[1].figures, two.epochs[1].figures) << name(mode);
  }
}

TEST_F(Programs, ThatCannotBeTrainedAreRefused) {
  const auto message = [&](const Program& program) {
    try {
      local({program, train, nullptr, {.epochs = 1, .batch = 5}}, 1);
    } catch (const Error& error) {
      return error.message();
    }
    return std::string();
  };
  EXPECT_THAT(message([](ProgramContext&) { return ProgramOutputs(); }), HasSubstr("has no objective"));
  EXPECT_THAT(message([](ProgramContext& c) {
                ProgramOutputs out = pursue(c);
                out.objectives[1].train = {"*/w"};
                return out;
              }),
              HasSubstr("objectives 'line' and 'pursuit' both train 'slope/w'"));
  EXPECT_THAT(message([](ProgramContext& c) {
                ProgramOutputs out = regress(c);
                out.objectives[0].loss = c["x"];
                return out;
              }),
              HasSubstr("the loss of objective 'mse' is f32[5,4]"));
  EXPECT_THAT(message([](ProgramContext& c) {
                ProgramOutputs out = regress(c);
                out.figures[0].name = "mse";
                return out;
              }),
              HasSubstr("two figures have the name 'mse'"));
  EXPECT_THAT(message([](ProgramContext& c) {
                c["images"];
                return ProgramOutputs();
              }),
              HasSubstr("no component 'images'; it has 'x', 'y'"));
}

TEST(Patterns, MatchNames) {
  EXPECT_TRUE(matches("*", ""));
  EXPECT_TRUE(matches("a*c", "abbc"));
  EXPECT_TRUE(matches("*/kernel", "dense/kernel"));
  EXPECT_TRUE(matches("dense_?/*", "dense_1/bias"));
  EXPECT_TRUE(matches("a*b*c", "aXbYbZc"));
  EXPECT_FALSE(matches("a*c", "abcd"));
  EXPECT_FALSE(matches("", "a"));
  EXPECT_FALSE(matches("?", ""));
}

}  // namespace
}  // namespace troupe
