// The training protocol as a whole: whatever the network and the processes do, the parameters are those of a plain
// loop.
#include "tests/scheduler/training/simulation.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/long_runs.hpp"

namespace troupe::testing {
namespace {

using OnLoss = JobOptions::OnLoss;

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
  options.train_examples = 3 * options.job.batch * options.job.slots + 1;
  options.test_examples = 5;
  options.job.evaluation_batch = 2;
  options.prefetch = 1 + static_cast<std::uint32_t>(seed / 36 % 2);
  options.packs = seed % 3 == 1;
  return options;
}

// Workers come, go, stop and lose connections; others stand in for them.
SimulationOptions troubled(std::uint64_t seed) {
  SimulationOptions options = base(seed);
  options.job.workers = 2 + static_cast<std::uint32_t>(seed % 3);
  options.job.max_workers = options.job.workers + 2;
  options.job.min_workers = seed % 4 == 1 ? 1 : 0;
  options.job.on_loss = seed % 5 == 0 ? OnLoss::wait : OnLoss::reassign;
  options.job.grace = 5 * kMillisecond;
  options.job.empty_timeout = 10'000 * kMillisecond;
  options.job.lookahead = seed / 72 % 2;
  options.faults = {.crash = 0.03, .stop = 0.03, .cut = 0.03, .join = 0.1, .leave = 0.02};
  return options;
}

// Two steps more, and checkpoints to return to.
SimulationOptions restarted(std::uint64_t seed) {
  SimulationOptions options = troubled(seed);
  options.train_examples = 6 * options.job.batch * (options.job.slots + options.job.backups) + 1;
  options.faults.shard = options.faults.coordinator = 0.01;
  options.save_every = 2 + seed % 4;
  return options;
}

void with_backups(SimulationOptions& options) {
  options.job.backups = 1 + static_cast<std::uint32_t>(options.seed / 7 % 2);
  options.train_examples = 4 * options.job.batch * (options.job.slots + options.job.backups) + 1;
}

OracleResult oracle(const SimulationOptions& options, const Simulation& simulation) {
  return train_in_a_loop(options.model, simulation.data(),
                         {.epochs = options.job.epochs,
                          .backups = options.job.backups,
                          .control = options.job.control,
                          .commits = &simulation.coordinator().commits()});
}

std::string difference(const Values& actual, const Values& expected) {
  for (std::size_t i = 0; i < expected.size(); ++i)
    if (!bitwise_equal(actual.at(i), expected[i]))
      return fmt::format("slice {}: {}, expected {}", i, actual[i].to_string(), expected[i].to_string());
  return "";
}

// "" if the job has finished, and parameters everywhere and the figures of all epochs equal those of the loop.
std::string differs_from_loop(const SimulationOptions& options, Simulation& simulation) {
  if (const std::string wrong = simulation.run(); !wrong.empty()) return wrong;
  const OracleResult expected = oracle(options, simulation);
  if (const std::string wrong = difference(simulation.shard_values(), expected.values); !wrong.empty()) return wrong;
  if (simulation.final_values().empty()) return "no worker has read the final values";
  for (const Values& values : simulation.final_values())
    if (const std::string wrong = difference(values, expected.final_values); !wrong.empty())
      return "final values: " + wrong;
  if (const std::uint64_t last = expected.training.size() * simulation.data().steps();
      options.save_every > 0 && simulation.saved_step() != last)
    return fmt::format("the last checkpoint is of step {}, not {}", simulation.saved_step(), last);
  if (options.misread > 0) return "";  // who misread has told the figures of it before it was refused
  if (simulation.epochs().size() != expected.training.size())
    return fmt::format("{} epochs were told", simulation.epochs().size());
  for (const auto& [epoch, figures] : simulation.epochs()) {
    if (figures.training != expected.training[epoch])
      return fmt::format("epoch {}: sums {}, expected {}", epoch, to_string(figures.training),
                         to_string(expected.training[epoch]));
    if (figures.evaluation != expected.evaluation[epoch])
      return fmt::format("epoch {}: evaluated {}, expected {}", epoch, to_string(figures.evaluation),
                         to_string(expected.evaluation[epoch]));
    if (figures.examples_per_second <= 0) return "no examples per second";
  }
  return "";
}

// Decides by the figures: the "correct" of an epoch are as good as random.
void with_decisions(SimulationOptions& options) {
  options.job.epochs = 4;
  options.job.control = [epochs = 0](const EpochDone& epoch) mutable {
    const auto correct = static_cast<std::uint64_t>(find(epoch.training, "correct")->values[0]);
    ++epochs;
    return EpochDecision{.stop = epochs >= 2 && correct % 4 == 0,
                         .keep = correct % 2 == 1,
                         .rate_scale = 1 + static_cast<double>((correct + epochs) % 3)};
  };
}

struct Swarm {
  Simulation::Tally tally;
  int wrong = 0;
  std::string first;  // what went wrong first
};

// Runs `seeds` seeds.
template <class Make>
Swarm swarm(std::uint64_t seeds, Make make) {
  Swarm all;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    const SimulationOptions options = make(seed);
    Simulation simulation(options);
    const std::string wrong = differs_from_loop(options, simulation);
    const Simulation::Tally tally = simulation.tally();
    all.tally.add(tally.shards);
    all.tally.add(tally.job);
    for (const auto member : {&Simulation::Tally::crashes, &Simulation::Tally::stops, &Simulation::Tally::cuts,
                              &Simulation::Tally::joins, &Simulation::Tally::leaves, &Simulation::Tally::returns,
                              &Simulation::Tally::ends, &Simulation::Tally::checkpoints})
      all.tally.*member += tally.*member;
    all.tally.refused += tally.refused;
    if (!wrong.empty() && all.wrong++ == 0) all.first = fmt::format("seed {}: {}", seed, wrong);
  }
  return all;
}

