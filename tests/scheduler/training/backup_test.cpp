// Backup slots: more tokens than a step needs, and the coordinator's choice among them.
#include "tests/scheduler/training/job_fixture.hpp"
#include "tests/scheduler/training/shard_fixture.hpp"

namespace troupe::testing {
namespace {

class BackupJob : public JobTest {
 protected:
  // 2 of 3 slots of 10 examples, 2 steps.
  void start(const std::function<void(JobOptions&)>& change = [](JobOptions&) {}) {
    make([&](JobOptions& o) {
      o.workers = 3, o.backups = 1, o.steps_per_epoch = 2, o.evaluation_batches = 0;
      change(o);
    });
    for (std::uint32_t worker : {0u, 1u, 2u}) EXPECT_FALSE(join(worker)) << "worker " << worker;
  }
  std::vector<std::string> commits() const {
    std::vector<std::string> found;
    for (const Outgoing& o : out)
      if (const auto* commit = std::get_if<Commit>(&o.message)) {
        std::string text = o.to.kind == Destination::Kind::shards ? "shards" : fmt::format("worker {}", o.to.index);
        text += fmt::format(": {}", commit->step);
        for (const std::uint32_t slot : commit->slots) text += fmt::format(" {}", slot);
        found.push_back(text);
      }
    return found;
  }
};

using Texts = std::vector<std::string>;

TEST_F(BackupJob, TheFirstSlotsThatAreWholeAndReportedAreCommitted) {
  start();
  const Token a = take(0), b = take(1), c = take(2);
  EXPECT_EQ(std::make_tuple(c.slot, c.batch), std::make_tuple(2u, 0u));
  finish(2, c);
  EXPECT_FALSE(done(0, a));
  EXPECT_FALSE(stage(b));
  EXPECT_TRUE(commits().empty());
  EXPECT_EQ(job->counters().steps, 0u);
  out.clear();
  EXPECT_FALSE(stage(a));
  EXPECT_EQ(commits(), (Texts{"shards: 0 0 2", "worker 1: 0 0 2"}));
  EXPECT_EQ(job->counters().steps, 1u);
  EXPECT_EQ(job->commits().to_string(), "0-0: 0 2\n");
  const Token next = take(0);  // with the data behind that of all three slots
  EXPECT_EQ(std::make_tuple(next.step, next.slot, next.batch), std::make_tuple(1u, 0u, 1u));
}

TEST_F(BackupJob, WhoIsLateHoldsItsTokenUntilItReports) {
  start();
  const Token a = take(0), b = take(1), c = take(2);
  finish(0, a);
  finish(1, b);
  const Token next = take(0);
  EXPECT_EQ(next.step, 1u);
  const Token other = take(1);
  EXPECT_TRUE(parks(1));  // worker 2 holds one, from the step before; the third slot is its own
  EXPECT_FALSE(done(1, other));
  ASSERT_EQ(said<Token>().size(), 1u);  // but nobody who has nothing to do waits for that
  EXPECT_EQ(said<Token>()[0].slot, 2u);
  EXPECT_FALSE(job->token_done({2, c}, now, out));  // not computed: no examples
  EXPECT_EQ(job->counters().late, 1u);
  EXPECT_FALSE(job->token_done({2, c}, now, out));
  EXPECT_EQ(job->counters().repeated, 1u);
  EXPECT_FALSE(stage(c));  // its gradients may come all the same
  EXPECT_EQ(job->counters().refused, 0u);
}

TEST_F(BackupJob, NeitherAStepNorAnEpochWaitsForTokensThatAreNotNeeded) {
  start([](JobOptions& o) { o.epochs = 2; });
  const Token late = take(2);
  for (int epoch = 0; epoch < 2; ++epoch)
    for (int step = 0; step < 2; ++step)
      for (std::uint32_t worker : {0u, 1u}) finish(worker, take(worker));
  EXPECT_EQ(take(0).kind, TokenKind::finish);
  EXPECT_FALSE(done(2, late));
  EXPECT_EQ(job->counters().late, 1u);
  EXPECT_EQ(job->commits().to_string(), "0-0: 1 2\n1-3: 0 1\n");
}

TEST_F(BackupJob, TheFiguresOfAnEpochAreThoseOfTheCommittedSlots) {
  start([](JobOptions& o) { o.steps_per_epoch = 1; });
  const Token a = take(0), b = take(1), c = take(2);
  EXPECT_FALSE(done(1, b, 10));
  finish(2, c);
  finish(0, a);
  ASSERT_EQ(said<EpochDone>().size(), 3u);
  EXPECT_EQ(mean_of(said<EpochDone>()[0].training, "correct"), 0.5);
}

TEST_F(BackupJob, TokensOfALostWorkerAreOnlyGivenAgainWhileTheyAreNeeded) {
  start([](JobOptions& o) { o.on_loss = JobOptions::OnLoss::reassign; });
  const Token a = take(0), b = take(1);
  take(2);
  finish(0, a);
  finish(1, b);
  out.clear();
  job->worker_down(2, "killed", now, out);
  EXPECT_EQ(job->counters().returned, 0u);
  EXPECT_EQ(take(0).step, 1u);
}

TEST_F(BackupJob, WhatALostWorkerLeftBehindIsForgottenWithItsStep) {
  start([](JobOptions& o) { o.on_loss = JobOptions::OnLoss::reassign; });
  const Token a = take(0), b = take(1);
  take(2);
  job->worker_down(2, "killed", now, out);
  finish(0, a);
  finish(1, b);
  EXPECT_EQ(take(0).step, 1u);
}

TEST_F(BackupJob, WhoIsLateHoldsItsTokenInTheNextEpochToo) {
  start([](JobOptions& o) { o.epochs = 2, o.steps_per_epoch = 1; });
  const Token a = take(0), b = take(1), late = take(2);
  finish(0, a);
  finish(1, b);
  out.clear();
  EXPECT_FALSE(ask(2, ++requests[2]));
  EXPECT_TRUE(said<Token>().empty());
  EXPECT_EQ(take(0).epoch, 1u);
  EXPECT_FALSE(done(2, late));
}

TEST_F(BackupJob, NothingIsGivenOutOfAStepThatHasEnoughBeforeTheOneBefore) {
  start([](JobOptions& o) { o.mode = TrainingMode::bounded_staleness, o.staleness = 1, o.steps_per_epoch = 3; });
  take(0), take(1), take(2);
  const Token a = take(0), b = take(1);
  finish(0, a);
  finish(1, b);
  EXPECT_EQ(job->counters().steps, 0u);
  EXPECT_EQ(take(0).step, 2u);
  EXPECT_TRUE(commits().empty());
}

TEST_F(BackupJob, ALogOfCommitsMakesTheSameChoice) {
  CommitLog log;
  log.add(0, {1, 2});
  log.add(1, {0, 2});
  start([&](JobOptions& o) { o.commits = std::make_shared<const CommitLog>(log); });
  const Token a = take(0), b = take(1), c = take(2);
  EXPECT_EQ((std::vector<std::uint32_t>{a.slot, b.slot, c.slot}), (std::vector<std::uint32_t>{1, 2, 0}));
  EXPECT_EQ(c.step, 1u);
  finish(1, b);
  finish(0, a);
  finish(2, c);
  finish(0, take(0));
  EXPECT_EQ(job->commits().to_string(), log.to_string());
  EXPECT_EQ(take(0).kind, TokenKind::finish);
}

TEST_F(BackupJob, NotInAsynchronousTraining) {
  EXPECT_THROW(make([](JobOptions& o) { o.mode = TrainingMode::asynchronous, o.slots = 1, o.backups = 1; }), Error);
  EXPECT_THROW(make([](JobOptions& o) { o.backups = ~0u; }), Error);
}

class BackupShard : public ShardTest {
 protected:
  void make_backups(std::uint32_t slots = 2, std::uint32_t backups = 1) {
    ShardOptions options;
    options.slots = slots;
    options.backups = backups;
    make(options);
  }
  Error commit(std::uint64_t step, std::vector<std::uint32_t> slots) {
    return state->commit({.step = step, .slots = std::move(slots)}, out);
  }
};

TEST_F(BackupShard, AppliesTheMeanOfTheCommittedSlots) {
  make_backups();
  push_all(0, 2, 6);
  push_all(0, 1, 100);
  push_all(0, 0, 2);
  EXPECT_EQ(state->version(), 0u);
  EXPECT_EQ(said<Staged>().size(), 3u);
  EXPECT_EQ(state->waiting().to_string(), "version 1: 3 of 2 staged; waits for the coordinator's choice of slots");
  EXPECT_FALSE(pull(10, 1));
  EXPECT_FALSE(commit(0, {0, 2}));
  EXPECT_EQ(state->version(), 1u);
  EXPECT_EQ(value(10), 4);
  ASSERT_EQ(said<Put>().size(), 1u);
  EXPECT_EQ(said<Put>()[0].tensor.item<float>(), 4);
  EXPECT_EQ(state->counters().uncommitted, 2u);
  EXPECT_EQ(state->counters().staged_bytes, 0u);
}

TEST_F(BackupShard, DropsAndCountsWhatComesForOtherSlotsWhenever) {
  make_backups();
  push_all(0, 0, 2);
  push_all(0, 1, 4);
  EXPECT_FALSE(push(0, 2, 10, 100));
  EXPECT_FALSE(commit(0, {0, 1}));
  Push late = message(0, 2, 20, 100, 3);
  late.pulled_version = 0;
  EXPECT_FALSE(push(late));
  EXPECT_EQ(state->counters().uncommitted, 2u);
  late.slot = 1;
  EXPECT_FALSE(push(late));
  EXPECT_EQ(state->counters().stale, 1u);
  EXPECT_EQ(value(20), 3);
  ASSERT_NE(state->provenance(1), nullptr);
  EXPECT_EQ(state->provenance(1)->to_string(),
            "version 1: applied step 0 slot 0 of worker 0 (2 gradients); applied step 0 slot 1 of worker 0 (2 "
            "gradients); dropped as "
            "not committed step 0 slot 2 of worker 0 (1 gradient); dropped as not committed step 0 slot 2 of worker 3 "
            "(1 gradient); "
            "dropped as stale step 0 slot 1 of worker 3 (1 gradient)");
}

TEST_F(BackupShard, ACommitMayComeBeforeTheGradients) {
  make_backups();
  EXPECT_FALSE(commit(0, {1, 2}));
  push_all(0, 1, 2);
  EXPECT_FALSE(push(0, 0, 10, 100));
  EXPECT_EQ(state->counters().uncommitted, 1u);
  push_all(0, 2, 6);
  EXPECT_EQ(value(10), 4);
  EXPECT_EQ(store.updates.size(), 2u);
}

TEST_F(BackupShard, AWorkerOfAnEarlierStepGetsAVersionAndNeverWaits) {
  make_backups(1, 1);
  for (std::uint64_t step = 0; step < 3; ++step) {
    push_all(step, 0, 1);
    EXPECT_FALSE(commit(step, {0})) << "step " << step;
  }
  EXPECT_FALSE(pull(10, 0, 1));
  ASSERT_EQ(said<Put>().size(), 1u);
  EXPECT_EQ(said<Put>()[0].version, 3u);
  push_all(0, 1, 100, 1);
  EXPECT_EQ(state->counters().uncommitted, 2u);
  EXPECT_EQ(value(10), 3);
}

TEST_F(BackupShard, RefusesACommitThatCannotBe) {
  make_backups();
  expect_refused(commit(0, {0}), Code::invalid_argument,
                 "commit of step 0 with slots 0, expected 2 of 3 in ascending order");
  expect_refused(commit(0, {1, 0}), Code::invalid_argument, "with slots 1 0");
  expect_refused(commit(0, {0, 3}), Code::invalid_argument, "with slots 0 3");
  expect_refused(commit(1, {0, 1}), Code::out_of_range, "commit of step 1 at version 0");
  EXPECT_FALSE(commit(0, {0, 1}));
  EXPECT_FALSE(commit(0, {0, 1}));
  expect_refused(commit(0, {0, 2}), Code::failed_precondition, "but it was committed with other slots");
  push_all(0, 0, 1);
  push_all(0, 1, 1);
  EXPECT_FALSE(commit(0, {0, 1}));
  expect_refused(commit(0, {0, 2}), Code::failed_precondition, "but it was committed with other slots");
  EXPECT_EQ(state->version(), 1u);
  make(2);
  refused = 0;
  expect_refused(commit(0, {0, 1}), Code::failed_precondition, "all slots of a step are used");
}

TEST_F(BackupShard, BoundedStalenessCommitsEachStepOfItsOwn) {
  ShardOptions options;
  options.mode = TrainingMode::bounded_staleness;
  options.staleness = 1;
  options.backups = 1;
  make(options);
  push_all(1, 0, 10);
  push_all(0, 1, 1);
  EXPECT_FALSE(commit(1, {0}));
  EXPECT_EQ(state->version(), 0u);
  EXPECT_FALSE(commit(0, {1}));
  EXPECT_EQ(state->version(), 2u);
  EXPECT_EQ(value(10), 11);
}

}  // namespace
}  // namespace troupe::testing
