// The training protocol as a whole: whatever the network does, the parameters are those of a plain loop.
#include "tests/scheduler/simulation.hpp"

#include <gtest/gtest.h>

namespace troupe::testing {
namespace {

SimulationOptions base(std::uint64_t seed) {
  SimulationOptions options;
  options.seed = seed;
  options.model.seed = seed;
  options.model.dtype = seed % 2 == 0 ? DType::f32 : DType::i64;
  options.job.workers = 1 + static_cast<std::uint32_t>(seed % 4);
  options.shards = 1 + static_cast<std::uint32_t>(seed / 4 % 3);
  options.job.slots = 1 + static_cast<std::uint32_t>(seed / 12 % 3);
  options.job.epochs = 2;
  options.job.batch = 2;
  options.job.train_examples = 3 * options.job.batch * options.job.slots + 1;
  options.job.test_examples = 5;
  options.job.evaluation_chunk = 2;
  options.prefetch = 1 + static_cast<std::uint32_t>(seed / 36 % 2);
  return options;
}

OracleResult oracle(const SimulationOptions& options, const Simulation& simulation) {
  OracleOptions loop;
  loop.epochs = options.job.epochs;
  loop.steps_per_epoch = simulation.coordinator().steps_per_epoch();
  loop.slots = options.job.slots;
  loop.batch = options.job.batch;
  loop.train_examples = options.job.train_examples;
  loop.test_examples = options.job.test_examples;
  return train_in_a_loop(options.model, loop);
}

void expect_values(const Values& actual, const Values& expected, std::uint64_t seed) {
  ASSERT_EQ(actual.size(), expected.size()) << "seed " << seed;
  for (std::size_t i = 0; i < expected.size(); ++i)
    ASSERT_TRUE(bitwise_equal(actual[i], expected[i]))
        << "seed " << seed << " slice " << i << ": " << actual[i].to_string() << ", expected "
        << expected[i].to_string();
}

// Parameters everywhere, and the figures of all epochs, equal those of the loop.
void expect_equals_loop(const SimulationOptions& options, Simulation& simulation) {
  ASSERT_EQ(simulation.run(), "") << "seed " << options.seed;
  const OracleResult expected = oracle(options, simulation);
  expect_values(simulation.shard_values(), expected.values, options.seed);
  int finals = 0;
  for (std::uint32_t worker = 0; worker < options.job.workers; ++worker) {
    if (simulation.final_values(worker).empty()) continue;
    ++finals;
    expect_values(simulation.final_values(worker), expected.values, options.seed);
  }
  EXPECT_GE(finals, 1);
  ASSERT_EQ(simulation.epochs().size(), options.job.epochs);
  for (std::size_t epoch = 0; epoch < options.job.epochs; ++epoch) {
    EXPECT_EQ(simulation.epochs()[epoch].epoch, epoch);
    EXPECT_DOUBLE_EQ(simulation.epochs()[epoch].loss, expected.losses[epoch]) << "seed " << options.seed;
    EXPECT_EQ(simulation.epochs()[epoch].test_accuracy, expected.test_accuracies[epoch])
        << "seed " << options.seed;
    EXPECT_GT(simulation.epochs()[epoch].images_per_second, 0);
  }
}

TEST(TrainingProtocol, SynchronousTrainingEqualsALoopUnderDelayReorderingAndRepetition) {
  std::uint64_t duplicates = 0, stale = 0, parked = 0, repeated = 0;
  for (std::uint64_t seed = 0; seed < 720; ++seed) {
    const SimulationOptions options = base(seed);
    Simulation simulation(options);
    expect_equals_loop(options, simulation);
    if (HasFatalFailure()) return;
    for (std::uint32_t i = 0; i < options.shards; ++i) {
      const ShardCounters& counters = simulation.shard(i).counters();
      EXPECT_EQ(counters.staged_bytes, 0u);
      EXPECT_EQ(counters.updates, 2 * simulation.coordinator().steps_per_epoch());
      duplicates += counters.duplicates;
      stale += counters.stale;
      parked += counters.parked;
    }
    repeated += simulation.coordinator().counters().repeated;
  }
  EXPECT_GT(duplicates, 100u);
  EXPECT_GT(stale, 100u);
  EXPECT_GT(parked, 100u);
  EXPECT_GT(repeated, 100u);
}

TEST(TrainingProtocol, LostWorkersChangeNothingWhenTheirTokensAreReassigned) {
  int deaths = 0;
  std::uint64_t returned = 0;
  for (std::uint64_t seed = 0; seed < 720; ++seed) {
    SimulationOptions options = base(seed);
    options.job.on_loss = JobOptions::OnLoss::reassign;
    options.job.workers = 2 + static_cast<std::uint32_t>(seed % 3);
    options.death = 0.01;
    options.rebirth = seed % 2 == 0 ? 0.02 : 0;
    Simulation simulation(options);
    expect_equals_loop(options, simulation);
    if (HasFatalFailure()) return;
    deaths += simulation.deaths();
    returned += simulation.coordinator().counters().returned;
  }
  EXPECT_GT(deaths, 400);
  EXPECT_GT(returned, 200u);
}

// Gradients that do not depend on values: then bounded staleness, too, must give what the loop gives.
TEST(TrainingProtocol, BoundedStalenessAppliesEveryStepOnceAndInOrder) {
  std::uint64_t late = 0;
  for (std::uint64_t seed = 0; seed < 144; ++seed) {
    SimulationOptions options = base(seed);
    options.model.coupled = false;
    options.job.mode = TrainingMode::bounded_staleness;
    options.job.staleness = 1 + seed % 3;
    options.job.train_examples = 8 * options.job.batch * options.job.slots;
    options.job.test_examples = 0;
    if (seed % 2 == 1) {
      options.job.on_loss = JobOptions::OnLoss::reassign;
      options.death = 0.005;
    }
    Simulation simulation(options);
    ASSERT_EQ(simulation.run(), "") << "seed " << seed;
    expect_values(simulation.shard_values(), oracle(options, simulation).values, seed);
    for (std::uint32_t i = 0; i < options.shards; ++i) {
      const auto& staleness = simulation.shard(i).counters().staleness;
      late += staleness[1] + staleness[2] + staleness[3];
      for (std::size_t s = options.job.staleness + 1; s < staleness.size(); ++s) EXPECT_EQ(staleness[s], 0u);
    }
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(late, 100u);
}

TEST(TrainingProtocol, AsynchronousTrainingAppliesEveryBatchOnce) {
  std::uint64_t late = 0, duplicates = 0;
  for (std::uint64_t seed = 0; seed < 144; ++seed) {
    SimulationOptions options = base(seed);
    options.model.coupled = false;
    options.model.dtype = DType::i64;  // sums do not depend on the order
    options.job.mode = TrainingMode::asynchronous;
    options.job.slots = 1;
    options.job.train_examples = 10 * options.job.batch;
    if (seed % 2 == 1) {
      options.job.on_loss = JobOptions::OnLoss::reassign;
      options.death = 0.01;
      options.rebirth = 0.01;
    }
    Simulation simulation(options);
    ASSERT_EQ(simulation.run(), "") << "seed " << seed;
    const OracleResult expected = oracle(options, simulation);
    expect_values(simulation.shard_values(), expected.values, seed);
    for (std::size_t epoch = 0; epoch < 2; ++epoch)
      EXPECT_EQ(simulation.epochs()[epoch].test_accuracy, expected.test_accuracies[epoch]) << "seed " << seed;
    for (std::uint32_t i = 0; i < options.shards; ++i) {
      const ShardCounters& counters = simulation.shard(i).counters();
      EXPECT_EQ(counters.batches, 20u);
      for (std::size_t s = 1; s < counters.staleness.size(); ++s) late += counters.staleness[s];
      duplicates += counters.duplicates;
    }
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(late, 100u);
  EXPECT_GT(duplicates, 100u);
}

TEST(TrainingProtocol, TheSameSeedGivesTheSameRun) {
  SimulationOptions options = base(77);
  Simulation first(options), second(options);
  ASSERT_EQ(first.run(), "");
  ASSERT_EQ(second.run(), "");
  EXPECT_EQ(first.epochs()[1].seconds, second.epochs()[1].seconds);
}

// With the policy `fail`, a loss ends the job with an error that names the worker.
TEST(TrainingProtocol, ALossEndsTheJobUnderThePolicyFail) {
  SimulationOptions options = base(3);
  options.death = 0.02;
  Simulation simulation(options);
  EXPECT_NE(simulation.run(), "");
  ASSERT_GT(simulation.deaths(), 0);
  EXPECT_EQ(simulation.coordinator().failure().code(), Code::unavailable);
  EXPECT_NE(simulation.coordinator().failure().message().find("/job:worker/task:"), std::string::npos);
}

}  // namespace
}  // namespace troupe::testing