TEST(TrainingProtocol, SynchronousTrainingEqualsALoopUnderDelayReorderingAndRepetition) {
  const std::uint64_t runs = seeds(360);
  const Swarm all = swarm(runs, base);
  EXPECT_EQ(all.wrong, 0) << all.first;
  EXPECT_GT(all.tally.shards.duplicates, runs / 4);
  EXPECT_GT(all.tally.shards.stale, runs / 4);
  EXPECT_GT(all.tally.shards.parked, runs / 4);
  EXPECT_GT(all.tally.job.repeated, runs / 4);
}

TEST(TrainingProtocol, DecisionsAfterEpochsHaveTheEffectOfTheLoop) {
  const std::uint64_t runs = seeds(400);
  const Swarm calm = swarm(runs, [](std::uint64_t seed) {
    SimulationOptions options = seed % 2 == 0 ? base(seed) : troubled(seed);
    with_decisions(options);
    if (seed % 5 == 0) options.job.phases = options.model.phases = 2;
    return options;
  });
  EXPECT_EQ(calm.wrong, 0) << calm.first;
  const auto deciding = [](std::uint64_t seed) {
    SimulationOptions options = restarted(seed);
    with_decisions(options);
    if (seed % 5 == 0) with_backups(options);
    return options;
  };
  const Swarm returning = swarm(runs, deciding);
  EXPECT_EQ(returning.wrong, 0) << returning.first;
  EXPECT_GT(returning.tally.returns, static_cast<int>(runs / 20));
  // Repeats steps with other slots, and then stops an epoch earlier than it was told before.
  Simulation again(deciding(835));
  EXPECT_EQ(differs_from_loop(deciding(835), again), "");
  const Swarm forgetful = swarm(runs / 4, [](std::uint64_t seed) {
    SimulationOptions options = base(seed);
    with_decisions(options);
    options.keeps = false;
    return options;
  });
  EXPECT_GT(forgetful.wrong, 0) << "nothing was kept, and nobody noticed";
}

