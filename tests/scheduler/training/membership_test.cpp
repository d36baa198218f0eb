// Workers that come and go while a job trains.
#include "tests/scheduler/training/job_fixture.hpp"

namespace troupe::testing {
namespace {

using OnLoss = JobOptions::OnLoss;

class Members : public JobTest {
 protected:
  void start(const std::function<void(JobOptions&)>& change = [](JobOptions&) {}) {
    make([&](JobOptions& o) {
      o.on_loss = OnLoss::reassign;
      change(o);
    });
    join_all();
    out.clear();
  }
  void lose(std::uint32_t worker) {
    out.clear();
    job->worker_down(worker, "killed", now, out);
  }
  std::uint64_t view_of(std::uint32_t worker, std::uint64_t incarnation) const {
    return job->view_of({worker, Incarnation{incarnation}});
  }
};

TEST_F(Members, EveryJoinAndLossMakesAView) {
  start([](JobOptions& o) { o.max_workers = 4; });
  EXPECT_EQ(job->members(), "view 2: workers 0, 1 of 4");
  EXPECT_EQ(view_of(0, 1), 1u);
  EXPECT_EQ(view_of(0, 2), 0u);
  lose(0);
  EXPECT_EQ(job->members(), "view 3: workers 1 of 4; lost: 0");
  EXPECT_FALSE(join(3));
  EXPECT_FALSE(join(0, 2));
  EXPECT_EQ(job->members(), "view 5: workers 0, 1, 3 of 4");
  EXPECT_EQ(view_of(0, 1), 0u);
  EXPECT_EQ(view_of(0, 2), 5u);
  EXPECT_EQ(job->counters().joins, 4u);
  EXPECT_EQ(job->counters().losses, 1u);
}

TEST_F(Members, TellsWhatHappensToThem) {
  using Kind = MembershipEvent::Kind;
  const auto events = [this] {
    std::string text;
    for (const MembershipEvent& event : job->take_events())
      text += fmt::format("{} {}{};", name(event.kind), event.worker ? fmt::format("worker {} ", *event.worker) : "",
                          event.step);
    return text;
  };
  start();
  EXPECT_EQ(events(), "joined worker 0 0;joined worker 1 0;began 0;");
  const Token first = take(0), second = take(1);
  now += kSecond;
  finish(0, first);
  EXPECT_EQ(events(), "used worker 0 0;");
  lose(1);
  now += kSecond;
  EXPECT_FALSE(job->take_token({1, 9, 0, view_of(0, 1)}, now, out));
  EXPECT_FALSE(job->take_token({1, 10, 0, view_of(0, 1)}, now, out));
  EXPECT_EQ(events(), "lost worker 1 0;fenced worker 1 0;");
  finish(0, take(0));
  const auto last = job->take_events();
  ASSERT_EQ(last.size(), 1u);
  EXPECT_EQ(last[0].kind, Kind::went_on);
  EXPECT_EQ(last[0].took, kSecond);
  EXPECT_FALSE(join(1, 2));
  EXPECT_EQ(events(), "joined worker 1 1;");
  finish(1, take(1));
  EXPECT_EQ(events(), "used worker 1 1;");
  EXPECT_EQ(second.step, 0u);
}

TEST_F(Members, ASuspectStaysOneOfThem) {
  start();
  job->take_events();
  job->suspect(1, true);
  job->suspect(1, true);
  EXPECT_EQ(job->members(), "view 2: workers 0, 1 of 2; suspect: 1");
  EXPECT_EQ(job->take_events().size(), 1u);
  EXPECT_EQ(take(1).slot, 0u);
  job->suspect(1, false);
  EXPECT_EQ(job->members(), "view 2: workers 0, 1 of 2");
  job->suspect(1, true);
  lose(1);
  EXPECT_EQ(job->members(), "view 3: workers 0 of 2; lost: 1");
  job->suspect(1, true);  // not any more
  const auto events = job->take_events();
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].kind, MembershipEvent::Kind::heard);
  EXPECT_EQ(events[1].kind, MembershipEvent::Kind::suspected);
  EXPECT_EQ(events[2].kind, MembershipEvent::Kind::lost);
}

