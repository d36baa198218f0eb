// The members of a job by themselves: who may join, whose messages count, who is told.
#include "troupe/scheduler/training/job_members.hpp"

#include <functional>

#include "tests/scheduler/training/job_fixture.hpp"

namespace troupe::testing {
namespace {

using OnLoss = JobOptions::OnLoss;
using Presence = JobMembers::Presence;

class JobMembership : public ::testing::Test {
 protected:
  JobMembership() {
    make([](JobOptions&) {});
  }
  void make(const std::function<void(JobOptions&)>& change) {
    options = {};
    options.workers = 2;
    options.max_workers = 3;
    options.joining = {0};
    options.on_loss = OnLoss::reassign;
    options.settings = "batch=10\n";
    change(options);
    members.emplace(options);
  }
  static Join join_of(std::uint32_t worker, std::uint64_t incarnation) {
    return {.worker = worker, .incarnation = Incarnation{incarnation}, .fingerprint = 0, .settings = "batch=10\n"};
  }
  Error join(std::uint32_t worker, std::uint64_t incarnation) {
    Error error;
    if (members->may_join(join_of(worker, incarnation), false, error))
      members->admit(worker, Incarnation{incarnation}, now, true);
    return error;
  }
  void lose(std::uint32_t worker) { members->lose(worker, Error(Code::unavailable, "killed"), true, now, out); }
  bool admits(std::uint32_t worker, std::uint64_t view, Code code = Code::ok) {
    Error error;
    out.clear();
    const bool admitted = members->admits(worker, view, error, out);
    EXPECT_EQ(error.code(), code) << error.message();
    return admitted;
  }

  JobOptions options;
  std::optional<JobMembers> members;
  Nanoseconds now = 100 * kSecond;
  TrainingOutbox out;
};

TEST_F(JobMembership, TakesMessagesOfTheViewInWhichTheirWorkerJoined) {
  EXPECT_FALSE(admits(0, 0, Code::failed_precondition));
  EXPECT_FALSE(admits(3, 0, Code::invalid_argument));
  EXPECT_FALSE(join(0, 7));
  EXPECT_TRUE(admits(0, 1));
  EXPECT_TRUE(admits(0, 0));
  lose(0);
  EXPECT_FALSE(admits(0, 1));
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(std::get<Fence>(out[0].message).reason.code(), Code::aborted);
  EXPECT_FALSE(join(0, 8));
  EXPECT_FALSE(admits(0, 1));
  EXPECT_EQ(std::get<Fence>(out[0].message).view, 3u);
  EXPECT_TRUE(admits(0, 3));
  EXPECT_EQ(members->counts().ignored, 1u);
  EXPECT_EQ(members->counts().fenced, 1u);
}

TEST_F(JobMembership, WithoutTheFenceAMessageOfAnEarlierIncarnationIsTaken) {
  make([](JobOptions& o) { o.fence = false; });
  EXPECT_FALSE(join(0, 7));
  lose(0);
  EXPECT_FALSE(join(0, 8));
  EXPECT_TRUE(admits(0, 1));
}

TEST_F(JobMembership, AnIncarnationThatWasReplacedJoinsNoMore) {
  EXPECT_FALSE(join(0, 7));
  lose(0);
  EXPECT_FALSE(join(0, 8));
  lose(0);
  EXPECT_EQ(join(0, 7).code(), Code::aborted);
  EXPECT_FALSE(join(0, 8));  // what it has said is ignored: it was this one that was lost
  EXPECT_EQ(members->worker(0).presence, Presence::lost);
  EXPECT_FALSE(join(0, 9));
  EXPECT_EQ(members->to_string(), "view 5: workers 0 of 3; expected: 1");
}

TEST_F(JobMembership, AJoinThatComesOnceMoreBehindItsLeaveIsRefused) {
  EXPECT_FALSE(join(0, 7));
  members->leave({.worker = 0, .incarnation = Incarnation{7}, .shard = false, .reason = {}});
  EXPECT_EQ(join(0, 7).code(), Code::aborted);
  EXPECT_FALSE(members->is_member(0));
  EXPECT_FALSE(join(0, 8));
  EXPECT_TRUE(members->is_member(0));
}

TEST_F(JobMembership, WhereALossEndsTheJobNobodyJoinsAgain) {
  make([](JobOptions& o) { o.on_loss = OnLoss::fail; });
  EXPECT_FALSE(join(0, 7));
  EXPECT_EQ(join(0, 8).code(), Code::already_exists);
  lose(0);
  EXPECT_TRUE(out.empty());  // nobody is fenced: the job ends
  EXPECT_EQ(join(0, 9).code(), Code::failed_precondition);
  EXPECT_EQ(members->counts().refused, 2u);
}

TEST_F(JobMembership, ALossIsAFenceForAllShardsAndIsToldWithWhoIsLeft) {
  EXPECT_FALSE(join(0, 7));
  EXPECT_FALSE(join(1, 7));
  members->take_events();
  lose(1);
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].to.kind, Destination::Kind::shards);
  EXPECT_EQ(std::get<Fence>(out[0].message).view, 3u);
  const auto events = members->take_events();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].text, "killed; view 3: workers 0 of 3; lost: 1");
  EXPECT_EQ(members->chief(), 0u);
  EXPECT_FALSE(members->empty_since());
  lose(0);
  EXPECT_EQ(members->empty_since(), now);
  EXPECT_EQ(members->chief(), 3u);
  EXPECT_FALSE(join(2, 7));
  EXPECT_FALSE(members->empty_since());
}