TEST(TrainingProtocol, WorkersThatComeAndGoChangeNothing) {
  const auto runs = static_cast<int>(seeds(1000));
  const Swarm all = swarm(seeds(1000), troubled);
  EXPECT_EQ(all.wrong, 0) << all.first;
  EXPECT_GT(all.tally.crashes, runs * 3 / 10);
  EXPECT_GT(all.tally.stops, runs * 3 / 10);
  EXPECT_GT(all.tally.cuts, runs * 3 / 10);
  EXPECT_GT(all.tally.joins, runs * 3 / 10);
  EXPECT_GT(all.tally.leaves, runs / 10);
  EXPECT_GT(all.tally.job.returned, runs * 3u / 10);
  EXPECT_GT(all.tally.job.fenced, 0u);
  EXPECT_GT(all.tally.shards.fenced, runs / 20u);
}

TEST(TrainingProtocol, ReturnsToCheckpointsChangeNothing) {
  const auto runs = static_cast<int>(seeds(500));
  const Swarm all = swarm(seeds(500), restarted);
  EXPECT_EQ(all.wrong, 0) << all.first;
  EXPECT_GT(all.tally.returns, runs * 2 / 5);
  EXPECT_GT(all.tally.checkpoints, runs);
}

TEST(TrainingProtocol, WithBackupWorkersTheParametersAreThoseOfTheCommittedSlots) {
  const std::uint64_t runs = seeds(500);
  const Swarm all = swarm(runs, [](std::uint64_t seed) {
    SimulationOptions options = seed % 2 == 0 ? troubled(seed) : restarted(seed);
    with_backups(options);
    return options;
  });
  EXPECT_EQ(all.wrong, 0) << all.first;
  EXPECT_GT(all.tally.shards.uncommitted, runs);
  EXPECT_GT(all.tally.job.late, runs / 5);
}

TEST(TrainingProtocol, ALogOfCommitsReplaysToTheSameBits) {
  std::uint64_t several = 0;
  const std::uint64_t runs = seeds(100);
  for (std::uint64_t seed = 0; seed < runs; ++seed) {
    SimulationOptions options = base(seed);
    with_backups(options);
    options.job.workers = 4;
    Simulation first(options);
    ASSERT_EQ(differs_from_loop(options, first), "") << seed;
    const std::string log = first.coordinator().commits().to_string();
    several += std::ranges::count(log, '\n') > 1;
    SimulationOptions again = troubled(seed);
    again.job.backups = options.job.backups;
    again.train_examples = options.train_examples;
    again.job.commits = std::make_shared<const CommitLog>(CommitLog::parse(log));
    Simulation second(again);
    ASSERT_EQ(second.run(), "") << seed;
    EXPECT_EQ(second.coordinator().commits().to_string(), log) << seed;
    EXPECT_EQ(difference(second.shard_values(), first.shard_values()), "") << seed;
  }
  EXPECT_GT(several, runs / 2);
}

// One of 4 workers takes 5 times as long.
class Throughput : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(Throughput, IsNotTiedToTheSlowestWorker) {
  const auto time = [](std::uint32_t workers, std::uint32_t backups, bool slow) {
    SimulationOptions options = base(4);
    options.model.dtype = DType::f32;
    options.job.workers = workers;
    options.job.slots = 3;
    options.job.backups = backups;
    options.job.epochs = 1;
    options.test_examples = 0;
    options.train_examples = 400 * options.job.batch * (3 + backups);
    options.job.lookahead = GetParam();
    if (GetParam() > 0) options.job.on_loss = OnLoss::reassign;
    options.prefetch = 2;
    options.delay = kMillisecond / 50;
    if (slow) options.slower[workers - 1] = 5;
    Simulation simulation(options);
    EXPECT_EQ(differs_from_loop(options, simulation), "");
    return simulation.epochs().at(0).seconds;
  };
  const double three_fast = time(3, 0, false);
  EXPECT_LT(time(4, 1, true), 1.15 * three_fast);
  EXPECT_GT(time(4, 0, true), 1.15 * three_fast);  // a slot is the slow one's again and again
}
INSTANTIATE_TEST_SUITE_P(Lookahead, Throughput, ::testing::Values(0, 1));

