// Scheduler, rendezvous, device, node and peers together, one message at a time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <caf/send.hpp>

#include "tests/actors/steps/step_testing.hpp"
#include <troupe/actors/training/worker_actor.hpp>
#include <troupe/graph/builder/builder.hpp>

namespace troupe {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::kClient;
using testing::kOther;
using testing::kSession;
using ::testing::Not;
using testing::StepCluster;

const TaskName kThird{"worker", 2};
constexpr GraphId kGraph{0};
constexpr StepId kStep{1};

Tensor ids(std::int32_t value) { return Tensor::vector<std::int32_t>({value}); }

// Rows of a table, looked up on one device and again on another: an id out of range fails it.
struct LookUps {
  explicit LookUps(const std::string& first, const std::string& second) {
    x = placeholder(graph, DType::i32, {1}, "x");
    {
      auto scope = graph.on_device(first);
      a = gather(constant(graph, Tensor::vector<std::int32_t>({1, 2, 3})), x, {.name = "a"});
    }
    {
      auto scope = graph.on_device(second);
      b = gather(constant(graph, Tensor::vector<std::int32_t>({5, 6, 7, 8})), a, {.name = "b"});
      c = gather(constant(graph, Tensor::vector<std::int32_t>({5, 6})), x, {.name = "c"});
    }
  }
  Graph graph;
  Output x, a, b, c;
};

const Error& error_in(const StepCluster::Answer& answer) {
  static const Error none;
  EXPECT_EQ(answer->size(), 1u);
  return answer->empty() ? none : answer->front().error;
}

std::int32_t value_in(const StepCluster::Answer& answer) {
  EXPECT_EQ(error_in(answer).to_string(), Error().to_string());
  return answer->empty() || answer->front().fetches.empty() ? -1 : *answer->front().fetches[0].data<std::int32_t>();
}

TEST(StepActors, AStepRunsOverTwoPartitionsOfATask) {
  StepCluster cluster({kClient}, 2);
  const LookUps g("CPU:0", "CPU:1");
  cluster.register_call(kClient, kSession, kGraph, g.graph, {g.x}, {g.b});
  for (std::uint64_t step = 1; step < 4; ++step)
    EXPECT_EQ(value_in(cluster.run(kClient, kSession, kGraph, StepId{step}, {ids(1)})), 7) << "step " << step;
  EXPECT_TRUE(cluster.frames.empty());
}

TEST(StepActors, AStepRunsOverTwoTasks) {
  StepCluster cluster({kClient, kOther});
  const LookUps g("/job:worker/task:1", "/job:worker/task:0");
  cluster.register_call(kClient, kSession, kGraph, g.graph, {g.x}, {g.b});
  EXPECT_EQ(value_in(cluster.run(kClient, kSession, kGraph, kStep, {ids(2)})), 8);
  const auto done = cluster.sent<StepDone>(kOther, kClient);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].step, kStep);
  EXPECT_TRUE(done[0].error.ok());
  EXPECT_TRUE(cluster.sent<StepAbort>(kClient, kOther).empty());
}

TEST(StepActors, TheFirstErrorWins) {
  StepCluster cluster({kClient}, 3);
  Graph g;
  Output x = placeholder(g, DType::i32, {1}, "x");
  Outputs looked_up;
  for (const char* device : {"CPU:1", "CPU:2"}) {
    auto scope = g.on_device(device);
    looked_up.push_back(
        gather(constant(g, Tensor::vector<std::int32_t>({1})), x, {.name = fmt::format("on_{}", device[4])}));
  }
  cluster.register_call(kClient, kSession, kGraph, g, {x}, looked_up);
  for (std::size_t i : {1, 2}) cluster.device(kClient, i).hold = true;
  const auto answer = cluster.run(kClient, kSession, kGraph, kStep, {ids(9)});
  cluster.device(kClient, 2).work();
  cluster.system.run();
  EXPECT_TRUE(answer->empty()) << "a segment still runs";
  cluster.device(kClient, 1).work();
  cluster.system.run();
  EXPECT_EQ(error_in(answer).code(), Code::invalid_argument);
  EXPECT_THAT(error_in(answer).message(),
              AllOf(HasSubstr("'on_2' on /job:worker/task:0/device:CPU:2"), Not(HasSubstr("on_1"))));
}

TEST(StepActors, AnErrorOfAnotherTaskReachesTheClient) {
  StepCluster cluster({kClient, kOther});
  const LookUps g("/job:worker/task:1", "/job:worker/task:0");
  cluster.register_call(kClient, kSession, kGraph, g.graph, {g.x}, {g.b});
  const auto answer = cluster.run(kClient, kSession, kGraph, kStep, {ids(3)});
  EXPECT_THAT(error_in(answer).message(), HasSubstr("Gather 'a' on /job:worker/task:1/device:CPU:0"));
  EXPECT_EQ(value_in(cluster.run(kClient, kSession, kGraph, StepId{2}, {ids(0)})), 6);
}

