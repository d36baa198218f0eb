#include "tests/scheduler/training/job_fixture.hpp"

namespace troupe {
namespace {

using Job = testing::JobTest;

TEST_F(Job, WaitsForAllWorkersAndSaysForWhom) {
  make([](JobOptions& o) { o.workers = 3; });
  EXPECT_FALSE(join(1));
  EXPECT_TRUE(parks(1));
  EXPECT_EQ(job->waits_for(), "joins of /job:worker/task:0, /job:worker/task:2");
  EXPECT_FALSE(join(0));
  EXPECT_TRUE(out.empty());
  EXPECT_FALSE(join(2));
  EXPECT_EQ(said<Token>().size(), 1u);
  EXPECT_EQ(job->stage(), Coordinator::Stage::training);
}

TEST_F(Job, AWorkerThatLeavesBeforeTheTrainingMayJoinAgainAndAfterwardsIsLost) {
  make();
  EXPECT_FALSE(join(0, 1));
  EXPECT_TRUE(parks(0));
  const Error why(Code::cancelled, "no time");
  job->leave({0, Incarnation{2}, false, 0, why}, now, out);  // not the one that has joined
  EXPECT_EQ(job->waits_for(), "joins of /job:worker/task:1");
  job->leave({0, Incarnation{1}, false, 0, why}, now, out);
  EXPECT_EQ(job->waits_for(), "joins of /job:worker/task:0, /job:worker/task:1");
  EXPECT_FALSE(join(0, 3));
  EXPECT_FALSE(join(1, 4));
  EXPECT_TRUE(out.empty());  // what the first has asked for is forgotten
  job->leave({0, Incarnation{1}, false, 0, why}, now, out);
  EXPECT_EQ(job->stage(), Coordinator::Stage::training);
  job->leave({0, Incarnation{3}, false, 0, why}, now, out);
  expect_failed(Code::unavailable, "/job:worker/task:0 was lost: it left the job: no time");
}

TEST_F(Job, AShardThatLeavesBeforeTheTrainingIsWaitedForAndAfterwardsIsLost) {
  make();
  const auto join_shard = [&](std::uint64_t incarnation) {
    return job->join({4, Incarnation{incarnation}, 99, "batch=10\nseed=7\n", true}, now, out);
  };
  const auto leave = [&](std::uint64_t incarnation) {
    job->leave({4, Incarnation{incarnation}, true, 0, Error(Code::cancelled, "no time")}, now, out);
  };
  EXPECT_FALSE(join_shard(1));
  leave(1);
  join_all();
  EXPECT_EQ(job->waits_for(), "joins of /job:ps/task:4");
  EXPECT_FALSE(join_shard(2));
  EXPECT_EQ(job->stage(), Coordinator::Stage::training);
  leave(1);
  EXPECT_EQ(job->stage(), Coordinator::Stage::training);
  leave(2);
  expect_failed(Code::unavailable, "/job:ps/task:4 was lost: it left the job: no time");
}

TEST_F(Job, AShardThatCannotTakePartEndsTheJobBeforeItBegins) {
  make([](JobOptions& o) { o.joining = {4}; });
  join_all();
  EXPECT_FALSE(job->join({4, Incarnation{1}, 99, "batch=10\nseed=7\n", true}, now, out));
  make([](JobOptions& o) { o.joining = {4, 5}; });
  join_all();
  EXPECT_FALSE(job->join({4, Incarnation{1}, 99, "batch=10\nseed=7\n", true}, now, out));
  job->leave({4, Incarnation{1}, true, 0, Error(Code::data_loss, "'w' is damaged")}, now, out);
  EXPECT_FALSE(job->failure()) << "whoever comes late hears it, too";
  EXPECT_FALSE(job->join({5, Incarnation{1}, 99, "batch=10\nseed=7\n", true}, now, out));
  expect_failed(Code::data_loss, "/job:ps/task:4: 'w' is damaged");
}

TEST_F(Job, WhyItCannotBeginIsToldWhenAllHaveJoined) {
  make([](JobOptions& o) { o.refused = Error(Code::failed_precondition, "the checkpoint is of another job"); });
  EXPECT_FALSE(join(0));
  EXPECT_EQ(job->stage(), Coordinator::Stage::joining);
  EXPECT_FALSE(join(1));
  expect_failed(Code::failed_precondition, "the checkpoint is of another job");
}

TEST_F(Job, WaitsForItsShardsIfTheyJoin) {
  make([](JobOptions& o) { o.joining = {4}; });
  const auto join_shard = [&](std::uint32_t shard, const std::string& settings) {
    return job->join({shard, Incarnation{1}, 99, settings, true}, now, out);
  };
  join_all();
  EXPECT_EQ(job->waits_for(), "joins of /job:ps/task:4");
  EXPECT_FALSE(join_shard(7, "batch=10\nseed=7\n"));  // owns nothing
  EXPECT_EQ(job->stage(), Coordinator::Stage::joining);
  EXPECT_FALSE(join_shard(4, "batch=10\nseed=7\n"));
  EXPECT_EQ(job->stage(), Coordinator::Stage::training);
  EXPECT_EQ(join_shard(7, "batch=10\nseed=8\n").code(), Code::failed_precondition);
  expect_failed(Code::failed_precondition,
                "/job:ps/task:7 was started for another training job: seed is '8', expected '7'");
}

TEST_F(Job, FailsNamingThoseWhoDidNotJoinInTime) {
  make([](JobOptions& o) { o.workers = 3, o.join_timeout = 30 * kSecond; });
  EXPECT_FALSE(join(1));
  for (int word = 1; word < 6; ++word) {
    SCOPED_TRACE(::testing::Message() << "word " << word);  // every 5 s, from 5 s on
    EXPECT_EQ(job->deadline(), (5 + 5 * word) * kSecond);
    job->take_events();
    job->tick((5 + 5 * word) * kSecond, out);
    const auto said = job->take_events();
    ASSERT_EQ(said.size(), 1u);
    EXPECT_EQ(said[0].text, fmt::format("training is waiting for /job:worker/task:0, /job:worker/task:2 to join "
                                        "({} of 30 s)",
                                        5 * word));
  }
  EXPECT_EQ(job->deadline(), 35 * kSecond);
  job->tick(35 * kSecond - 1, out);
  EXPECT_TRUE(out.empty());
  job->tick(35 * kSecond, out);
  expect_failed(Code::deadline_exceeded, "/job:worker/task:0, /job:worker/task:2 did not join within 30 s");
  EXPECT_EQ(ask(1, 1).code(), Code::deadline_exceeded);
  EXPECT_EQ(join(0).code(), Code::deadline_exceeded);
}

TEST_F(Job, CommitsOfAJobWithOtherSlotsAreRefused) {
  const auto replay = [&](std::uint32_t backups, const char* log) {
    make([&](JobOptions& o) {
      o.backups = backups, o.commits = std::make_shared<const CommitLog>(CommitLog::parse(log));
    });
  };
  replay(1, "0-1: 0 2\n2-2: 1 2\n");
  EXPECT_THROW(replay(0, "0-1: 0 1\n"), Error);
  EXPECT_THROW(replay(1, "0-1: 0 3\n"), Error);
  EXPECT_THROW(replay(1, "0-1: 0 2\n2-2: 1\n"), Error);
}

TEST_F(Job, NoDeadlineOnceAllHaveJoined) {
  make();
  join_all();
  EXPECT_EQ(job->deadline(), std::nullopt);
  job->tick(1000 * kSecond, out);
  EXPECT_EQ(job->stage(), Coordinator::Stage::training);
}

TEST_F(Job, FailsNamingTheTokensThatHoldItUp) {
  make([](JobOptions& o) { o.step_timeout = 30 * kSecond; });
  now += 10 * kSecond;
  join_all();
  EXPECT_EQ(job->deadline(), 45 * kSecond);
  const Token first = take(0), second = take(1);
  take(0);  // of the next step: not what it waits for
  now += 20 * kSecond;
  finish(0, first);
  EXPECT_EQ(job->deadline(), 65 * kSecond);
  out.clear();
  job->tick(65 * kSecond - 1, out);
  EXPECT_TRUE(out.empty());
  EXPECT_FALSE(done(1, second));
  now += 5 * kSecond;
  EXPECT_FALSE(done(1, second)) << "again, which is no progress";
  job->tick(65 * kSecond, out);
  expect_failed(
      Code::deadline_exceeded,
      "no progress for 30 s while training; missing: step 0 slot 1 (worker 1, reported, not staged on shard 4)");
  EXPECT_EQ(job->deadline(), std::nullopt);
}

TEST_F(Job, FailsNamingWorkersThatTakeNoToken) {
  make([](JobOptions& o) { o.step_timeout = 30 * kSecond; });
  join_all();
  finish(0, take(0));
  out.clear();
  job->tick(now + 30 * kSecond, out);
  expect_failed(Code::deadline_exceeded,
                "missing: /job:worker/task:0, which requests no token; /job:worker/task:1, which requests no token");
}

TEST_F(Job, AnAsynchronousJobAndItsEndHaveDeadlinesToo) {
  make([](JobOptions& o) {
    o.mode = TrainingMode::asynchronous, o.slots = 1, o.step_timeout = 30 * kSecond, o.steps_per_epoch = 2,
    o.evaluation_batches = 0;
  });
  join_all();
  const Token first = take(0), second = take(1);
  now += 20 * kSecond;
  finish(1, second);
  EXPECT_EQ(job->deadline(), 55 * kSecond);
  now += 20 * kSecond;
  finish(0, first);
  EXPECT_EQ(take(0).kind, TokenKind::finish);
  now += 5 * kSecond;
  EXPECT_FALSE(job->barrier({0}, now, out));
  EXPECT_EQ(job->deadline(), 80 * kSecond);
  out.clear();
  job->tick(80 * kSecond, out);
  expect_failed(Code::deadline_exceeded, "missing: barrier: /job:worker/task:1");
}

TEST_F(Job, FailsNamingTheWorkerAndWhatItDisagreesAbout) {
  make();
  EXPECT_FALSE(join(0));
  EXPECT_FALSE(job->join({1, Incarnation{1}, 98, "batch=20\nlr=1\n"}, now, out));
  expect_failed(Code::failed_precondition,
                "/job:worker/task:1 was started for another training job: batch is '20', expected '10'; lr is '1', "
                "expected missing; seed is missing, expected '7'");
}

TEST_F(Job, AnotherModelWithTheSameOptionsIsRefusedToo) {
  make();
  EXPECT_FALSE(job->join({1, Incarnation{1}, 98, "batch=10\nseed=7\n"}, now, out));
  EXPECT_FALSE(job->failure()) << "whoever comes late hears it, too";
  EXPECT_FALSE(join(0));
  expect_failed(Code::failed_precondition, "the options match, but the models differ");
}

TEST_F(Job, RefusesWhoDoesNotBelong) {
  make();
  EXPECT_EQ(join(2).code(), Code::invalid_argument);
  EXPECT_EQ(ask(0, 1).code(), Code::failed_precondition);
  EXPECT_FALSE(join(0));
  EXPECT_EQ(join(0, 2).code(), Code::already_exists);
  EXPECT_FALSE(join(0));
  EXPECT_EQ(job->counters().repeated, 1u);
  EXPECT_EQ(job->barrier({0}, now, out).code(), Code::failed_precondition);
  EXPECT_EQ(job->counters().refused, 4u);
  EXPECT_EQ(job->stage(), Coordinator::Stage::joining);
}

TEST_F(Job, HandsOutSlotsInOrderWithTheirExamples) {
  make();
  join_all();
  for (std::uint64_t i = 0; i < 6; ++i) {
    SCOPED_TRACE(::testing::Message() << "token " << i);
    const Token token = take(static_cast<std::uint32_t>(i % 2));
    EXPECT_EQ(token.kind, TokenKind::train);
    EXPECT_EQ(token.step, i / 2);
    EXPECT_EQ(token.slot, i % 2);
    EXPECT_EQ(token.batch, i / 2);
    EXPECT_EQ(token.min_version, token.step);
    EXPECT_EQ(token.request, requests[i % 2]);
  }
  EXPECT_TRUE(parks(0));  // the five examples left make no step
}

TEST_F(Job, ARepeatedRequestGetsNoSecondToken) {
  make();
  join_all();
  EXPECT_FALSE(ask(0, 1));
  EXPECT_FALSE(ask(0, 1));
  EXPECT_FALSE(ask(1, 1));
  EXPECT_FALSE(ask(0, 2));
  EXPECT_FALSE(ask(0, 1));
  EXPECT_EQ(said<Token>().size(), 3u);
  EXPECT_EQ(job->counters().repeated, 2u);
}

TEST_F(Job, WhoAsksAheadWaitsForThoseWhoHoldFewerTokens) {
  make();
  join_all();
  const Token first = take(0);
  EXPECT_TRUE(parks(0));
  out.clear();
  EXPECT_FALSE(ask(1, ++requests[1]));
  const auto both = said<Token>();  // worker 1 gets the other slot of the step, and worker 0 the next step's
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(both[0].step, 0u);
  EXPECT_EQ(both[0].slot, 1u);
  EXPECT_EQ(both[1].step, 1u);
  EXPECT_EQ(both[1].slot, 0u);
  EXPECT_TRUE(parks(0));
  EXPECT_FALSE(done(0, first));  // holds no more than worker 1 now; the other slot of step 1 is for that one
  ASSERT_EQ(said<Token>().size(), 1u);
  EXPECT_EQ(said<Token>()[0].step, 2u);
  EXPECT_EQ(said<Token>()[0].slot, 0u);
}

TEST_F(Job, WhoOnceHadTwoSlotsOfAStepHasOneOfTheNext) {
  make([](JobOptions& o) { o.on_loss = JobOptions::OnLoss::reassign, o.lookahead = 1; });
  join_all();
  const Token first = take(0);
  EXPECT_TRUE(parks(0));
  out.clear();
  EXPECT_FALSE(done(0, first));  // worker 1 is late
  ASSERT_EQ(said<Token>().size(), 1u);
  EXPECT_EQ(std::make_tuple(said<Token>()[0].step, said<Token>()[0].slot), std::make_tuple(0u, 1u));
  EXPECT_EQ(take(1).step, 1u);
  EXPECT_TRUE(parks(1));  // else worker 0 would wait for it in each step from now on, and it for worker 0
  const Token next = take(0);
  EXPECT_EQ(std::make_tuple(next.step, next.slot), std::make_tuple(1u, 1u));
}

TEST_F(Job, NobodyWaitsForTheRequestsOfALostWorker) {
  make([](JobOptions& o) { o.on_loss = JobOptions::OnLoss::reassign, o.slots = 4; });
  join_all();
  take(0);
  EXPECT_TRUE(parks(0));
  out.clear();
  job->worker_down(1, "killed", now, out);
  EXPECT_EQ(said<Token>().size(), 1u);
}

TEST_F(Job, GoesThroughEvaluationAndTheNextEpochToTheBarrier) {
  make([](JobOptions& o) { o.epochs = 2; });
  join_all();
  now += 2 * kSecond;
  finish_all(0, TokenKind::train, 5);
  const Token last = take(0);
  EXPECT_TRUE(parks(1));
  EXPECT_FALSE(done(0, last));
  EXPECT_EQ(job->waits_for(), "step 2 slot 1 (worker 0, reported, not staged on shard 4)");
  EXPECT_TRUE(out.empty());
  EXPECT_FALSE(stage(last));
  ASSERT_EQ(said<Token>().size(), 1u);
  const Token evaluate = said<Token>()[0];
  EXPECT_EQ(evaluate.kind, TokenKind::evaluate);
  EXPECT_EQ(evaluate.min_version, 3u);
  EXPECT_EQ(std::make_pair(evaluate.step, evaluate.slot), std::make_pair(std::uint64_t{3}, 0u));
  now += kSecond;
  finish(1, evaluate);
  const Token second = take(0), third = take(1);
  EXPECT_EQ(std::make_pair(third.step, third.slot), std::make_pair(std::uint64_t{3}, 2u));
  EXPECT_TRUE(parks(0));  // nobody trains on while others evaluate
  finish(0, second);
  finish(1, third);
  const auto epochs = said<EpochDone>();
  ASSERT_EQ(epochs.size(), 2u) << "each worker hears of it: any may become the chief";
  EXPECT_EQ(epochs[1].chief, 0u);
  EXPECT_EQ(mean_of(epochs[0].training, "loss"), 2.0);
  EXPECT_EQ(mean_of(epochs[0].training, "correct"), 0.5);
  EXPECT_EQ(mean_of(epochs[0].evaluation, "correct"), 15.0 / 25);
  EXPECT_EQ(epochs[0].examples_per_second, 30.0);
  EXPECT_EQ(epochs[0].steps, 3u);
  EXPECT_EQ(epochs[0].seconds, 3.0);
  ASSERT_EQ(said<Token>().size(), 1u);
  const Token next = said<Token>()[0];
  EXPECT_EQ(std::make_tuple(next.epoch, next.step, next.slot, next.batch), std::make_tuple(1u, 3u, 0u, 0u));
  finish(0, next);
  finish_all(0, TokenKind::train, 5);
  finish_all(1, TokenKind::evaluate, 3);
  const Token end = take(0);
  EXPECT_EQ(end.kind, TokenKind::finish);
  EXPECT_EQ(end.min_version, 6u);
  EXPECT_FALSE(job->barrier({0}, now, out));
  EXPECT_EQ(job->waits_for(), "barrier: /job:worker/task:1");
  EXPECT_FALSE(job->finished());
  EXPECT_EQ(take(1).kind, TokenKind::finish);
  EXPECT_FALSE(job->barrier({1}, now, out));
  EXPECT_FALSE(job->barrier({1}, now, out));
  EXPECT_EQ(said<BarrierOpen>().size(), 1u);
  EXPECT_TRUE(job->finished());
  EXPECT_EQ(ask(0, 100).code(), Code::failed_precondition);
  job->worker_down(0, "exit", now, out);
  EXPECT_TRUE(job->finished());
}

TEST_F(Job, RefusesReportsThatDoNotFit) {
  make();
  join_all();
  const Token token = take(0);
  EXPECT_EQ(done(1, token).code(), Code::invalid_argument);                       // not its token
  const TokenDone more{.worker = 0, .token = token, .sums = {}, .examples = 11};  // than a batch has
  EXPECT_EQ(job->token_done(more, now, out).code(), Code::invalid_argument);
  Token other = token;
  other.slot = 1;
  EXPECT_EQ(done(0, other).code(), Code::invalid_argument);  // not handed out
  other.slot = 2;
  EXPECT_EQ(done(0, other).code(), Code::invalid_argument);
  other = token;
  other.epoch = 1;
  EXPECT_EQ(done(0, other).code(), Code::invalid_argument);
  other = token;
  other.kind = TokenKind::finish;
  EXPECT_EQ(done(0, other).code(), Code::invalid_argument);
  EXPECT_EQ(job->staged({.shard = 5}, now, out).code(), Code::invalid_argument);
  EXPECT_EQ(job->staged({.shard = 4, .slot = 1}, now, out).code(), Code::invalid_argument);
  EXPECT_EQ(job->counters().refused, 8u);
  finish(0, token);
  finish(0, token);
  EXPECT_EQ(job->counters().repeated, 2u);
  const Token next = take(0);
  const TokenDone unlike{.worker = 0, .token = next, .sums = {{"loss", {1}}}, .examples = 10};
  EXPECT_EQ(job->token_done(unlike, now, out).code(), Code::invalid_argument);
}

TEST_F(Job, TheFirstReportOnATokenCounts) {
  make([](JobOptions& o) { o.evaluation_batches = 0; });
  join_all();
  const Token token = take(0);
  EXPECT_FALSE(done(0, token, 5));
  EXPECT_FALSE(done(0, token, 10));
  EXPECT_EQ(job->counters().repeated, 1u);
  EXPECT_FALSE(stage(token));
  finish_all(0, TokenKind::train, 5);
  ASSERT_EQ(said<EpochDone>().size(), 2u);
  EXPECT_EQ(mean_of(said<EpochDone>()[0].training, "correct"), 0.5);
}

TEST_F(Job, ALostWorkerFailsTheJob) {
  make();
  join_all();
  job->worker_down(1, "no heartbeat for 5 s", now, out);
  expect_failed(Code::unavailable, "/job:worker/task:1 was lost: no heartbeat for 5 s");
  job->worker_down(0, "", now, out);
  EXPECT_EQ(said<JobFailed>().size(), 1u);
}

TEST_F(Job, ALostShardFailsTheJob) {
  make();
  join_all();
  job->shard_down(4, "connection closed", out);
  expect_failed(Code::unavailable, "/job:ps/task:4 was lost: connection closed");
}

TEST_F(Job, ReassignGivesTokensOfALostWorkerOutFirst) {
  make([](JobOptions& o) { o.on_loss = JobOptions::OnLoss::reassign; });
  join_all();
  const Token first = take(0), second = take(1);
  EXPECT_TRUE(parks(1));         // step 1 starts when step 0 is complete
  EXPECT_FALSE(done(0, first));  // but its gradients never arrive
  job->worker_down(0, "killed", now, out);
  ASSERT_EQ(said<Token>().size(), 1u);
  const Token again = said<Token>()[0];
  EXPECT_EQ(std::make_tuple(again.step, again.slot, again.batch), std::make_tuple(0u, 0u, 0u));
  EXPECT_EQ(job->counters().returned, 1u);
  EXPECT_EQ(job->chief(), 1u);
  EXPECT_FALSE(done(0, first));
  EXPECT_EQ(job->counters().ignored, 1u);
  finish(1, second);
  finish(1, again);
  EXPECT_EQ(take(1).step, 1u);
}

TEST_F(Job, ReassignLetsALostWorkerJoinAgainAsANewProcess) {
  make([](JobOptions& o) { o.on_loss = JobOptions::OnLoss::reassign; });
  join_all();
  job->worker_down(0, "killed", now, out);
  out.clear();
  EXPECT_FALSE(join(0, 1));
  EXPECT_FALSE(ask(0, 1));
  EXPECT_TRUE(out.empty());
  EXPECT_EQ(job->join({0, Incarnation{2}, 1, ""}, now, out).code(), Code::failed_precondition);
  EXPECT_TRUE(out.empty());  // a wrong one does not harm the others
  EXPECT_FALSE(join(0, 2));
  EXPECT_EQ(take(0).slot, 0u);
}

TEST_F(Job, AnotherChiefFinishesWhenTheFirstIsLostAtTheEnd) {
  make([](JobOptions& o) {
    o.on_loss = JobOptions::OnLoss::reassign;
    o.evaluation_batches = 0;
  });
  join_all();
  finish_all(0, TokenKind::train, 6);
  EXPECT_EQ(take(0).slot, 0u);
  EXPECT_EQ(take(1).slot, 0u);
  EXPECT_FALSE(job->barrier({1}, now, out));
  out.clear();
  job->worker_down(0, "killed", now, out);
  ASSERT_EQ(said<Token>().size(), 1u);
  EXPECT_EQ(said<Token>()[0].kind, TokenKind::finish);
  EXPECT_EQ(said<Token>()[0].slot, 1u);
  EXPECT_TRUE(said<BarrierOpen>().empty());
  out.clear();
  EXPECT_FALSE(join(0, 2));  // again: the chief, once more
  EXPECT_EQ(said<EpochDone>().size(), 1u);
  requests[0] = 0;
  EXPECT_EQ(take(0).slot, 0u);
  EXPECT_FALSE(job->barrier({1}, now, out));
  EXPECT_FALSE(job->barrier({0}, now, out));
  EXPECT_EQ(said<BarrierOpen>().size(), 1u);
}

TEST_F(Job, IsHeldAtTheEndUntilWhatItCameToIsKept) {
  make([](JobOptions& o) {
    o.save_every = 100;
    o.evaluation_batches = 0;
    o.step_timeout = 10 * kSecond;
  });
  join_all();
  finish_all(0, TokenKind::train, 6);
  EXPECT_EQ(job->step_ahead(), 3u);
  out.clear();
  job->save_when_due(false, now, out);
  ASSERT_EQ(said<Save>().size(), 1u);
  EXPECT_EQ(said<Save>()[0].step, 3u);
  for (const std::uint32_t worker : {0, 1}) {
    SCOPED_TRACE(::testing::Message() << "worker " << worker);
    EXPECT_EQ(take(worker).kind, TokenKind::finish);
    EXPECT_FALSE(job->barrier({worker}, now, out));
  }
  EXPECT_TRUE(said<BarrierOpen>().empty());
  EXPECT_EQ(job->waits_for(), "the last checkpoint to be written");
  EXPECT_FALSE(job->saved({4, 3, "a", {}}));
  job->save_when_due(false, now, out);
  ASSERT_EQ(job->take_saves().size(), 1u);
  EXPECT_TRUE(said<BarrierOpen>().empty());
  job->written();
  job->save_when_due(false, now, out);
  EXPECT_EQ(said<BarrierOpen>().size(), 1u);
  EXPECT_TRUE(job->finished());
}

TEST_F(Job, BeginsWithoutWorkersThatDoNotComeIfTheirLossDoesNotEndIt) {
  make([](JobOptions& o) { o.on_loss = JobOptions::OnLoss::reassign; });
  EXPECT_FALSE(join(1));
  now += 61 * kSecond;
  job->tick(now, out);
  EXPECT_EQ(job->stage(), Coordinator::Stage::training);
  EXPECT_EQ(job->chief(), 1u);
  EXPECT_EQ(take(1).step, 0u);
}

TEST_F(Job, ReassignFailsWhenNoWorkerIsLeft) {
  make([](JobOptions& o) { o.on_loss = JobOptions::OnLoss::reassign; });
  join_all();
  job->worker_down(0, "killed", now, out);
  job->worker_down(1, "killed", now, out);
  expect_failed(Code::unavailable, "no worker is left");
}

TEST_F(Job, ALateStagedCompletesATokenThatIsBackInTheBook) {
  make([](JobOptions& o) { o.on_loss = JobOptions::OnLoss::reassign; });
  join_all();
  const Token first = take(0);
  EXPECT_FALSE(done(0, first));
  job->worker_down(0, "killed", now, out);
  EXPECT_FALSE(stage(first));
  EXPECT_EQ(take(1).slot, 1u);
}

TEST_F(Job, BoundedStalenessAsksForOlderVersions) {
  make([](JobOptions& o) { o.mode = TrainingMode::bounded_staleness, o.staleness = 1, o.slots = 1; });
  join_all();
  EXPECT_EQ(take(0).min_version, 0u);
  EXPECT_EQ(take(1).min_version, 0u);
  EXPECT_EQ(take(0).min_version, 1u);
}

TEST_F(Job, AsynchronousEvaluationUsesTheVersionTheShardsHave) {
  make([](JobOptions& o) {
    o.mode = TrainingMode::asynchronous;
    o.slots = 1;
    o.steps_per_epoch = 4;
  });
  join_all();
  for (std::uint64_t i = 0; i < 4; ++i) {
    SCOPED_TRACE(::testing::Message() << "token " << i);
    const Token token = take(0);
    EXPECT_EQ(token.min_version, 0u);
    EXPECT_FALSE(stage(token, (i + 1) / 2));  // two batches an update
    EXPECT_FALSE(done(0, token));
  }
  EXPECT_EQ(take(1).min_version, 2u);
}

TEST_F(Job, WithoutTestExamplesThereIsNoEvaluation) {
  make([](JobOptions& o) { o.evaluation_batches = 0; });
  join_all();
  finish_all(0, TokenKind::train, 6);
  EXPECT_EQ(said<EpochDone>().size(), 2u);
  EXPECT_EQ(take(1).kind, TokenKind::finish);
}

TEST_F(Job, NoEpochsMeansToFinishAtOnce) {
  make([](JobOptions& o) { o.epochs = 0, o.saved_step = 12; });
  join_all();
  const Token token = take(0);
  EXPECT_EQ(token.kind, TokenKind::finish);
  EXPECT_EQ(token.min_version, 12u);
}

TEST_F(Job, OptionsThatContradictEachOtherAreRefused) {
  EXPECT_THROW(make([](JobOptions& o) { o.workers = 0; }), Error);
  EXPECT_THROW(make([](JobOptions& o) { o.batch = 0; }), Error);
  EXPECT_THROW(make([](JobOptions& o) { o.steps_per_epoch = 0; }), Error);
  EXPECT_THROW(make([](JobOptions& o) { o.steps_per_epoch = ~std::uint64_t{0}; }), Error);
  EXPECT_THROW(make([](JobOptions& o) { o.slots = (1 << 20) + 1; }), Error);
  EXPECT_THROW(make([](JobOptions& o) { o.phases = 0; }), Error);
  EXPECT_THROW(make([](JobOptions& o) { o.phase_shards = {{4}, {4}}; }), Error);
  EXPECT_THROW(make([](JobOptions& o) { o.staleness = 1; }), Error);
  EXPECT_THROW(make([](JobOptions& o) { o.mode = TrainingMode::asynchronous; }), Error);
}

// ---- Phases, and data of unknown length ----------------------------------------------------------------------------

TEST_F(Job, TokensOfAPhaseFollowThoseOfThePhaseBefore) {
  make([](JobOptions& o) { o.phases = 2, o.phase_shards = {{4}, {}}; });
  join_all();
  const auto place = [](const Token& token) {
    return std::make_tuple(token.step, token.phase, token.slot, token.min_version);
  };
  std::vector<Token> tokens;
  for (int i = 0; i < 5; ++i) tokens.push_back(take(static_cast<std::uint32_t>(i % 2)));
  EXPECT_EQ(place(tokens[1]), std::make_tuple(0u, 0u, 1u, 0u));
  EXPECT_EQ(place(tokens[2]), std::make_tuple(0u, 1u, 0u, 1u));
  EXPECT_EQ(place(tokens[4]), std::make_tuple(1u, 0u, 0u, 2u));
  for (int i = 0; i < 4; ++i)
    EXPECT_FALSE(done(static_cast<std::uint32_t>(i % 2), tokens[static_cast<std::size_t>(i)]));
  EXPECT_EQ(job->counters().steps, 0u);
  for (int i = 0; i < 2; ++i) EXPECT_FALSE(stage(tokens[static_cast<std::size_t>(i)]));
  EXPECT_EQ(job->counters().steps, 1u);  // no shard takes part in phase 1
  EXPECT_EQ(stage(tokens[2]).code(), Code::invalid_argument);
  EXPECT_EQ(job->waits_for(), "step 1 phase 0 slot 0 (worker 0, not staged on shard 4)");
}

TEST_F(Job, AnAsynchronousPhaseIsHandedOutWhenTheOneBeforeIsComplete) {
  make([](JobOptions& o) { o.mode = TrainingMode::asynchronous, o.slots = 1, o.phases = 2; });
  join_all();
  const Token a = take(0), b = take(1);
  EXPECT_EQ(std::make_pair(b.step, b.phase), std::make_pair(std::uint64_t{1}, 0u));
  EXPECT_FALSE(done(0, a));
  const Token c = take(0);
  EXPECT_EQ(std::make_pair(c.step, c.phase), std::make_pair(std::uint64_t{2}, 0u));
  EXPECT_FALSE(stage(a));
  const Token next = take(1);
  EXPECT_EQ(std::make_pair(next.step, next.phase), std::make_pair(std::uint64_t{0}, 1u));
}

class OpenEnded : public Job {
 protected:
  void make(const std::function<void(JobOptions&)>& change = [](JobOptions&) {}) {
    Job::make([&](JobOptions& o) {
      o.steps_per_epoch = JobOptions::kUnknown;
      o.evaluation_batches = JobOptions::kUnknown;
      change(o);
    });
    join_all();
  }
};

TEST_F(OpenEnded, AnEpochHasTheStepsBeforeTheOneWithoutData) {
  make([](JobOptions& o) { o.epochs = 2; });
  finish_all(0, TokenKind::train, 4);
  const Token none = take(0), other = take(1), later = take(0);
  EXPECT_EQ(none.step, 2u);
  EXPECT_EQ(later.step, 3u);
  EXPECT_FALSE(over(1, other));
  EXPECT_EQ(job->counters().steps, 2u);
  const Token evaluate = take(1);
  EXPECT_EQ(std::make_pair(evaluate.kind, evaluate.step), std::make_pair(TokenKind::evaluate, std::uint64_t{2}));
  EXPECT_FALSE(over(0, later));
  EXPECT_FALSE(over(0, none));
  EXPECT_EQ(job->counters().late, 2u);
  EXPECT_FALSE(done(1, evaluate));
  EXPECT_FALSE(over(0, take(0)));
  ASSERT_EQ(said<EpochDone>().size(), 2u);
  EXPECT_EQ(said<EpochDone>()[0].examples, 40u);
  EXPECT_EQ(mean_of(said<EpochDone>()[0].evaluation, "correct"), 0.5);
  const Token next = take(1);
  EXPECT_EQ(std::make_tuple(next.epoch, next.step, next.batch), std::make_tuple(1u, 2u, 0u));
}

TEST_F(OpenEnded, DataWithoutAStepEndsTheJob) {
  make();
  EXPECT_FALSE(over(0, take(0)));
  expect_failed(Code::invalid_argument, "no complete step");
}

TEST_F(OpenEnded, DataOfKnownLengthDoesNotEndEarlier) {
  make([](JobOptions& o) { o.steps_per_epoch = 3; });
  const Token token = take(0);
  EXPECT_EQ(over(0, token).code(), Code::invalid_argument);
}

TEST_F(OpenEnded, ASaveAtAStepThatNeverComesIsReplacedByTheLast) {
  make([](JobOptions& o) { o.save_every = 1, o.evaluation_batches = 0; });
  finish_all(0, TokenKind::train, 2);
  job->save_when_due(false, now, out);
  ASSERT_EQ(said<Save>().size(), 1u);
  EXPECT_EQ(said<Save>()[0].step, 2u);
  EXPECT_FALSE(over(0, take(0)));
  out.clear();
  job->save_when_due(false, now, out);
  ASSERT_EQ(said<Save>().size(), 1u);
  EXPECT_EQ(said<Save>()[0].step, 1u);
}

}  // namespace
}  // namespace troupe