// Gradients that do not depend on values: then bounded staleness, too, must give what the loop gives.
TEST(TrainingProtocol, BoundedStalenessAppliesEveryStepOnceAndInOrder) {
  std::uint64_t late = 0;
  const std::uint64_t runs = seeds(288);
  for (std::uint64_t seed = 0; seed < runs; ++seed) {
    SimulationOptions options = seed % 2 == 0 ? base(seed) : seed % 4 == 1 ? troubled(seed) : restarted(seed);
    options.model.coupled = false;
    options.job.mode = TrainingMode::bounded_staleness;
    options.job.staleness = 1 + seed % 3;
    options.job.lookahead = 0;
    if (seed % 3 == 0) options.job.backups = 1;
    options.train_examples = 8 * options.job.batch * (options.job.slots + options.job.backups);
    options.test_examples = 0;
    Simulation simulation(options);
    ASSERT_EQ(simulation.run(), "") << "seed " << seed;
    ASSERT_EQ(difference(simulation.shard_values(), oracle(options, simulation).values), "") << "seed " << seed;
    const auto staleness = simulation.tally().shards.staleness;
    late += staleness[1] + staleness[2] + staleness[3];
    for (std::size_t s = options.job.staleness + 1; s < staleness.size(); ++s)
      EXPECT_EQ(staleness[s], 0u) << "seed " << seed << ", staleness " << s;
  }
  EXPECT_GT(late, runs / 3);
}

SimulationOptions asynchronous(std::uint64_t seed) {
  SimulationOptions options = seed % 3 == 0 ? base(seed) : seed % 3 == 1 ? troubled(seed) : restarted(seed);
  options.model.dtype = DType::i64;
  options.model.coupled = false;
  options.model.digits = true;
  options.job.mode = TrainingMode::asynchronous;
  options.job.slots = 1;
  options.job.epochs = 1;
  options.job.batch = 1;
  options.train_examples = 20;
  options.job.lookahead = 0;
  return options;
}

// How often each example went into the values of each shard: once if it was acknowledged, else at most once. And no
// update is made of two computations of its batch.
std::string miscounted(const SimulationOptions& options, const Simulation& simulation) {
  const Values values = simulation.shard_values();
  const auto order = permutation(options.model.seed, 0, options.train_examples);
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::int64_t> tags;  // by shard and phase
  for (std::uint32_t slice = 0; slice < values.size(); ++slice) {
    std::int64_t tag = 0;
    const std::vector<int> counts = counts_of(values[slice], options.train_examples, tag);
    for (std::uint64_t batch = 0; batch < counts.size(); ++batch) {
      const int count = counts[order[batch]];
      const std::uint32_t phase = slice % options.model.phases;
      const bool acknowledged = simulation.acknowledged().contains(turn_of(batch, phase, options.model.phases));
      if (count > 1 || (count == 0 && acknowledged))
        return fmt::format("slice {} has batch {} {} times, acknowledged: {}", slice, batch, count, acknowledged);
    }
    if (values[slice].num_elements() == 1) continue;
    const std::int64_t before = std::exchange(tags[{slice % options.shards, slice % options.model.phases}], tag);
    if (before != 0 && before != tag)
      return fmt::format("slice {} has been updated by other computations than those before", slice);
  }
  return "";
}

