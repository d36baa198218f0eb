// What the plain classes say they wait for, and what that comes down to.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/scheduler/toy.hpp"
#include "tests/scheduler/training/job_fixture.hpp"
#include "tests/scheduler/training/shard_fixture.hpp"
#include <troupe/scheduler/collective/group_state.hpp>
#include <troupe/scheduler/waits/wait_things.hpp>

namespace troupe {
namespace {

using namespace testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Kind = RootCause::Kind;

std::vector<std::string> pairs(const Waiting& waiting) {
  std::vector<std::string> out;
  for (const Wait& wait : waiting.waits) out.push_back(wait.waiter + " -> " + wait.awaited);
  std::ranges::sort(out);
  return out;
}

StepPlace place(std::string task) {
  return {.task = std::move(task), .text = "step 1", .shards = {"/job:ps/task:0"}, .job = 9, .version = 4};
}

// out = -(r0) + -(r1), with a segment for each of the two and one for the sum.
TEST(StepWaits, SegmentsArrivalsAndTheDevice) {
  Graph g;
  Output a = node(g, "Neg", {recv(g, 0, kPair, "r0")}, "a");
  Output b = node(g, "Neg", {pull(g, 1, kPair, "r1")}, "b");
  Output sum = node(g, "Add", {a, b}, "sum");
  send(g, sum, 5, "out");
  ToyTask task(g);
  task.table.start(task.key(1), {task.partition}, {}, {});
  Waiting waiting = task.table.waiting(task.key(1), place("/job:worker/task:0"));
  const std::string s = "segment/1/1//device:CPU:0/";
  const std::string part = "part/1/1//job:worker/task:0 -> ";
  EXPECT_THAT(pairs(waiting), ElementsAre(part + s + "0", part + s + "1", part + s + "2", s + "0 -> tensor/1/1/0",
                                          s + "1 -> version/9/0/4", s + "2 -> " + s + "0", s + "2 -> " + s + "1",
                                          "tensor/1/1/5 -> " + s + "2"));
  EXPECT_THAT(analyse(waiting, {{"/job:ps/task:0", "is gone"}}).text,
              HasSubstr("waits for version 4 of the parameters on /job:ps/task:0\n     which is on /job:ps/task:0\n"));
  // One has come: its segment is on the device.
  const auto progress = task.table.arrived(task.key(1), 0, 0, i64({1, 2}));
  EXPECT_THAT(pairs(task.table.waiting(task.key(1), place("/job:worker/task:0"))),
              ::testing::Contains(s + "0 -> device//device:CPU:0"));
  // One that has run is no matter any more.
  task.table.segment_done(task.key(1), 0, progress.ready[0].segment, Error());
  EXPECT_THAT(pairs(task.table.waiting(task.key(1), place("/job:worker/task:0"))),
              ::testing::Not(::testing::Contains(HasSubstr("-> " + s + "0"))));
  EXPECT_TRUE(task.table.waiting(task.key(2), place("/job:worker/task:0")).things.empty());
}

TEST(StepWaits, TheNodeThatRunsIsTheCause) {
  Graph g;
  fetch(g, node(g, "Square", {node(g, "Neg", {feed(g, 0, kPair, "x")}, "n")}, "slow"), 0, "out");
  ToyTask task(g);
  WaitAnalysis seen;
  std::map<std::string, std::string> running;
  task.hooks.on_square = [&] {
    seen = analyse(task.table.waiting(task.key(1), place("/job:worker/task:0")), {});
    running = task.table.running();
  };
  task.start(1, {i64({1, 2})});
  ASSERT_EQ(seen.causes.size(), 1u);
  EXPECT_EQ(seen.causes[0].kind, Kind::working);
  EXPECT_EQ(seen.causes[0].text, "/device:CPU:0 runs Square 'slow' of step 1");
  EXPECT_EQ(running, (std::map<std::string, std::string>{{"/device:CPU:0", "Square 'slow'"}}));
  EXPECT_TRUE(task.table.running().empty());
}

TEST(StepWaits, CrossedWaitsOfTwoPartitionsAreADeadlock) {
  Waiting waiting;
  for (const std::int64_t way : {0, 1}) {
    Graph g;
    send(g, node(g, "Neg", {recv(g, way, kPair, "in")}, "n"), 1 - way, "out");
    ToyTask task(g);
    task.table.start(task.key(1), {task.partition}, {}, {});
    Waiting part = task.table.waiting(task.key(1), place(fmt::format("/job:worker/task:{}", way)));
    // The toy has one name for all devices.
    for (Wait& wait : part.waits)
      for (std::string* id : {&wait.waiter, &wait.awaited})
        if (id->starts_with("segment/")) *id += fmt::format("/of {}", way);
    for (WaitThing& thing : part.things)
      if (thing.id.starts_with("segment/")) thing.id += fmt::format("/of {}", way);
    waiting.append(std::move(part));
  }
  const WaitAnalysis found = analyse(waiting, {});
  ASSERT_EQ(found.causes.size(), 1u) << found.text;
  EXPECT_EQ(found.causes[0].kind, Kind::deadlock);
  EXPECT_EQ(found.causes[0].things.size(), 4u);
  EXPECT_THAT(found.causes[0].text, HasSubstr("tensor 'in' of step 1 from /device:CPU:9"));
}

// ---- Training ------------------------------------------------------------------------------------------------------

class JobWaiting : public JobTest {
 protected:
  WaitAnalysis why(const std::vector<SilentTask>& silent = {}) const { return analyse(job->waiting(9, now), silent); }
};

TEST_F(JobWaiting, BeginsWhenAllHaveJoined) {
  make([](JobOptions& o) { o.min_workers = 2; });
  EXPECT_FALSE(join(0));
  EXPECT_FALSE(ask(0, 1));
  now += 7 * kSecond;
  EXPECT_EQ(why({{"/job:worker/task:1", "has not been met"}}).text,
            "3 things wait for 1 cause; the worst first.\n"
            "1. SILENT /job:worker/task:1 does not answer (has not been met)\n"
            "   the first token of /job:worker/task:0\n"
            "     waits for the training job (joining): training has not begun\n"
            "     waits for /job:worker/task:1 to join the job: training begins with 2 workers, and 1 has joined; "
            "start more, or start the job with fewer\n"
            "     which is on /job:worker/task:1\n");
  EXPECT_EQ(job->waiting(9, now).things[0].for_ns, 7 * kSecond);
}

TEST_F(JobWaiting, ForTheSlotsOfTheFirstStepAndWhoHasThem) {
  make();
  join_all();
  const Token a = take(0), b = take(1);
  EXPECT_THAT(pairs(job->waiting(9, now)),
              ElementsAre("job/9 -> slot/9/0/0", "job/9 -> slot/9/0/1", "slot/9/0/0 -> worker/9//job:worker/task:0",
                          "slot/9/0/1 -> worker/9//job:worker/task:1"));
  EXPECT_FALSE(done(0, a));  // it is not staged
  finish(1, b);
  EXPECT_THAT(pairs(job->waiting(9, now)),
              ElementsAre("job/9 -> slot/9/0/0", "slot/9/0/0 -> link//job:worker/task:0//job:ps/task:4"));
  const auto members = job->list_members();
  ASSERT_EQ(members.size(), 2u);
  EXPECT_EQ(members[0].state, "joined");
  EXPECT_TRUE(members[0].tokens.empty());
}

TEST_F(JobWaiting, ATokenThatIsAskedForWaitsForThoseOfOthers) {
  make([](JobOptions& o) { o.steps_per_epoch = 1, o.evaluation_batches = 0; });  // one step
  join_all();
  const Token a = take(0);
  take(1);
  finish(0, a);
  EXPECT_TRUE(parks(0));
  EXPECT_THAT(pairs(job->waiting(9, now)),
              ElementsAre("job/9 -> slot/9/0/1", "slot/9/0/1 -> worker/9//job:worker/task:1",
                          "token/9//job:worker/task:0 -> slot/9/0/1"));
  // Its own are no reason.
  EXPECT_TRUE(parks(1));
  EXPECT_THAT(pairs(job->waiting(9, now)),
              ::testing::Not(::testing::Contains("token/9//job:worker/task:1 -> slot/9/0/1")));
}

TEST_F(JobWaiting, NobodyIsLeft) {
  make([](JobOptions& o) { o.on_loss = JobOptions::OnLoss::reassign, o.empty_timeout = 30 * kSecond; });
  join_all();
  take(0);
  job->worker_down(0, "gone", now, out);
  job->worker_down(1, "gone", now, out);
  now += 10 * kSecond;
  const WaitAnalysis found = why();
  ASSERT_FALSE(found.causes.empty());
  EXPECT_EQ(found.causes[0].kind, Kind::never);
  EXPECT_EQ(found.causes[0].text,
            "no worker is left: the job cannot continue until one joins; start one (it gives up in 20.0 s)");
  EXPECT_EQ(job->list_members()[0].state, "lost");
}

TEST_F(JobWaiting, ATokenIsKeptForAWorkerThatWasLost) {
  make([](JobOptions& o) { o.on_loss = JobOptions::OnLoss::wait, o.grace = 10 * kSecond; });
  join_all();
  take(0);
  take(1);
  job->worker_down(1, "gone", now, out);
  now += 3 * kSecond;
  EXPECT_THAT(why({{"/job:worker/task:1", "is gone"}}).text,
              HasSubstr("     waits for /job:worker/task:1 to join again: it was lost: its token is reserved for "
                        "another 7.0 s, then goes to others\n"
                        "     which is on /job:worker/task:1\n"));
  now += 8 * kSecond;
  job->tick(now, out);
  EXPECT_THAT(pairs(job->waiting(9, now)),
              ::testing::Contains("slot/9/0/1 -> worker/9//job:worker/task:0"));  // it may take it
}

TEST_F(JobWaiting, TheBarrierWaitsForThoseWhoAreNotInIt) {
  make([](JobOptions& o) { o.epochs = 0; });
  join_all();
  EXPECT_FALSE(job->barrier({0}, now, out));
  EXPECT_THAT(pairs(job->waiting(9, now)),
              ElementsAre("barrier/9 -> worker/9//job:worker/task:1", "job/9 -> barrier/9"));
  EXPECT_EQ(job->list_members()[0].state, "in barrier");
  EXPECT_FALSE(job->barrier({1}, now, out));
  EXPECT_TRUE(job->waiting(9, now).things.empty());
}

class ShardWaiting : public ShardTest {};

TEST_F(ShardWaiting, AVersionWaitsForTheSlotsThatAreMissing) {
  make(2);
  EXPECT_TRUE(state->waiting(9, "/job:ps/task:3").things.empty());
  EXPECT_FALSE(pull(10, 1, 0));
  EXPECT_FALSE(pull(20, 2, 1));
  push_all(0, 1, 1);
  const Waiting waiting = state->waiting(9, "/job:ps/task:3");
  EXPECT_THAT(pairs(waiting), ElementsAre("version/9/3/1 -> slot/9/0/0", "version/9/3/2 -> version/9/3/1"));
  for (const Wait& wait : waiting.waits) {
    if (wait.waiter != "version/9/3/1") continue;
    EXPECT_EQ(wait.text, "1 of 2 slots are staged");
    EXPECT_EQ(wait.have, 1u);
    EXPECT_EQ(wait.need, 2u);
  }
}

// ---- Collectives ---------------------------------------------------------------------------------------------------

TEST(CollectiveWaits, TheRankThatHasNotBegunIsTheCause) {
  std::vector<GroupState> states;
  GroupOptions options{.id = 7, .members = {"/job:worker/task:0", "/job:worker/task:1", "/job:worker/task:2"}};
  const auto memory = [](DType dtype, const Shape& shape) { return Tensor(dtype, shape); };
  for (options.rank = 0; options.rank < 3; ++options.rank) states.emplace_back(options, memory);
  const CollectiveSpec spec{.kind = CollectiveKind::barrier, .name = "end"};
  const auto begin = [&](std::uint32_t rank) {
    GroupOutbox out;
    states[rank].begin({}, spec, {}, out);
    while (!out.sent.empty()) {
      auto sent = std::exchange(out.sent, {});
      for (auto& message : sent) states[message.to].take(rank, std::move(message.part), out);
    }
  };
  begin(0);
  begin(2);
  Waiting waiting;
  for (const GroupState& state : states) waiting.append(state.waits());
  const WaitAnalysis found = analyse(waiting, {});
  ASSERT_EQ(found.causes.size(), 1u) << found.text;
  EXPECT_EQ(found.causes[0].things[0], "collective/7/0/0//job:worker/task:1");
  EXPECT_EQ(found.causes[0].waiters, 2u);
  EXPECT_THAT(found.causes[0].text,
              HasSubstr("rank 1 (/job:worker/task:1)'s part in barrier 'end', which others have begun but it has not"));
}

}  // namespace
}  // namespace troupe