TEST_F(Members, WhatComesOfAWorkerThatLeftBeforeTheTrainingIsIgnored) {
  make();
  EXPECT_FALSE(join(0));
  job->leave({0, Incarnation{1}, false, 0, Error(Code::cancelled, "no time")}, now, out);
  EXPECT_FALSE(job->take_token({0, 1, 0, 1}, now, out));
  EXPECT_EQ(job->counters().fenced, 1u);
  EXPECT_EQ(ask(0, 1).code(), Code::failed_precondition);
}

TEST_F(Members, OthersThanThoseExpectedMayJoinAtAnyTimeAndLeave) {
  make([](JobOptions& o) { o.on_loss = OnLoss::reassign, o.max_workers = 4; });
  EXPECT_FALSE(join(3));
  EXPECT_EQ(job->waits_for(), "joins of /job:worker/task:0, /job:worker/task:1");
  join_all();
  EXPECT_EQ(ask(2, 1).code(), Code::failed_precondition);
  EXPECT_EQ(join(4).code(), Code::invalid_argument);
  job->worker_down(2, "never seen", now, out);
  EXPECT_EQ(job->view(), 3u);
  EXPECT_FALSE(join(2));
  const Token token = take(2);
  EXPECT_EQ(token.slot, 0u);
  out.clear();
  job->leave({2, Incarnation{1}, false, 0, Error(Code::cancelled, "enough")}, now, out);
  EXPECT_EQ(take(3).slot, token.slot);
  EXPECT_EQ(job->members(), "view 5: workers 0, 1, 3 of 4; lost: 2");
}

TEST_F(Members, TrainingBeginsWithTheLeastNumberOfWorkersAndOthersMayComeLater) {
  make([](JobOptions& o) { o.workers = 4, o.min_workers = 2, o.join_timeout = 30 * kSecond; });
  EXPECT_EQ(job->waits_for(),
            "joins of 2 of /job:worker/task:0, /job:worker/task:1, /job:worker/task:2, /job:worker/task:3");
  EXPECT_FALSE(join(3));
  EXPECT_FALSE(join(1));
  EXPECT_EQ(job->stage(), Coordinator::Stage::training);
  EXPECT_EQ(job->members(), "view 2: workers 1, 3 of 4");
  EXPECT_EQ(job->chief(), 1u);
  EXPECT_EQ(job->deadline(), std::nullopt);
  EXPECT_EQ(take(1).slot, 0u);
  EXPECT_EQ(ask(0, 1).code(), Code::failed_precondition);
  EXPECT_FALSE(join(0));
  EXPECT_EQ(job->chief(), 0u);
  EXPECT_EQ(take(0).slot, 1u);
  EXPECT_EQ(job->counters().losses, 0u);
}

TEST_F(Members, TrainingDoesNotBeginWithLessThanTheLeastNumberOfWorkers) {
  make([](JobOptions& o) {
    o.on_loss = OnLoss::reassign, o.workers = 4, o.min_workers = 2, o.join_timeout = 30 * kSecond;
  });
  EXPECT_FALSE(join(3));
  now += 30 * kSecond;
  job->tick(now, out);
  expect_failed(Code::deadline_exceeded,
                "1 of /job:worker/task:0, /job:worker/task:1, /job:worker/task:2 did not join within 30 s");
  EXPECT_THROW(make([](JobOptions& o) { o.workers = 4, o.min_workers = 5; }), Error);
}

TEST_F(Members, TheLeastNumberOfWorkersIsOfThoseWhoAreStillThere) {
  make([](JobOptions& o) { o.on_loss = OnLoss::reassign, o.workers = 3, o.min_workers = 2; });
  EXPECT_FALSE(join(0));
  lose(0);
  EXPECT_FALSE(join(1));
  EXPECT_EQ(job->waits_for(), "joins of 1 of /job:worker/task:2");
  EXPECT_FALSE(join(0, 2));
  EXPECT_EQ(job->stage(), Coordinator::Stage::training);
}