TEST(TrainingProtocol, AsynchronousTrainingAppliesWhatIsAcknowledgedOnceAndAllElseAtMostOnce) {
  std::uint64_t late = 0, duplicates = 0, abandoned = 0;
  std::uint64_t returns = 0;
  const std::uint64_t runs = seeds(500);
  for (std::uint64_t seed = 0; seed < runs; ++seed) {
    const SimulationOptions options = asynchronous(seed);
    Simulation simulation(options);
    for (int i = 1; i < 20; ++i) {  // at any time
      ASSERT_EQ(simulation.run_until(i * 5 * kMillisecond), "") << "seed " << seed;
      ASSERT_EQ(miscounted(options, simulation), "") << "seed " << seed << " at " << i * 5;
    }
    ASSERT_EQ(simulation.run(), "") << "seed " << seed;
    ASSERT_EQ(miscounted(options, simulation), "") << "seed " << seed;
    ASSERT_EQ(simulation.acknowledged().size(), options.train_examples) << "seed " << seed;
    const Simulation::Tally tally = simulation.tally();
    for (std::size_t s = 1; s < tally.shards.staleness.size(); ++s) late += tally.shards.staleness[s];
    duplicates += tally.shards.duplicates;
    abandoned += tally.shards.abandoned;
    returns += tally.returns;
  }
  EXPECT_GT(late, runs);
  EXPECT_GT(duplicates, runs);
  EXPECT_GT(abandoned, runs / 100);
  EXPECT_GT(returns, runs / 10);
}

TEST(TrainingProtocol, AThousandWorkersInOneProcess) {
  SimulationOptions options = base(0);
  options.model.slices = 2;
  options.job.workers = 990;
  options.job.max_workers = 1000;
  options.job.slots = 1000;
  options.train_examples = 3 * options.job.batch * options.job.slots;
  options.job.on_loss = OnLoss::reassign;
  options.faults = {.crash = 1, .stop = 1, .cut = 1, .join = 1};
  Simulation simulation(options);
  EXPECT_EQ(differs_from_loop(options, simulation), "");
  EXPECT_GT(simulation.tally().crashes, 10);
}

TEST(TrainingProtocol, TheSameSeedGivesTheSameRun) {
  const SimulationOptions options = restarted(77);
  Simulation first(options), second(options);
  ASSERT_EQ(first.run(), "");
  ASSERT_EQ(second.run(), "");
  EXPECT_EQ(first.epochs().at(1).seconds, second.epochs().at(1).seconds);
  EXPECT_EQ(first.tally().frames, second.tally().frames);
}

// With the policy `fail`, a loss ends the job with an error that names the worker.
TEST(TrainingProtocol, ALossEndsTheJobUnderThePolicyFail) {
  SimulationOptions options = base(3);
  options.faults.crash = 0.1;
  Simulation simulation(options);
  EXPECT_NE(simulation.run(), "");
  ASSERT_GT(simulation.tally().crashes, 0);
  EXPECT_EQ(simulation.coordinator().failure().code(), Code::unavailable);
  EXPECT_NE(simulation.coordinator().failure().message().find("/job:worker/task:"), std::string::npos);
}

// ---- Phases, and data of unknown length ----------------------------------------------------------------------------

template <SimulationOptions make(std::uint64_t)>
SimulationOptions phased(std::uint64_t seed) {
  SimulationOptions options = make(seed);
  options.model.phases = 2 + static_cast<std::uint32_t>(seed % 2);
  options.model.slices = 4 + static_cast<std::uint32_t>(seed / 2 % 3);
  return options;
}

template <SimulationOptions make(std::uint64_t)>
SimulationOptions open_ended(std::uint64_t seed) {
  SimulationOptions options = make(seed);
  options.open_ended = true;
  return options;
}

TEST(TrainingProtocol, PhasesSeeTheUpdatesOfEarlierOnes) {
  EXPECT_EQ(swarm(seeds(200), phased<base>).first, "");
  EXPECT_EQ(swarm(seeds(200), phased<troubled>).first, "");
  const Swarm all = swarm(seeds(200), phased<restarted>);
  EXPECT_EQ(all.first, "");
  EXPECT_GT(all.tally.returns, 50);
}

TEST(TrainingProtocol, PhasesWithBackupWorkersUseTheCommittedSlots) {
  const Swarm all = swarm(seeds(200), [](std::uint64_t seed) {
    SimulationOptions options = phased<restarted>(seed);
    with_backups(options);
    return options;
  });
  EXPECT_EQ(all.first, "");
  EXPECT_GT(all.tally.shards.uncommitted, 200u);
}