TEST(StepActors, AnErrorOfTheClientsPartAbortsTheOthers) {
  StepCluster cluster({kClient, kOther});
  const LookUps g("/job:worker/task:1", "/job:worker/task:0");
  cluster.register_call(kClient, kSession, kGraph, g.graph, {g.x}, {g.b, g.c});
  cluster.device(kOther).hold = true;
  const auto answer = cluster.run(kClient, kSession, kGraph, kStep, {ids(2)});
  EXPECT_THAT(error_in(answer).message(), HasSubstr("'c'"));
  const auto aborts = cluster.sent<StepAbort>(kClient, kOther);
  ASSERT_EQ(aborts.size(), 1u);
  EXPECT_EQ(aborts[0].error.message(), error_in(answer).message());
}

TEST(StepActors, ACancelledStepIsAnsweredWhenNoneOfItsSegmentsRuns) {
  StepCluster cluster({kClient}, 2);
  const LookUps g("CPU:0", "CPU:1");
  cluster.register_call(kClient, kSession, kGraph, g.graph, {g.x}, {g.b});
  cluster.device(kClient, 0).hold = true;
  const auto answer = cluster.run(kClient, kSession, kGraph, kStep, {ids(1)});
  for (int twice = 0; twice < 2; ++twice) {
    caf::anon_send(cluster.task(kClient).scheduler, CancelStep{kSession, kStep});
    cluster.system.run();
  }
  EXPECT_TRUE(answer->empty());
  EXPECT_EQ(cluster.device(kClient, 0).work(), 1u);
  cluster.system.run();
  EXPECT_EQ(error_in(answer).code(), Code::cancelled);
  EXPECT_THAT(error_in(answer).message(), HasSubstr("step 1 was cancelled by its client"));
  cluster.device(kClient, 0).hold = false;
  EXPECT_EQ(value_in(cluster.run(kClient, kSession, kGraph, StepId{2}, {ids(1)})), 7);
}

TEST(StepActors, ALatePutForAnEndedStepIsDropped) {
  StepCluster cluster({kClient, kOther});
  const LookUps g("/job:worker/task:1", "/job:worker/task:0");
  cluster.register_call(kClient, kSession, kGraph, g.graph, {g.x}, {g.b});
  EXPECT_EQ(value_in(cluster.run(kClient, kSession, kGraph, kStep, {ids(1)})), 7);
  const auto puts = cluster.sent<Put>(kOther, kClient);
  ASSERT_EQ(puts.size(), 1u);
  const std::uint64_t sent = cluster.system.sent_by("rendezvous", kClient.to_string());
  const Tensor late = ids(2);
  // For the awaited edge of this step, and for an edge that never was.
  for (EdgeId edge : {puts[0].key.edge, EdgeId{77}}) {
    cluster.deliver(kOther, kClient, Put{{kSession, kStep, edge}, 0, late, {}});
    cluster.system.run();
  }
  EXPECT_EQ(cluster.system.sent_by("rendezvous", kClient.to_string()), sent);
  EXPECT_TRUE(late.unique()) << "the rendezvous keeps it";
}

TEST(StepActors, WhatCameForAStepThatCannotStartIsFreed) {
  StepCluster cluster({kClient, kOther});
  const LookUps g("/job:worker/task:1", "/job:worker/task:0");
  cluster.register_call(kClient, kSession, kGraph, g.graph, {g.x}, {g.b});
  const Tensor early = ids(1), late = ids(2);
  const auto put = [&](const Tensor& tensor, std::uint32_t edge) {
    cluster.deliver(kClient, kOther, Put{{kSession, kStep, EdgeId{edge}}, 0, tensor, {}});
    cluster.system.run();
  };
  put(early, 50);
  cluster.frames.clear();
  EXPECT_FALSE(early.unique());
  cluster.deliver(kClient, kOther, StepStart{kSession, GraphId{3}, kStep, {}});
  cluster.system.run();
  EXPECT_TRUE(early.unique());
  put(late, 51);
  EXPECT_TRUE(late.unique());
}

