// Shard, coordinator and worker actors, one message at a time; peers record what would leave the task.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <caf/send.hpp>

#include "tests/actors/steps/step_testing.hpp"
#include "tests/error_of.hpp"
#include <troupe/actors/cluster/peer_actor.hpp>
#include <troupe/actors/training/coordinator_actor.hpp>
#include <troupe/actors/training/shard_actor.hpp>
#include <troupe/actors/training/worker_actor.hpp>

namespace troupe {
namespace {

using ::testing::HasSubstr;

// Adds gradients to its value.
class Sum final : public ShardStore {
 public:
  Tensor value(std::uint32_t) override { return Tensor::vector<float>({sum}); }
  void keep_as_final(std::uint32_t) override {}
  Tensor final_value(std::uint32_t slice) override { return value(slice); }
  void apply(std::uint32_t, const Update& update) override { sum += *update.gradient.values.data<float>(); }
  float sum = 0;
};

class TrainingActors : public ::testing::Test {
 protected:
  TrainingActors() {
    JobOptions job;
    job.workers = 2;
    job.slots = 2;
    job.shards = {0};
    job.step_timeout = 1;  // ns: over as soon as time passes
    job.batch = 2;
    JobRoutes routes;
    routes.coordinator = coordinator =
        system.caf->spawn<CoordinatorActorImpl>(system.registry.add(ActorKind::coordinator, "0"),
                                                CoordinatorActorImpl::Config{.self = kCoordinatorTask, .options = job});
    ShardActorImpl::Config config{kCoordinatorTask,
                                  {.workers = 2, .slots = 2, .keep_previous = false},
                                  {{0, "w", DType::f32, Shape{1}}},
                                  store,
                                  [this](Error e, const ShardCounters&, const ShardState::Cut&, const BarrierOpen&) {
                                    ended.push_back(std::move(e));
                                  }};
    routes.shard = shard =
        system.caf->spawn<ShardActorImpl>(system.registry.add(ActorKind::shard, "0"), std::move(config));
    routes.job = 1;
    caf::anon_send(shard, routes);
    caf::anon_send(coordinator, routes);
    for (int w : {0, 1}) {
      PeerActorImpl::Links links;
      links.send = [this, w](const Frame& frame) {
        sent[w].push_back(frame);
        corked += wire::Cork::current() != nullptr;
        return Error();
      };
      peers.push_back(system.caf->spawn<PeerActorImpl>(system.registry.add(ActorKind::peer, std::to_string(w)),
                                                       worker_task(w), std::move(links)));
      caf::anon_send(shard, PeerUp{worker_task(w), peers.back()});
      caf::anon_send(coordinator, PeerUp{worker_task(w), peers.back()});
    }
    system.run();
  }
  ~TrainingActors() override {
    caf::anon_send(shard, Stop{});
    caf::anon_send(coordinator, Stop{});
    for (const auto& peer : peers) caf::anon_send(peer, Stop{});
    system.run();
    EXPECT_EQ(system.alive(), std::vector<std::string>());
  }
  template <class Actor, class F>
  void say(const Actor& to, int worker, F frame) {
    caf::anon_send(to, Inbound<F>{worker_task(worker), std::move(frame)});
    system.run();
  }
  void push(std::uint32_t worker, std::uint32_t slot, float value) {
    say(shard, static_cast<int>(worker), Push{worker, 0, 0, slot, 0, 0, Tensor::vector<float>({value}), {}});
  }
  template <class F>
  std::vector<F> got(int worker) {
    std::vector<F> out;
    for (const Frame& frame : sent[worker])
      if (const F* f = std::get_if<F>(&frame)) out.push_back(*f);
    return out;
  }