TEST(TrainingProtocol, PhasesWithBoundedStalenessApplyEveryTurnOnceAndInOrder) {
  for (std::uint64_t seed = 0; seed < seeds(150); ++seed) {
    SimulationOptions options = seed % 2 == 0 ? phased<base>(seed) : phased<restarted>(seed);
    options.model.coupled = false;
    options.job.mode = TrainingMode::bounded_staleness;
    options.job.staleness = 1 + seed % 3;
    options.job.lookahead = 0;
    options.test_examples = 0;
    Simulation simulation(options);
    ASSERT_EQ(simulation.run(), "") << "seed " << seed;
    ASSERT_EQ(difference(simulation.shard_values(), oracle(options, simulation).values), "") << "seed " << seed;
  }
}

TEST(TrainingProtocol, AnEpochEndsWhereTheDataDoes) {
  EXPECT_EQ(swarm(seeds(200), open_ended<base>).first, "");
  EXPECT_EQ(swarm(seeds(200), open_ended<troubled>).first, "");
  EXPECT_EQ(swarm(seeds(200), open_ended<restarted>).first, "");
  EXPECT_EQ(swarm(seeds(100), open_ended<phased<restarted>>).first, "");
}

// Users stop tasks: the job saves and is started again, or goes on without them.
template <SimulationOptions make(std::uint64_t)>
SimulationOptions stopped(std::uint64_t seed) {
  SimulationOptions options = make(seed);
  options.faults.end = 0.02;
  options.save_every = 2 + seed % 4;
  return options;
}

TEST(TrainingProtocol, AJobWhoseTasksAreStoppedGoesOnFromWhatItHasSaved) {
  const auto runs = static_cast<int>(seeds(200));
  const Swarm calm = swarm(seeds(200), stopped<base>);
  EXPECT_EQ(calm.first, "");
  EXPECT_GT(calm.tally.ends, runs / 2);
  const Swarm returning = swarm(seeds(200), stopped<restarted>);
  EXPECT_EQ(returning.first, "");
  EXPECT_GT(returning.tally.ends, runs / 4);
  EXPECT_EQ(swarm(seeds(200), stopped<open_ended<phased<base>>>).first, "");
  EXPECT_EQ(swarm(seeds(200), stopped<open_ended<phased<restarted>>>).first, "");
  const Swarm backups = swarm(seeds(200), [](std::uint64_t seed) {
    SimulationOptions options = seed % 2 == 0 ? stopped<base>(seed) : stopped<restarted>(seed);
    with_backups(options);
    return options;
  });
  EXPECT_EQ(backups.first, "");
}

TEST(TrainingProtocol, AsynchronousPhasesOfABatchFollowEachOtherOnce) {
  for (std::uint64_t seed = 0; seed < seeds(300); ++seed) {
    SimulationOptions options = phased<asynchronous>(seed);
    options.open_ended = seed % 4 == 0;
    Simulation simulation(options);
    ASSERT_EQ(simulation.run(), "") << "seed " << seed;
    ASSERT_EQ(miscounted(options, simulation), "") << "seed " << seed;
    ASSERT_EQ(simulation.acknowledged().size(), options.train_examples * options.model.phases) << "seed " << seed;
  }
}

// Much of what was said comes again, long after.
template <SimulationOptions make(std::uint64_t)>
SimulationOptions haunted(std::uint64_t seed) {
  SimulationOptions options = make(seed);
  options.repeat = 0.5;
  options.repeat_within = 50 * kMillisecond;
  return options;
}

// ---- Each guard, left out, is missed -------------------------------------------------------------------------------

constexpr std::uint64_t kSeeds = 100;

// Seeds that go wrong when `leave_out` is applied to options that go well without it.
template <class Make, class LeaveOut>
int caught(Make make, LeaveOut leave_out) {
  const Swarm well = swarm(kSeeds, make);
  EXPECT_EQ(well.wrong, 0) << well.first;
  const Swarm broken = swarm(kSeeds, [&](std::uint64_t seed) {
    SimulationOptions options = make(seed);
    leave_out(options);
    return options;
  });
  return broken.wrong;
}

