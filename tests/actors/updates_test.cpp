// What is done to gradients and learning rates: the same bits in one process, on shards however cut, and by all-reduce.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/data/digits.hpp"
#include "tests/actors/job_tasks.hpp"

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

TrainingResult train(Task& task, const Training& training, JobMode mode, int slots) {
  Model model({layers::flatten(), layers::dense(16, Activation::relu), layers::dropout(0.25), layers::dense(10)}, Shape{28, 28, 1});
  model.compile(training.optimizer, task, training.model);
  TrainingOptions options = training.options;
  options.mode = mode;
  options.slots = slots;
  return model.fit(digits(), options);
}

TrainingResult result_in_one_process(const Training& training, int slots) {
  Task task({.threads = 1});
  return train(task, training, JobMode::local, slots);
}
std::string in_one_process(const Training& training, int slots) {
  return result_in_one_process(training, slots).params_sha256;
}

// The chief's.
std::string in_cluster(JobTasks& tasks, const Training& training, JobMode mode, int slots, std::size_t shards) {
  return tasks.run([&](Task& task) { return train(task, training, mode, slots).params_sha256; })[shards];
}

// One process against two and one shard, and a ring.
void expect_equal_bits_everywhere(const Training& training) {
  const std::string two_slots = in_one_process(training, 2);
  EXPECT_EQ(two_slots.size(), 64u);
  JobTasks two_shards(2, 2), ring(0, 2), one_shard(1, 1);
  EXPECT_EQ(in_cluster(two_shards, training, JobMode::sync, 2, 2), two_slots);
  EXPECT_EQ(in_cluster(one_shard, training, JobMode::sync, 2, 1), two_slots) << "all slots by one worker";
  EXPECT_EQ(in_cluster(ring, training, JobMode::allreduce, 0, 0), two_slots);
}

// What tasks say if the last of them was started with `other`.
std::vector<std::string> disagreeing(JobTasks& tasks, const TaskName& last, const Training& training, const Training& other, JobMode mode) {
  return tasks.run([&](Task& task) { return train(task, task.name() == last ? other : training, mode, 0).params_sha256; });
}

TEST(ClippedTraining, HasTheSameBitsEverywhere) {
  const Training clipped{.model = {.clip_norm = 0.5}};
  EXPECT_NE(in_one_process(clipped, 2), in_one_process({}, 2));
  expect_equal_bits_everywhere(clipped);
}

// The first steps overflow f16 at such a scale: they are skipped by all alike.
TEST(ClippedTraining, WithAScaledLossHasTheSameBitsEverywhere) {
  const Training scaled{.model = {.precision = DType::f16, .loss_scaling = {.initial = 16777216}, .clip_norm = 0.5}};
  EXPECT_GT(result_in_one_process(scaled, 2).skipped_steps, 0u);
  expect_equal_bits_everywhere(scaled);
}

TEST(ClippedTraining, TasksThatDisagreeAreTold) {
  const Training clipped{.model = {.clip_norm = 0.5}};
  JobTasks shards(1, 2), ring(0, 2);
  EXPECT_THAT(disagreeing(shards, {"worker", 1}, clipped, {}, JobMode::sync), Each(HasSubstr("clip_norm is '0', expected '0.5'")));
  EXPECT_THAT(disagreeing(ring, {"worker", 1}, clipped, {}, JobMode::allreduce), Each(AllOf(HasSubstr("clip_norm=0.5"), HasSubstr("clip_norm=0 "))));
}

TEST(ClippedTraining, ANormThatMakesNoSenseIsRefused) {
  for (const double bad : {-1.0, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()})
    EXPECT_THROW(in_one_process({.model = {.clip_norm = bad}}, 1), Error) << bad;
}

}  // namespace
}  // namespace troupe