  testing::SteppedSystem system;
  std::shared_ptr<Sum> store = std::make_shared<Sum>();
  std::vector<Error> ended;
  std::map<int, std::vector<Frame>> sent;
  std::size_t corked = 0;  // of these, wait for others
  std::vector<PeerActor> peers;
  CoordinatorActor coordinator;
  ShardActor shard;
};

TEST_F(TrainingActors, AParkedPullIsReleasedWhenAllSlotsAreStagedAndRepeatedPushesAreDropped) {
  say(shard, 0, Pull{0, {SessionId{1}, StepId{2}, EdgeId{3}}, 0, 1});
  push(0, 0, 2);
  push(0, 0, 2);
  EXPECT_TRUE(got<Put>(0).empty());
  push(1, 1, 4);
  const auto puts = got<Put>(0);
  ASSERT_EQ(puts.size(), 1u);
  EXPECT_EQ(puts[0].version, 1u);
  EXPECT_EQ(puts[0].key.step, StepId{2});
  EXPECT_EQ(puts[0].tensor.item<float>(), 3.0f);  // the mean, once
  push(1, 1, 4);
  EXPECT_EQ(store->sum, 3.0f);
}

TEST_F(TrainingActors, WhatAShardSendsInARunOfMessagesLeavesTogether) {
  for (std::uint64_t step : {2, 3})
    caf::anon_send(shard, Inbound<Pull>{worker_task(0), {0, {SessionId{1}, StepId{step}, EdgeId{3}}, 0, 0}});
  system.run();
  EXPECT_EQ(got<Put>(0).size(), 2u);
  EXPECT_EQ(corked, 2u);
  EXPECT_EQ(wire::Cork::current(), nullptr);
}

TEST_F(TrainingActors, ARefusedPushFailsItsWorkerAlone) {
  push(0, 7, 1);
  ASSERT_EQ(got<JobFailed>(0).size(), 1u);
  EXPECT_THAT(got<JobFailed>(0)[0].error.message(), HasSubstr("/job:ps/task:0"));
  EXPECT_TRUE(got<JobFailed>(1).empty());
  EXPECT_TRUE(ended.empty());
}

TEST_F(TrainingActors, ACommitThatAShardCannotFollowEndsTheJob) {
  say(shard, 0, Commit{0, 0, {0, 1}});  // no step has more slots than it needs
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_THAT(ended[0].message(), HasSubstr("commit of step 0"));
  ASSERT_EQ(got<JobFailed>(1).size(), 1u);
  EXPECT_THAT(got<JobFailed>(1)[0].error.message(), HasSubstr("/job:ps/task:0"));
}

TEST_F(TrainingActors, AShardTakesNothingFromBeforeAFence) {
  say(shard, 0, Fence{0, 5});
  say(shard, 0, Pull{0, {SessionId{1}, StepId{2}, EdgeId{3}}, 0, 0, 0, 4});
  EXPECT_TRUE(got<Put>(0).empty());
  say(shard, 0, Pull{0, {SessionId{1}, StepId{2}, EdgeId{3}}, 0, 0, 0, 6});
  EXPECT_EQ(got<Put>(0).size(), 1u);
}

TEST_F(TrainingActors, ALostWorkerIsNamedToAll) {
  for (std::uint32_t w : {0u, 1u}) say(coordinator, static_cast<int>(w), Join{w, Incarnation{w + 1}, 0, ""});
  caf::anon_send(coordinator, PeerDown{worker_task(1), Error(Code::unavailable, "silence")});
  system.run();
  ASSERT_EQ(got<JobFailed>(0).size(), 1u);
  EXPECT_THAT(got<JobFailed>(0)[0].error.message(), HasSubstr("/job:worker/task:1"));
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_THAT(ended[0].message(), HasSubstr("/job:worker/task:1"));
}

TEST_F(TrainingActors, AJobThatStandsStillFailsOnEveryTask) {
  for (std::uint32_t w : {0u, 1u}) say(coordinator, static_cast<int>(w), Join{w, Incarnation{w + 1}, 0, ""});
  for (int w : {0, 1}) say(coordinator, w, TakeToken{static_cast<std::uint32_t>(w), 1});
  EXPECT_TRUE(got<JobFailed>(0).empty());
  const auto before = system.caf->scheduler().clock().now();
  system.run_next_timeout();
  EXPECT_LT(system.caf->scheduler().clock().now() - before, std::chrono::seconds(1)) << "that of joining is later";
  for (int w : {0, 1}) {
    SCOPED_TRACE(::testing::Message() << "worker " << w);
    ASSERT_EQ(got<JobFailed>(w).size(), 1u);
    EXPECT_THAT(got<JobFailed>(w)[0].error.message(),
                HasSubstr("step 0 slot 0 (worker 0, not staged on shard 0); step 0 slot 1 (worker 1"));
  }
  ASSERT_EQ(ended.size(), 1u) << "of the shard";
  EXPECT_EQ(ended[0].code(), Code::deadline_exceeded);
}

// The coordinator, which has deadlines of its own, may be what is stuck.
TEST(WorkerMailbox, ThrowsWhenNothingComesForTooLong) {
  std::chrono::steady_clock::time_point now{};
  WorkerMailbox mailbox(std::chrono::seconds(10), [&now] { return now; });
  now += std::chrono::seconds(6);
  mailbox.put(EpochDone{});
  EXPECT_TRUE(mailbox.take({}));
  now += std::chrono::seconds(6);
  EXPECT_FALSE(mailbox.take({}));
  mailbox.wake();  // a step has ended
  now += std::chrono::seconds(10);
  EXPECT_FALSE(mailbox.take({}));
  now += std::chrono::nanoseconds(1);
  EXPECT_THAT(testing::error_of([&] { mailbox.take({}); }).message(),
              HasSubstr("no message from the job's coordinator on /job:ps/task:0"));
  WorkerMailbox patient({}, [&now] { return now; });
  now += std::chrono::hours(1000);
  EXPECT_FALSE(patient.take({}));
}

TEST_F(TrainingActors, APushIsHeldByItsLinkUntilTheShardHasTakenIt) {
  for (const auto& to : peers) caf::anon_send(to, JobRoutes{shard, coordinator, {}, 0});
  system.run();
  auto handle = std::make_shared<LocalWork>();
  const std::weak_ptr<LocalWork> held = handle;
  caf::anon_send(peers[0], FrameCame{Push{0, 0, 0, 0, 0, 0, Tensor::vector<float>({1}), {}}, std::move(handle)});
  EXPECT_FALSE(held.expired());  // in the mailbox
  system.run();
  EXPECT_TRUE(held.expired());
}

TEST_F(TrainingActors, WhoHasSeenAJobJoinsALaterOne) {
  const auto route = [&](std::uint64_t job) {
    const JobRoutes routes{shard, coordinator, {}, job};
    for (const auto& to : peers) caf::anon_send(to, routes);
    caf::anon_send(coordinator, routes);
    system.run();
  };
  route(5);
  caf::anon_send(peers[0], FrameCame{Join{.worker = 0, .incarnation = {3}, .settings = {}, .after = 5}});
  caf::anon_send(peers[1], FrameCame{Join{.worker = 1, .incarnation = {4}, .settings = {}, .after = 4}});
  system.run();
  EXPECT_TRUE(got<Joined>(0).empty());
  ASSERT_EQ(got<Joined>(1).size(), 1u);
  EXPECT_EQ(got<Joined>(1)[0].job, 5u);
  EXPECT_EQ(got<Joined>(1)[0].incarnation, Incarnation{4});
  route(6);
  ASSERT_EQ(got<Joined>(0).size(), 1u);
  EXPECT_EQ(got<Joined>(0)[0].job, 6u);
}

TEST_F(TrainingActors, WhoGivesUpHearsThatItsJoinIsGone) {
  const auto come = [&](Frame frame) {
    caf::anon_send(peers[0], FrameCame{std::move(frame)});
    system.run();
  };
  come(Join{.worker = 0, .incarnation = {3}, .fingerprint = 1, .settings = {}});  // of another job; no coordinator yet
  come(Leave{.worker = 0, .incarnation = {3}, .reason = {}});
  caf::anon_send(peers[0], JobRoutes{shard, coordinator, {}, 5});
  system.run();
  come(Join{.worker = 0, .incarnation = {4}, .settings = {}});
  come(Leave{.worker = 0, .incarnation = {4}, .reason = {}});
  const auto told = got<Joined>(0);
  ASSERT_EQ(told.size(), 3u);
  EXPECT_EQ(told[0].incarnation, Incarnation{3});
  EXPECT_EQ(told[0].error.code(), Code::cancelled);
  EXPECT_EQ(told[1].incarnation, Incarnation{4});
  EXPECT_TRUE(told[1].error.ok()) << told[1].error.message();
  EXPECT_EQ(told[2].incarnation, Incarnation{4});
  EXPECT_EQ(told[2].error.code(), Code::cancelled);
}

// The end of one that began before its node had told it of the peers would reach nobody.
TEST_F(TrainingActors, AJobsTimeBeginsWithItsRoutes) {
  const CoordinatorActor early = system.caf->spawn<CoordinatorActorImpl>(
      system.registry.add(ActorKind::coordinator, "1"),
      CoordinatorActorImpl::Config{.self = kCoordinatorTask, .options = {.batch = 1, .join_timeout = 1}});
  say(early, 0, Join{.worker = 1, .incarnation = {3}, .settings = {}});
  system.run_next_timeout();  // that of the other coordinator
  caf::anon_send(early, PeerUp{worker_task(0), peers[0]});
  caf::anon_send(early, JobRoutes{shard, early, {}, 5});
  system.run();
  system.run_next_timeout();
  EXPECT_EQ(got<JobFailed>(0).size(), 1u);
  caf::anon_send(early, Stop{});
  system.run();
}

TEST_F(TrainingActors, WhoIsLateForAJobIsToldSo) {
  const auto join = [&](std::uint64_t after) {
    caf::anon_send(peers[0], FrameCame{Join{.worker = 0, .incarnation = {3}, .settings = {}, .after = after}});
  };
  const auto route = [&](const JobRoutes& routes) {
    caf::anon_send(peers[0], routes);
    system.run();
  };
  const auto told = [&] { return got<Joined>(0).size(); };
  const CoordinatorActor ended = system.caf->spawn<CoordinatorActorImpl>(
      system.registry.add(ActorKind::coordinator, "1"),
      CoordinatorActorImpl::Config{.self = kCoordinatorTask, .options = {.batch = 1}});
  route({shard, ended, {}, 5});
  caf::anon_send(ended, Stop{});
  system.run();
  join(4);  // the peer does not know yet that it has ended
  ASSERT_EQ(told(), 1u);
  EXPECT_EQ(got<Joined>(0)[0].job, 5u);
  EXPECT_THAT(got<Joined>(0)[0].error.message(), HasSubstr("was over before /job:worker/task:0 had joined it"));
  route({});
  join(4);
  EXPECT_EQ(told(), 2u);
  join(5);
  EXPECT_EQ(told(), 2u);  // waits for the next
}

TEST_F(TrainingActors, AWorkerThatIsTurnedAwayHearsWhy) {
  say(coordinator, 1, Join{.worker = 1, .incarnation = {3}, .fingerprint = 1, .settings = "seed=8"});
  ASSERT_EQ(got<Joined>(1).size(), 1u);
  EXPECT_FALSE(got<Joined>(1)[0].error);
  say(coordinator, 0, Join{.worker = 0, .incarnation = {2}, .settings = {}});
  for (const int worker : {0, 1}) {
    SCOPED_TRACE(::testing::Message() << "worker " << worker);
    ASSERT_EQ(got<JobFailed>(worker).size(), 1u);
    EXPECT_THAT(got<JobFailed>(worker)[0].error.message(), HasSubstr("seed"));
  }
}

TEST_F(TrainingActors, TheShardEndsWhenTheBarrierOpens) {
  say(shard, 0, BarrierOpen{2});
  say(shard, 0, BarrierOpen{2});
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_TRUE(ended[0].ok());
}

TEST_F(TrainingActors, AShardThatLeavesAnEndedJobFailsNoWorker) {
  auto mailbox = std::make_shared<WorkerMailbox>();
  const WorkerActor worker = system.caf->spawn<WorkerActorImpl>(system.registry.add(ActorKind::worker, "0"), mailbox);
  caf::anon_send(worker, PeerDown{shard_task(1), Error(Code::unavailable, "left")});
  system.run();
  EXPECT_NO_THROW(mailbox->check());
  caf::anon_send(worker, PeerDown{shard_task(0), Error(Code::unavailable, "left")});
  system.run();
  EXPECT_EQ(testing::error_of([&] { mailbox->check(); }).code(), Code::unavailable);
  caf::anon_send(worker, Stop{});
  system.run();
}

// The coordinator of the task may hear of a job, and of the loss of a worker, before the shard.
TEST(ShardActors, AFenceThatComesBeforeTheJobHolds) {
  testing::SteppedSystem system;
  const auto store = std::make_shared<Sum>();
  ShardActorImpl::Config config{.self = kCoordinatorTask,
                                .options = {.workers = 1, .slots = 1},
                                .slices = {{0, "w", DType::f32, Shape{1}}},
                                .store = store,
                                .ended = [](Error, const ShardCounters&, const ShardState::Cut&, const BarrierOpen&) {},
                                .prepare = [](ShardOptions&) {}};
  const ShardActor shard =
      system.caf->spawn<ShardActorImpl>(system.registry.add(ActorKind::shard, "0"), std::move(config));
  const auto say = [&](auto message) {
    caf::anon_send(shard, std::move(message));
    system.run();
  };
  const auto push = [&](std::uint64_t view) {
    say(Inbound<Push>{worker_task(0), Push{.gradient = Tensor::vector<float>({1}), .view = view}});
    return store->sum;
  };
  say(Inbound<Fence>{kCoordinatorTask, Fence{.worker = 0, .view = 2}});
  JobRoutes routes;
  routes.shard = shard;
  routes.job = 1;
  say(routes);
  EXPECT_EQ(push(1), 0.0f);
  EXPECT_EQ(push(2), 1.0f);
  say(JobRoutes{});
  say(Stop{});
}

}  // namespace
}  // namespace troupe