TEST(StepActors, ADeadlineNamesWhatWasBeingWaitedFor) {
  StepCluster cluster({kClient, kOther});
  const LookUps g("/job:worker/task:1", "/job:worker/task:0");
  cluster.register_call(kClient, kSession, kGraph, g.graph, {g.x}, {g.b});
  cluster.device(kOther).hold = true;
  const auto in_time =
      cluster.run(kClient, kSession, kGraph, StepId{2}, {ids(1)}, std::numeric_limits<std::int64_t>::max());
  const auto answer = cluster.run(kClient, kSession, kGraph, kStep, {ids(1)}, 1);  // the steady clock has passed it
  EXPECT_TRUE(answer->empty());
  ASSERT_TRUE(cluster.system.has_timeout());
  cluster.system.run_next_timeout();
  EXPECT_EQ(error_in(answer).code(), Code::deadline_exceeded);
  EXPECT_THAT(error_in(answer).message(),
              AllOf(HasSubstr("step 1 of session b did not end before its deadline"),
                    HasSubstr("from /job:worker/task:1/device:CPU:0 for /job:worker/task:0/device:CPU:0"),
                    HasSubstr("task /job:worker/task:1 to end its part")));
  EXPECT_EQ(cluster.sent<StepAbort>(kClient, kOther).size(), 1u);
  EXPECT_TRUE(in_time->empty());
  EXPECT_TRUE(cluster.system.has_timeout()) << "for the other step";
  cluster.device(kOther).work();
  cluster.system.run();
  EXPECT_EQ(value_in(in_time), 7);
  EXPECT_EQ(answer->size(), 1u);
  cluster.system.run_next_timeout();
  EXPECT_FALSE(cluster.system.has_timeout());
}

TEST(StepActors, ATaskThatIsGoneFailsTheStepsThatNeedItAndNoOthers) {
  StepCluster cluster({kClient, kOther, kThird});
  const LookUps g("/job:worker/task:1", "/job:worker/task:0"), h("/job:worker/task:2", "/job:worker/task:0");
  cluster.register_call(kClient, kSession, kGraph, g.graph, {g.x}, {g.b});
  cluster.register_call(kClient, kSession, GraphId{1}, h.graph, {h.x}, {h.b});
  cluster.device(kOther).hold = true;
  cluster.device(kThird).hold = true;
  const auto needs_it = cluster.run(kClient, kSession, kGraph, kStep, {ids(1)});
  const auto does_not = cluster.run(kClient, kSession, GraphId{1}, StepId{2}, {ids(1)});
  cluster.cut(kClient, kOther);
  EXPECT_EQ(error_in(needs_it).code(), Code::unavailable);
  EXPECT_THAT(error_in(needs_it).message(),
              AllOf(HasSubstr("/job:worker/task:1, which is down"), HasSubstr("the link was cut")));
  EXPECT_TRUE(does_not->empty());
  cluster.device(kThird).work();
  cluster.system.run();
  EXPECT_EQ(value_in(does_not), 7);
  const auto later = cluster.run(kClient, kSession, kGraph, StepId{3}, {ids(1)});
  EXPECT_EQ(error_in(later).code(), Code::unavailable);
  EXPECT_THAT(error_in(later).message(), HasSubstr("/job:worker/task:1"));
}

TEST(StepActors, AStepOfAnUnknownSessionFails) {
  StepCluster cluster({kClient, kOther});
  EXPECT_EQ(error_in(cluster.run(kClient, kSession, kGraph, kStep, {})).code(), Code::failed_precondition);
  cluster.deliver(kClient, kOther, StepStart{kSession, GraphId{3}, kStep, {}});
  cluster.system.run();
  const auto done = cluster.sent<StepDone>(kOther, kClient);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].error.code(), Code::failed_precondition);
  EXPECT_THAT(done[0].error.message(), AllOf(HasSubstr("/job:worker/task:1"), HasSubstr("graph 3")));
}

TEST(StepActors, OnlyTheClientOfAGraphStartsItsSteps) {
  StepCluster cluster({kClient, kOther, kThird});
  const LookUps g("/job:worker/task:1", "/job:worker/task:0");
  cluster.register_call(kClient, kSession, kGraph, g.graph, {g.x}, {g.b});
  cluster.deliver(kThird, kOther, StepStart{kSession, kGraph, kStep, {}});
  cluster.system.run();
  const auto done = cluster.sent<StepDone>(kOther, kThird);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].error.code(), Code::permission_denied);
  EXPECT_THAT(done[0].error.message(), HasSubstr("/job:worker/task:2 may not start a step of /job:worker/task:0"));
  EXPECT_EQ(value_in(cluster.run(kClient, kSession, kGraph, kStep, {ids(2)})), 8);
}

TEST(StepActors, WhoHasNoPartInAStepCannotEndIt) {
  StepCluster cluster({kClient, kOther, kThird});
  const LookUps g("/job:worker/task:1", "/job:worker/task:0");
  cluster.register_call(kClient, kSession, kGraph, g.graph, {g.x}, {g.b});
  cluster.device(kOther).hold = true;
  const auto answer = cluster.run(kClient, kSession, kGraph, kStep, {ids(2)});
  const Error no(Code::aborted, "no");
  for (const TaskName& task : {kClient, kOther}) {
    cluster.deliver(kThird, task, StepAbort{kSession, kStep, no});
    cluster.deliver(kThird, task, StepDone{kSession, kStep, no});
  }
  cluster.system.run();
  EXPECT_TRUE(answer->empty());
  cluster.device(kOther).hold = false;
  cluster.device(kOther).work();
  cluster.system.run();
  EXPECT_EQ(value_in(answer), 8);
}