// Who has not come by then is not waited for, and may come later.
TEST_F(Members, AfterTheJoinTimeoutTrainingBeginsWithThoseWhoAreThere) {
  make([](JobOptions& o) {
    o.on_loss = OnLoss::reassign, o.workers = 3, o.joining = {4}, o.join_timeout = 30 * kSecond;
  });
  EXPECT_FALSE(join(1));
  EXPECT_FALSE(job->join({4, Incarnation{1}, 99, "batch=10\nseed=7\n", true}, now, out));
  now += 30 * kSecond;
  job->tick(now - 1, out);
  EXPECT_EQ(job->stage(), Coordinator::Stage::joining);
  job->tick(now, out);
  EXPECT_EQ(job->stage(), Coordinator::Stage::training);
  EXPECT_EQ(job->members(), "view 1: workers 1 of 3");
  EXPECT_FALSE(join(0));
  EXPECT_EQ(take(0).slot, 0u);
}

TEST_F(Members, AfterTheJoinTimeoutAJobWithoutAShardOrAnyWorkerFails) {
  make([](JobOptions& o) { o.on_loss = OnLoss::reassign, o.joining = {4}, o.join_timeout = 30 * kSecond; });
  EXPECT_FALSE(join(1));
  job->tick(now + 30 * kSecond, out);
  expect_failed(Code::deadline_exceeded, "/job:worker/task:0, /job:ps/task:4 did not join within 30 s");
  out.clear();
  make([](JobOptions& o) { o.on_loss = OnLoss::reassign, o.join_timeout = 30 * kSecond; });
  job->tick(now + 30 * kSecond, out);
  expect_failed(Code::deadline_exceeded, "/job:worker/task:0, /job:worker/task:1 did not join within 30 s");
}

TEST_F(Members, ALossFencesTheShardsAndAnswersWhatStillComes) {
  start();
  lose(1);
  const auto fences = said<Fence>();
  ASSERT_EQ(fences.size(), 1u);
  EXPECT_EQ(out[0].to.kind, Destination::Kind::shards);
  EXPECT_EQ(std::make_pair(fences[0].worker, fences[0].view), std::make_pair(1u, std::uint64_t{3}));
  out.clear();
  EXPECT_FALSE(job->take_token({1, 1, 0, 2}, now, out));
  EXPECT_EQ(job->counters().ignored, 1u);
  ASSERT_EQ(said<Fence>().size(), 1u);
  EXPECT_EQ(out[0].to.kind, Destination::Kind::worker);
  EXPECT_EQ(said<Fence>()[0].reason.code(), Code::aborted);
  EXPECT_NE(said<Fence>()[0].reason.message().find("it may join again"), std::string::npos);
}

TEST_F(Members, AnotherProcessMayJoinBeforeTheLossOfTheFirstIsKnown) {
  start();
  const Token token = take(0);
  out.clear();
  EXPECT_FALSE(join(0, 2));
  EXPECT_EQ(job->members(), "view 4: workers 0, 1 of 2");
  ASSERT_EQ(said<Fence>().size(), 1u);
  EXPECT_EQ(said<Fence>()[0].view, 3u);
  // What the first has sent counts for nothing, its requests neither.
  out.clear();
  EXPECT_FALSE(job->take_token({0, 9, 0, 1}, now, out));
  EXPECT_FALSE(job->token_done({.worker = 0, .token = token, .sums = {}, .examples = 10, .view = 1}, now, out));
  EXPECT_FALSE(job->barrier({0, 0, 1}, now, out));
  EXPECT_EQ(job->counters().fenced, 3u);
  ASSERT_EQ(said<Fence>().size(), 3u);
  EXPECT_EQ(said<Fence>()[0].view, 4u);
  EXPECT_EQ(said<Fence>()[0].reason.code(), Code::already_exists);
  EXPECT_EQ(job->join({0, Incarnation{1}, 99, "batch=10\nseed=7\n"}, now, out).code(), Code::aborted);
  EXPECT_EQ(view_of(0, 2), 4u);
  out.clear();
  EXPECT_FALSE(job->take_token({0, 1, 0, 4}, now, out));
  ASSERT_EQ(said<Token>().size(), 1u);
  EXPECT_EQ(said<Token>()[0].slot, token.slot);
  finish(0, said<Token>()[0]);
}

TEST_F(Members, AProcessForAnotherJobReplacesNobody) {
  start();
  EXPECT_EQ(job->join({0, Incarnation{2}, 98, "batch=10\nseed=7\n"}, now, out).code(), Code::failed_precondition);
  EXPECT_EQ(view_of(0, 1), 1u);
  EXPECT_EQ(take(0).slot, 0u);
}