TEST_F(JobMembership, WaitsForThoseExpectedAndNoOthers) {
  EXPECT_EQ(members->not_joined(), "/job:worker/task:0, /job:worker/task:1, /job:ps/task:0");
  EXPECT_FALSE(join(2, 7));
  members->admit_shard(join_of(0, 5));
  EXPECT_EQ(members->not_joined(), "/job:worker/task:0, /job:worker/task:1");
  Leave leave{.worker = 0, .incarnation = Incarnation{4}, .shard = true, .after = 0, .reason = {}};
  EXPECT_FALSE(members->leaves(leave));
  leave.incarnation = Incarnation{5};
  ASSERT_TRUE(members->leaves(leave));
  members->leave(leave);
  EXPECT_EQ(members->missing_shards(), std::vector<std::uint32_t>{0});
  EXPECT_TRUE(members->has_left(0));
  make([](JobOptions& o) { o.min_workers = 1; });
  EXPECT_EQ(members->missing_workers(), 1u);
  EXPECT_FALSE(join(2, 7));
  EXPECT_EQ(members->missing_workers(), 0u);
}

TEST_F(JobMembership, KeepsTheTokensOfALostWorkerForItsGrace) {
  make([](JobOptions& o) { o.on_loss = OnLoss::wait, o.grace = 3 * kSecond; });
  EXPECT_FALSE(join(0, 7));
  EXPECT_FALSE(join(1, 7));
  lose(1);
  EXPECT_EQ(members->next_grace(), now + 3 * kSecond);
  EXPECT_TRUE(members->end_grace(now + 2 * kSecond).empty());
  EXPECT_EQ(members->end_grace(now + 3 * kSecond), std::vector<std::uint32_t>{1});
  EXPECT_FALSE(members->next_grace());
  lose(0);
  EXPECT_FALSE(join(0, 8));
  EXPECT_FALSE(members->next_grace());  // it has them again
}

TEST_F(JobMembership, TellsHowLongALossHasHeldTrainingUp) {
  EXPECT_FALSE(join(0, 7));
  members->advance(4, now);
  lose(0);
  now += 2 * kSecond;
  EXPECT_FALSE(join(0, 8));
  members->take_events();
  members->advance(4, now);
  EXPECT_TRUE(members->take_events().empty());
  members->advance(5, now);
  const auto events = members->take_events();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, MembershipEvent::Kind::went_on);
  EXPECT_EQ(events[0].took, 2 * kSecond);
  EXPECT_EQ(events[0].step, 4u);
  EXPECT_EQ(events[0].text, "training continued at step 5, 2.00 s after the loss");
}

}  // namespace
}  // namespace troupe::testing
