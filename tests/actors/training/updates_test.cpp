// What is done to gradients and learning rates: the same bits in one process, on shards however cut, and by all-reduce.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/actors/training/classifying.hpp"
#include "tests/actors/training/job_tasks.hpp"
#include "tests/error_of.hpp"
#include "tests/paths.hpp"
#include <troupe/actors/training/parameter_store.hpp>
#include <troupe/kernels/readers/digits.hpp>

namespace troupe {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using testing::JobTasks;

struct Training {
  Optimizer optimizer = optimizers::Adam{.learning_rate = 0.01};
  ModelOptions model;
  TrainingOptions options{.epochs = 2, .batch = 16};
};

const DataSplits& digits() {
  static const DataSplits data = draw_digits({.train = 320, .test = 20});
  return data;
}

TrainingResult train(Task& task, const Training& training, const JobMode& mode) {
  Model model({layers::rescaling(1 / 255.0), layers::flatten(), layers::dense(16, Activation::relu),
               layers::dropout(0.25), layers::dense(10)},
              Shape{28, 28, 1}, DType::u8);
  model.compile(testing::classifying(training.optimizer, training.model), task);
  TrainingOptions options = training.options;
  options.mode = mode;
  return model.fit(digits(), options);
}

TrainingResult result_in_one_process(const Training& training, int slots) {
  Task task({.threads = 1});
  return train(task, training, LocalMode{.slots = slots});
}
std::string in_one_process(const Training& training, int slots) {
  return result_in_one_process(training, slots).params_sha256;
}

// The chief's.
std::string in_cluster(JobTasks& tasks, const Training& training, const JobMode& mode, std::size_t shards) {
  return tasks.run([&](Task& task) { return train(task, training, mode).params_sha256; })[shards];
}

// One process against two and one shard, and a ring.
void expect_equal_bits_everywhere(const Training& training) {
  const std::string two_slots = in_one_process(training, 2);
  EXPECT_EQ(two_slots.size(), 64u);
  JobTasks two_shards(2, 2), ring(0, 2), one_shard(1, 1);
  EXPECT_EQ(in_cluster(two_shards, training, SyncMode{.slots = 2}, 2), two_slots);
  EXPECT_EQ(in_cluster(one_shard, training, SyncMode{.slots = 2}, 1), two_slots) << "all slots by one worker";
  EXPECT_EQ(in_cluster(ring, training, AllReduceMode{}, 0), two_slots);
}

// What tasks say if the last of them was started with `other`.
std::vector<std::string> disagreeing(JobTasks& tasks, const TaskName& last, const Training& training,
                                     const Training& other, const JobMode& mode) {
  return tasks.run([&](Task& task) { return train(task, task.name() == last ? other : training, mode).params_sha256; });
}

TEST(ClippedTraining, HasTheSameBitsEverywhere) {
  const Training clipped{.model = {.clipping = {.global_norm = 0.5}}};
  EXPECT_NE(in_one_process(clipped, 2), in_one_process({}, 2));
  expect_equal_bits_everywhere(clipped);
}

// The first steps overflow f16 at such a scale: they are skipped by all alike.
TEST(ClippedTraining, WithAScaledLossHasTheSameBitsEverywhere) {
  const Training scaled{
      .model = {.precision = DType::f16, .loss_scaling = {.initial = 16777216}, .clipping = {.global_norm = 0.5}}};
  EXPECT_GT(result_in_one_process(scaled, 2).skipped_steps, 0u);
  expect_equal_bits_everywhere(scaled);
}

TEST(ClippedTraining, TasksThatDisagreeAreTold) {
  const Training clipped{.model = {.clipping = {.global_norm = 0.5}}};
  JobTasks shards(1, 2), ring(0, 2);
  EXPECT_THAT(disagreeing(shards, {"worker", 1}, clipped, {}, SyncMode{}),
              Each(HasSubstr("clipping is 'none', expected 'global norm 0.5'")));
  EXPECT_THAT(disagreeing(ring, {"worker", 1}, clipped, {}, AllReduceMode{}),
              Each(AllOf(HasSubstr("clipping=global norm 0.5"), HasSubstr("clipping=none "))));
}

TEST(ScheduledTraining, HasTheSameBitsEverywhere) {
  const Schedule schedule = Schedule(schedules::Cosine{.rate = 0.02, .end = 0.001, .steps = 14}).after_warm_up(3);
  for (const Optimizer& optimizer : {Optimizer(optimizers::SGD{.learning_rate = schedule}),
                                     Optimizer(optimizers::Adam{.learning_rate = schedule})}) {
    SCOPED_TRACE(name(optimizer));
    const Training scheduled{.optimizer = optimizer};
    EXPECT_NE(in_one_process(scheduled, 2), in_one_process({}, 2));
    expect_equal_bits_everywhere(scheduled);
  }
}

// A step that is skipped counts nowhere: the rate is still that of its number.
TEST(ScheduledTraining, WithAScaledLossHasTheSameBitsEverywhere) {
  const Schedule schedule = schedules::Exponential{.rate = 0.05, .factor = 0.5};
  const Training scaled{.optimizer = optimizers::Momentum{.learning_rate = schedule},
                        .model = {.precision = DType::f16, .loss_scaling = {.initial = 16777216}}};
  EXPECT_GT(result_in_one_process(scaled, 2).skipped_steps, 0u);
  expect_equal_bits_everywhere(scaled);
}

TEST(ScheduledTraining, TasksThatDisagreeAreTold) {
  const Training scheduled{.optimizer = optimizers::SGD{.learning_rate = schedules::Step{.rate = 0.1, .every = 10}}};
  const Training other{.optimizer = optimizers::SGD{.learning_rate = schedules::Step{.rate = 0.1, .every = 11}}};
  JobTasks shards(1, 2), ring(0, 2);
  for (const auto& [tasks, mode] :
       {std::pair<JobTasks*, JobMode>(&shards, SyncMode{}), std::pair<JobTasks*, JobMode>(&ring, AllReduceMode{})})
    EXPECT_THAT(disagreeing(*tasks, {"worker", 1}, scheduled, other, mode),
                Each(AllOf(HasSubstr("every=10"), HasSubstr("every=11"))))
        << name(mode);
}

TEST(ScheduledTraining, WhatMakesNoSenseIsRefused) {
  EXPECT_THAT(testing::error_of([] {
                in_one_process({.optimizer = optimizers::Adam{.learning_rate = schedules::Cosine{.rate = 0.1}}}, 1);
              }).message(),
              HasSubstr("optimizer adam: learning_rate: cosine: steps must be 1 or more, not 0"));
}

// The first update is computed on the first values, whatever comes before what; the others change nothing.
TEST(ScheduledTraining, OfAnAsynchronousWorkerFollowsTheUpdatesOfEachShard) {
  const Training once{
      .optimizer = optimizers::SGD{.learning_rate = schedules::Piecewise{.rates = {0.5, 0}, .from = {1}}},
      .model = {.clipping = {.global_norm = 0.5}},
      .options = {.epochs = 1, .batch = 16, .micro_batches = 2}};
  JobTasks tasks(2, 1);
  EXPECT_EQ(in_cluster(tasks, once, AsyncMode{}, 2), in_one_process(once, 1));
}

// On a shard the version counts, less what was skipped; staleness scales.
TEST(ScheduledTraining, AShardsRateFollowsItsVersion) {
  Task task({.threads = 1});
  ParameterStore store(task.device(), task.kernels());
  UpdateRule rule{.op = "ApplySGD",
                  .attributes = {{"T", DType::f32}},
                  .schedule = schedules::Exponential{.rate = 8, .factor = 0.5},
                  .guarded = true};
  store.add(0, "w", rule, Tensor::vector<float>({0}), {});
  const auto apply = [&](std::uint64_t step, float gradient, double rate_scale = 1) {
    store.apply(0, {{Tensor::vector<float>({gradient}), {}}, step, rate_scale});
    return store.value(0).item<float>();
  };
  EXPECT_EQ(apply(1, -1), 8);
  EXPECT_EQ(apply(2, std::numeric_limits<float>::infinity()), 8);  // none
  EXPECT_EQ(apply(3, -1), 8 + 4);
  EXPECT_EQ(apply(4, -1, 0.5), 8 + 4 + 1);
  EXPECT_EQ(apply(7, -1), 8 + 4 + 1 + 0.25f);
}

// Rules reach shards as data: with their slots, their count, weight decay by names; averages of weights are moved
// there.
TEST(OptimizedTraining, HasTheSameBitsEverywhere) {
  const std::vector<Optimizer> all = {
      optimizers::AdamW{.weight_decay = {.rate = 0.5, .except = {"*/bias"}}, .average = averages::Exponential{}},
      optimizers::RMSProp{.centered = true, .average = averages::Stochastic{.from = 3, .every = 2}},
      optimizers::Nadam{}, optimizers::Ftrl{.learning_rate = 0.1, .l1 = 0.001}};
  for (const Optimizer& optimizer : all) {
    SCOPED_TRACE(name(optimizer));
    expect_equal_bits_everywhere({.optimizer = optimizer});
  }
}

// A step that is skipped decays no weight, and moves no average.
TEST(OptimizedTraining, WithAScaledLossHasTheSameBitsEverywhere) {
  const Training scaled{
      .optimizer = optimizers::AdamW{.weight_decay = {.rate = 0.5}, .average = averages::Stochastic{.every = 2}},
      .model = {.precision = DType::f16, .loss_scaling = {.initial = 16777216}}};
  EXPECT_GT(result_in_one_process(scaled, 2).skipped_steps, 0u);
  expect_equal_bits_everywhere(scaled);
}

TEST(AccumulatedTraining, HasTheSameBitsEverywhere) {
  const Training parts{.options = {.epochs = 2, .batch = 16, .micro_batches = 4}};
  EXPECT_NE(in_one_process(parts, 2), in_one_process({}, 2));
  expect_equal_bits_everywhere(parts);
}

TEST(AccumulatedTraining, WithAScaledLossAndClippingHasTheSameBitsEverywhere) {
  const Training all{
      .optimizer = optimizers::Momentum{.learning_rate = schedules::Cosine{.rate = 0.1, .steps = 30}},
      .model = {.precision = DType::f16, .loss_scaling = {.initial = 16777216}, .clipping = {.global_norm = 0.5}},
      .options = {.epochs = 2, .batch = 16, .micro_batches = 2}};
  EXPECT_GT(result_in_one_process(all, 2).skipped_steps, 0u);
  expect_equal_bits_everywhere(all);
}

TEST(AccumulatedTraining, TasksThatDisagreeAreTold) {
  const Training parts{.options = {.epochs = 2, .batch = 16, .micro_batches = 4}};
  JobTasks shards(1, 2), ring(0, 2);
  EXPECT_THAT(disagreeing(shards, {"ps", 0}, {}, parts, SyncMode{}),
              Each(HasSubstr("micro_batches is '1', expected '4'")));
  EXPECT_THAT(disagreeing(ring, {"worker", 1}, parts, {}, AllReduceMode{}),
              Each(AllOf(HasSubstr("micro_batches=4"), HasSubstr("micro_batches=1 "))));
}

TEST(AccumulatedTraining, PartsMustBeEqual) {
  for (const int bad : {0, -1, 3, 32})
    EXPECT_EQ(testing::error_of([&] { in_one_process({.options = {.batch = 16, .micro_batches = bad}}, 1); }).code(),
              Code::invalid_argument)
        << bad;
}

// Looks up rows of a table, each pixel by its place and shade: the gradient is sparse, an example has a row once or not
// at all.
class Greys : public Layer {
 public:
  std::string kind() const override { return "greys"; }
  Output apply(LayerContext& context, Output x) const override {
    constexpr std::int64_t kPixels = 28 * 28, kShades = 4;
    const Output table =
        context.weight("table", {.shape = Shape{kPixels * kShades, 2}}, initializers::glorot_uniform()).read();
    Tensor first(DType::i64, Shape{kPixels});
    for (std::int64_t i = 0; i < kPixels; ++i) first.mutable_data<std::int64_t>()[i] = i * kShades;
    const Output shade = cast(reshape(x, Shape{kUnknown, kPixels}) * (kShades - 0.01), DType::i64);
    return reshape(gather(table, shade + constant(context.graph, first)), Shape{kUnknown, kPixels * 2});
  }
};

TrainingResult train_on_greys(Task& task, SparseMean sparse_mean, const JobMode& mode, int micro_batches = 1,
                              int batch = 4) {
  Model model({layers::rescaling(1 / 255.0), std::make_shared<Greys>(), layers::dense(10)}, Shape{28, 28, 1},
              DType::u8);
  model.compile(testing::classifying(optimizers::Adagrad{.learning_rate = 0.1}, {.clipping = {.global_norm = 5}}),
                task);
  return model.fit(
      digits(),
      {.mode = mode, .epochs = 1, .batch = batch, .micro_batches = micro_batches, .sparse_mean = sparse_mean});
}

TEST(SparseTraining, HasTheSameBitsOnShardsHoweverRowsAreAveraged) {
  JobTasks tasks(2, 2);
  std::set<std::string> hashes;
  for (const SparseMean sparse_mean : {SparseMean::all_slots, SparseMean::touching_slots})
    for (const int micro_batches : {1, 2}) {
      Task alone({.threads = 1});
      const std::string expected =
          train_on_greys(alone, sparse_mean, LocalMode{.slots = 3}, micro_batches).params_sha256;
      const auto together = tasks.run([&](Task& task) {
        return train_on_greys(task, sparse_mean, SyncMode{.slots = 3}, micro_batches).params_sha256;
      });
      EXPECT_EQ(together[2], expected) << name(sparse_mean) << ", " << micro_batches << " micro-batches";
      hashes.insert(expected);
    }
  EXPECT_EQ(hashes.size(), 4u);
}

TEST(SparseTraining, TasksThatDisagreeAboutTheMeanAreTold) {
  JobTasks tasks(1, 1);
  const auto told = tasks.run([](Task& task) {
    const bool touching = task.name().job == "ps";
    return train_on_greys(task, touching ? SparseMean::touching_slots : SparseMean::all_slots, SyncMode{.slots = 2})
        .params_sha256;
  });
  EXPECT_THAT(told, Each(HasSubstr("sparse_mean is 'all_slots', expected 'touching_slots'")));
}

// What is pushed of a GPU is on the host, rows and their numbers.
TEST(SparseTraining, OfWorkersWithGpusHasTheBitsOfCpus) {
  JobTasks tasks(1, 2, {},
                 std::vector<GpuOptions>(2, {.count = 1, .plugin = testing::built_library("libsimulated_gpu.so")}));
  Task alone({.threads = 1});
  const std::string expected = train_on_greys(alone, SparseMean::touching_slots, LocalMode{.slots = 2}).params_sha256;
  const auto together = tasks.run(
      [](Task& task) { return train_on_greys(task, SparseMean::touching_slots, SyncMode{.slots = 2}).params_sha256; });
  EXPECT_EQ(together[1], expected);
}

// Where a slot has no row twice: else the ring adds in another order.
TEST(SparseTraining, OfOneExampleEachHasTheSameBitsByAllReduce) {
  JobTasks ring(0, 2);
  for (const SparseMean sparse_mean : {SparseMean::all_slots, SparseMean::touching_slots}) {
    Task alone({.threads = 1});
    const std::string expected = train_on_greys(alone, sparse_mean, LocalMode{.slots = 2}, 1, 1).params_sha256;
    const auto together =
        ring.run([&](Task& task) { return train_on_greys(task, sparse_mean, AllReduceMode{}, 1, 1).params_sha256; });
    EXPECT_THAT(together, Each(expected)) << name(sparse_mean);
  }
}

TEST(ClippedTraining, ANormThatMakesNoSenseIsRefused) {
  for (const double bad : {-1.0, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()})
    EXPECT_THROW(in_one_process({.model = {.clipping = {.global_norm = bad}}}, 1), Error) << bad;
}

}  // namespace
}  // namespace troupe