TEST_F(Members, UnderThePolicyWaitTokensAreKeptForTheNextIncarnation) {
  start([](JobOptions& o) { o.on_loss = OnLoss::wait, o.grace = 10 * kSecond; });
  const Token token = take(0);
  lose(0);
  EXPECT_EQ(take(1).slot, 1u);
  EXPECT_TRUE(parks(1));
  EXPECT_EQ(job->deadline(), now + 10 * kSecond);
  now += 5 * kSecond;
  out.clear();
  EXPECT_FALSE(join(0, 2));
  EXPECT_TRUE(said<Token>().empty());
  requests[0] = 0;
  EXPECT_EQ(take(0).slot, token.slot);
  EXPECT_EQ(job->deadline(), std::nullopt);
}

TEST_F(Members, UnderThePolicyWaitTokensGoToOthersAfterTheGrace) {
  start([](JobOptions& o) { o.on_loss = OnLoss::wait, o.grace = 10 * kSecond; });
  const Token token = take(0);
  lose(0);
  finish(1, take(1));
  EXPECT_TRUE(parks(1));
  job->tick(now + 10 * kSecond - 1, out);
  EXPECT_TRUE(out.empty());
  job->tick(now + 10 * kSecond, out);
  ASSERT_EQ(said<Token>().size(), 1u);
  EXPECT_EQ(said<Token>()[0].slot, token.slot);
  EXPECT_EQ(job->deadline(), std::nullopt);
}

TEST_F(Members, AJobWithoutWorkersWaitsForOne) {
  start([](JobOptions& o) { o.empty_timeout = 30 * kSecond, o.step_timeout = 10 * kSecond; });
  const Token token = take(0);
  lose(0);
  lose(1);
  EXPECT_EQ(job->stage(), Coordinator::Stage::training);
  EXPECT_EQ(job->deadline(), now + 30 * kSecond);
  now += 29 * kSecond;
  job->tick(now, out);
  EXPECT_FALSE(join(1, 2));
  EXPECT_EQ(job->deadline(), now + 10 * kSecond);
  requests[1] = 0;
  EXPECT_EQ(take(1).slot, token.slot);
}

TEST_F(Members, AJobWithoutWorkersFailsInTheEnd) {
  start([](JobOptions& o) { o.empty_timeout = 30 * kSecond; });
  lose(0);
  lose(1);
  job->tick(now + 30 * kSecond, out);
  expect_failed(Code::unavailable, "no worker is left, and none has joined for 30 s");
}

TEST_F(Members, TheFiguresOfAnEpochWaitForAChief) {
  start([](JobOptions& o) {
    o.empty_timeout = 30 * kSecond, o.steps_per_epoch = 1, o.evaluation_batches = 0, o.epochs = 2;
  });
  const Token a = take(0), b = take(1);
  finish(0, a);
  EXPECT_FALSE(done(1, b));
  lose(0);
  lose(1);
  out.clear();
  EXPECT_FALSE(stage(b));
  EXPECT_TRUE(said<EpochDone>().empty());
  EXPECT_FALSE(join(1, 2));
  ASSERT_EQ(said<EpochDone>().size(), 1u);
  EXPECT_EQ(out[0].to.index, 1u);
}

TEST_F(Members, TheBarrierOpensForThoseWhoAreThere) {
  start([](JobOptions& o) { o.epochs = 0, o.empty_timeout = 30 * kSecond; });
  EXPECT_FALSE(job->barrier({0}, now, out));
  lose(0);
  lose(1);
  EXPECT_FALSE(job->finished());
  EXPECT_FALSE(join(1, 2));
  EXPECT_FALSE(job->barrier({1}, now, out));
  EXPECT_TRUE(job->finished());
}