TEST(StepActors, ASecondStepOfTheSameNumberIsRefused) {
  StepCluster cluster({kClient});
  const LookUps g("CPU:0", "CPU:0");
  cluster.register_call(kClient, kSession, kGraph, g.graph, {g.x}, {g.b});
  cluster.device(kClient).hold = true;
  const auto first = cluster.run(kClient, kSession, kGraph, kStep, {ids(1)});
  EXPECT_EQ(error_in(cluster.run(kClient, kSession, kGraph, kStep, {ids(1)})).code(), Code::already_exists);
  cluster.device(kClient).work();
  cluster.system.run();
  EXPECT_EQ(value_in(first), 7);
}

TEST(StepActors, ClosingASessionCancelsItsStepsAndFreesItsPartitions) {
  StepCluster cluster({kClient}, 2);
  const LookUps g("CPU:0", "CPU:1");
  cluster.register_call(kClient, kSession, kGraph, g.graph, {g.x}, {g.b});
  EXPECT_THAT(cluster.system.alive(), ::testing::Contains(HasSubstr("partition")));
  cluster.device(kClient, 0).hold = true;
  const auto answer = cluster.run(kClient, kSession, kGraph, kStep, {ids(1)});
  EXPECT_FALSE(cluster.close(kClient, kSession).error());
  cluster.device(kClient, 0).work();
  cluster.system.run();
  EXPECT_EQ(error_in(answer).code(), Code::cancelled);
  EXPECT_THAT(cluster.system.alive(), Not(::testing::Contains(HasSubstr("partition"))));
  EXPECT_EQ(error_in(cluster.run(kClient, kSession, kGraph, StepId{2}, {ids(1)})).code(), Code::failed_precondition);
  EXPECT_FALSE(cluster.close(kClient, kSession).error()) << "twice does no harm";
}

TEST(StepActors, ALostClientsSessionsAreFreed) {
  StepCluster cluster({kClient, kOther});
  const LookUps g("/job:worker/task:1", "/job:worker/task:0");
  cluster.register_call(kClient, kSession, kGraph, g.graph, {g.x}, {g.b});
  cluster.register_call(kOther, SessionId{12}, kGraph, g.graph, {g.x}, {g.b});
  const std::string of_other = "partition /job:worker/task:1/device:CPU:0";
  EXPECT_EQ(std::ranges::count(cluster.system.alive(), of_other), 2);
  cluster.cut(kClient, kOther);
  EXPECT_EQ(std::ranges::count(cluster.system.alive(), of_other), 1) << "its own session's";
}

TEST(StepActors, StopAnswersStepsThatRunAndStepsThatCome) {
  StepCluster cluster({kClient});
  const LookUps g("CPU:0", "CPU:0");
  cluster.register_call(kClient, kSession, kGraph, g.graph, {g.x}, {g.b});
  cluster.device(kClient).hold = true;
  const auto running = cluster.run(kClient, kSession, kGraph, kStep, {ids(1)});
  caf::anon_send(cluster.task(kClient).scheduler, Stop{});
  const auto behind = cluster.send_step(kClient, kSession, kGraph, StepId{2}, {ids(1)});
  cluster.system.run();
  const auto after = cluster.run(kClient, kSession, kGraph, StepId{3}, {ids(1)});
  for (const auto& [which, answer] : {std::pair("running", running), {"behind", behind}, {"after", after}})
    EXPECT_EQ(error_in(answer).code(), Code::cancelled) << which;
  cluster.device(kClient).work();  // into the void
  EXPECT_EQ(running->size(), 1u);
}

TEST(StepActors, AnObserverThatHasEndedIsForgotten) {
  StepCluster cluster({kClient});
  auto mailbox = std::make_shared<WorkerMailbox>();
  const std::weak_ptr<WorkerMailbox> alive = mailbox;
  {
    const WorkerActor observer = cluster.system.caf->spawn<WorkerActorImpl>(
        cluster.system.registry.add(ActorKind::worker, "0"), std::move(mailbox));
    caf::anon_send(cluster.task(kClient).node, Observe{caf::actor_cast<PeerObserver>(observer)});
    cluster.system.run();
    EXPECT_FALSE(alive.expired());
    caf::anon_send(observer, Stop{});
  }
  cluster.system.run();
  EXPECT_TRUE(alive.expired());
}

}  // namespace
}  // namespace troupe