TEST(WithoutItsGuard, ARepeatedGradientIsNoticed) {
  EXPECT_GT(caught(base, [](SimulationOptions& o) { o.guards.dedupe = false; }), 5);
}

TEST(WithoutItsGuard, APhaseBeforeItsTurnIsNoticed) {
  int wrong = 0;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    SimulationOptions options = phased<asynchronous>(seed);
    options.job.phases_in_order = false;
    wrong += !Simulation(options).run().empty();
  }
  EXPECT_GT(wrong, 5);
}

TEST(WithoutItsGuard, AGradientOfAnEarlierStepIsNoticed) {
  EXPECT_GT(caught(base, [](SimulationOptions& o) { o.guards.stale = false; }), 5);
}

TEST(WithoutItsGuard, AGradientOfAnotherVersionIsNoticed) {
  const auto misreading = [](std::uint64_t seed) {
    SimulationOptions options = troubled(seed);
    options.misread = 0.1;
    return options;
  };
  EXPECT_GT(swarm(kSeeds, misreading).tally.refused, 20u);
  EXPECT_GT(caught(misreading, [](SimulationOptions& o) { o.guards.versions = false; }), 5);
}

TEST(WithoutItsGuard, TheChoiceOfAShardIsNoticed) {
  const auto backups = [](std::uint64_t seed) {
    SimulationOptions options = base(seed);
    options.job.workers = 4;
    with_backups(options);
    return options;
  };
  EXPECT_GT(caught(backups, [](SimulationOptions& o) { o.guards.commit = false; }), 5);
}

TEST(WithoutItsGuard, TheVersionBeforeIsMissed) {
  EXPECT_GT(caught(troubled, [](SimulationOptions& o) { o.keep_previous = false; }), 0);
}

TEST(WithoutItsGuard, RowsOfALaterVersionAreNoticed) {
  EXPECT_GT(caught(troubled, [](SimulationOptions& o) { o.guards.rows = false; }), 0);
}

TEST(WithoutItsGuard, AMessageOfAnEarlierIncarnationIsNoticed) {
  EXPECT_GT(caught(haunted<troubled>, [](SimulationOptions& o) { o.job.fence = false; }), 2);
}

TEST(WithoutItsGuard, AMessageOfAnEarlierJobIsNoticed) {
  EXPECT_GT(caught(restarted, [](SimulationOptions& o) { o.job_fence = false; }), 5);
}

// Of asynchronous training.
template <class LeaveOut>
int miscounts(LeaveOut leave_out) {
  int wrong = 0;
  for (std::uint64_t seed = 0; seed < kSeeds * 3; ++seed) {
    SimulationOptions options = haunted<asynchronous>(seed);
    leave_out(options);
    Simulation simulation(options);
    wrong += !simulation.run().empty() || !miscounted(options, simulation).empty();
  }
  return wrong;
}

TEST(WithoutItsGuard, ARepeatedBatchIsNoticed) {
  EXPECT_EQ(miscounts([](SimulationOptions&) {}), 0);
  EXPECT_GT(miscounts([](SimulationOptions& o) { o.guards.dedupe = false; }), 5);
}

TEST(WithoutItsGuard, AWorkerThatDoesNotSeeItsOwnUpdateIsNoticed) {
  EXPECT_GT(miscounts([](SimulationOptions& o) { o.guards.own_updates = false; }), 5);
}

TEST(WithoutItsGuard, HalfABatchOfAnEarlierIncarnationIsNoticed) {
  const auto same_again = [](SimulationOptions& o) {  // a batch is given to the worker that has lost it
    o.job.on_loss = OnLoss::wait;
    o.job.grace = 1000 * kMillisecond;
    o.faults.cut = 0.3;
    o.job.empty_timeout = 10'000 * kMillisecond;
  };
  EXPECT_EQ(miscounts(same_again), 0);
  EXPECT_GT(miscounts([&](SimulationOptions& o) {
              same_again(o);
              o.guards.fence = false;
            }),
            2);
}

}  // namespace
}  // namespace troupe::testing