TEST_F(Members, ALookaheadGivesLostTokensToThoseWhoWaitForThem) {
  start([](JobOptions& o) { o.lookahead = 1; });
  const Token first = take(0), second = take(1);
  finish(1, second);
  const Token ahead = take(1);
  EXPECT_EQ(ahead.step, 1u);
  out.clear();
  EXPECT_FALSE(ask(0, ++requests[0]));
  EXPECT_EQ(said<Token>().size(), 1u);
  lose(0);  // worker 1 waits for version 1 and has asked for nothing
  const auto given = said<Token>();
  ASSERT_EQ(given.size(), 2u);
  EXPECT_EQ(std::make_tuple(given[0].request, given[0].step, given[0].slot),
            std::make_tuple(std::uint64_t{0}, first.step, first.slot));
  finish(1, given[0]);
  finish(1, given[1]);
  finish(1, ahead);
  EXPECT_EQ(job->counters().steps, 2u);
}

TEST_F(Members, BoundedStalenessGivesLostTokensToThoseWhoWaitForThem) {
  start([](JobOptions& o) { o.mode = TrainingMode::bounded_staleness, o.staleness = 1; });
  const Token first = take(0);
  finish(1, take(1));
  finish(1, take(1));
  EXPECT_GT(take(1).step, first.step);
  out.clear();
  lose(0);  // worker 1 has asked for nothing
  const auto given = said<Token>();
  ASSERT_GE(given.size(), 1u);
  EXPECT_EQ(std::make_tuple(given[0].request, given[0].step, given[0].slot),
            std::make_tuple(std::uint64_t{0}, first.step, first.slot));
}

// The worker cannot know an unasked token of its last incarnation: it has no request.
TEST_F(Members, AReportOfAnUnaskedTokenThatIsNoLongerItsOwnIsDropped) {
  start([](JobOptions& o) { o.lookahead = 1, o.max_workers = 3; });
  take(0);
  finish(1, take(1));
  take(1);
  out.clear();
  lose(0);
  const auto given = said<Token>();
  ASSERT_GE(given.size(), 1u);
  ASSERT_EQ(given[0].request, 0u);
  EXPECT_FALSE(join(2));
  lose(1);  // worker 2 gets it
  EXPECT_FALSE(join(1, 2));
  const std::uint64_t repeated = job->counters().repeated;
  EXPECT_FALSE(done(1, given[0]));
  EXPECT_EQ(job->counters().repeated, repeated + 1);
  Token asked = given[0];
  asked.request = 7;
  EXPECT_EQ(done(1, asked).code(), Code::invalid_argument);
}

TEST_F(Members, TrainingDoesNotBeginWithoutAnyone) {
  make([](JobOptions& o) { o.on_loss = OnLoss::reassign, o.workers = 1, o.empty_timeout = 30 * kSecond; });
  EXPECT_FALSE(join(0));
  make([](JobOptions& o) {
    o.on_loss = OnLoss::reassign, o.joining = {4}, o.workers = 1, o.empty_timeout = 30 * kSecond;
  });
  EXPECT_FALSE(join(0));
  job->worker_down(0, "killed", now, out);
  EXPECT_FALSE(job->join({4, Incarnation{1}, 99, "batch=10\nseed=7\n", true}, now, out));
  EXPECT_EQ(job->stage(), Coordinator::Stage::joining);
  EXPECT_FALSE(join(0, 2));
  EXPECT_EQ(job->stage(), Coordinator::Stage::training);
}

TEST_F(Members, WhatALostWorkerLeftBehindGoesToWhoeverAsksThoughAnotherHoldsLess) {
  start([](JobOptions& o) { o.max_workers = 3; });
  const Token token = take(0);
  take(1);
  EXPECT_TRUE(parks(1));
  EXPECT_FALSE(join(2));
  lose(0);
  ASSERT_EQ(said<Token>().size(), 1u);
  EXPECT_EQ(said<Token>()[0].slot, token.slot);
}

TEST_F(Members, WhatIsKeptForAWorkerIsGivenToItThoughOthersAskedBefore) {
  start([](JobOptions& o) { o.on_loss = OnLoss::wait; });
  const Token token = take(0);
  finish(1, take(1));
  EXPECT_TRUE(parks(1));
  lose(0);
  EXPECT_FALSE(join(0, 2));
  requests[0] = 0;
  EXPECT_EQ(take(0).slot, token.slot);
}

TEST_F(Members, MoreWorkersThanCanBeAreRefused) {
  EXPECT_THROW(make([](JobOptions& o) { o.max_workers = ~0u; }), Error);
}

}  // namespace
}  // namespace troupe::testing
