// Why a cluster waits: the right culprit each time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <caf/send.hpp>
#include <functional>
#include <future>
#include <latch>
#include <thread>

#include "tests/actors/steps/step_testing.hpp"
#include "tests/actors/task_cluster.hpp"
#include "tests/error_of.hpp"
#include "tests/patience.hpp"
#include <troupe/actors/base/explainer.hpp>
#include <troupe/actors/base/inspected.hpp>
#include <troupe/actors/introspection/introspection.hpp>
#include <troupe/actors/steps/step.hpp>
#include <troupe/actors/training/shard_actor.hpp>
#include <troupe/messages/nanoseconds.hpp>
#include <troupe/scheduler/waits/wait_things.hpp>
#include <troupe/troupe.hpp>

namespace troupe {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::kClient;
using testing::kOther;
using testing::kSession;
using ::testing::Not;
using testing::StepCluster;
using Kind = RootCause::Kind;

const std::string kPs0 = "/job:ps/task:0", kW0 = "/job:worker/task:0", kW1 = "/job:worker/task:1";

// ---- From what is seen of a cluster --------------------------------------------------------------------------------

struct Seen {
  TaskSnapshot& task(const std::string& name) {
    for (TaskReport& report : cluster.tasks)
      if (report.task == name) return *report.snapshot;
    TaskReport& report =
        cluster.tasks.emplace_back(TaskReport{.task = name, .answered = true, .snapshot = TaskSnapshot()});
    report.snapshot->task = name;
    return *report.snapshot;
  }
  void silent(const std::string& name, std::string error = "no answer within 0.9 s") {
    cluster.tasks.push_back({.task = name, .error = std::move(error)});
  }
  // A segment on `task` waits for a thing of another.
  void waits(const std::string& on, const std::string& thing, const std::string& of, std::int64_t for_ns = kSecond) {
    TaskSnapshot& snapshot = task(on);
    const std::string segment = wait_thing::segment(SessionId{1}, StepId{7}, on + "/device:CPU:0", 0);
    snapshot.waiting.things.push_back({.id = segment, .text = "MatMul 'm' of step 7 on " + on, .task = on});
    snapshot.waiting.things.push_back({.id = thing, .text = "the thing", .task = of});
    snapshot.waiting.waits.push_back(
        {.waiter = segment, .awaited = thing, .kind = "tensor", .text = {}, .for_ns = for_ns});
  }
  RootCause first() const {
    const WaitAnalysis found = analyse(cluster);
    EXPECT_FALSE(found.causes.empty()) << found.text;
    return found.causes.empty() ? RootCause() : found.causes[0];
  }
  ClusterSnapshot cluster;
};

TEST(Why, ATaskThatDoesNotAnswer) {
  Seen seen;
  seen.waits(kW0, wait_thing::version(9, 0, 4), kPs0);
  seen.silent(kPs0);
  const RootCause cause = seen.first();
  EXPECT_EQ(cause.kind, Kind::silent);
  EXPECT_EQ(cause.text,
            "/job:ps/task:0 does not answer (no answer within 0.9 s: it is stopped, too busy or unreachable)");
  EXPECT_EQ(cause.waiters, 2u);
}

// As its peers are told in heartbeats.
TEST(Why, ATaskThatDoesNotAnswerButGetsOnIsBusyAndElseItIsStuck) {
  Seen seen;
  seen.waits(kW0, wait_thing::version(9, 0, 4), kPs0);
  seen.task(kW0).links.push_back({.peer = kPs0, .up = true, .progress_ns = kSecond / 5});
  seen.silent(kPs0);
  EXPECT_EQ(seen.first().text,
            "/job:ps/task:0 does not answer (no answer within 0.9 s: it is busy, according to its "
            "heartbeats)");
  seen.task(kW0).links[0].progress_ns = 12 * kSecond;
  EXPECT_EQ(seen.first().text,
            "/job:ps/task:0 does not answer (no answer within 0.9 s: it is stuck: its heartbeats arrive, but show no "
            "progress for 12.0 s)");
  seen.task(kW0).links[0].heard_ns = 12 * kSecond;  // nothing arrives, though nobody suspects it yet
  EXPECT_EQ(seen.first().text,
            "/job:ps/task:0 does not answer (no answer within 0.9 s: it is stopped, too busy or unreachable)");
}

// A worker that computes: others wait for it for longer than it has got on with nothing.
TEST(Why, ABusyWorkerIsToldFromAStuckOne) {
  Seen seen;
  seen.waits(kW0, wait_thing::worker(9, kW1), kW1, 40 * kSecond);
  seen.task(kPs0).job = JobSnapshot{.job = 9};
  seen.task(kW1).training = TrainingSnapshot{.mode = "sync", .doing = "computes step 7, slot 1"};
  seen.task(kW0).links.push_back({.peer = kW1, .up = true, .progress_ns = 30 * kSecond});
  seen.task(kPs0).links.push_back({.peer = kW1, .up = true, .progress_ns = kSecond});  // has heard more
  EXPECT_EQ(seen.first().kind, Kind::working);
  EXPECT_EQ(seen.first().text, "/job:worker/task:1, which computes step 7, slot 1");
  seen.task(kPs0).links[0].progress_ns = 30 * kSecond;
  EXPECT_EQ(seen.first().kind, Kind::stuck);
  EXPECT_EQ(
      seen.first().text,
      "/job:worker/task:1, which computes step 7, slot 1; /job:worker/task:1 is stuck: its heartbeats arrive, but "
      "show no progress for 30.0 s");
  for (const std::string& task : {kW0, kPs0}) seen.task(task).links[0].progress_ns = 0;  // it counts nothing
  EXPECT_EQ(seen.first().kind, Kind::working);
}

// Nobody has waited for long.
TEST(Why, AnIdleWorkerThatIsGivenWorkIsNotStuck) {
  Seen seen;
  seen.waits(kW0, wait_thing::worker(9, kW1), kW1, kSecond);
  seen.task(kPs0).job = JobSnapshot{.job = 9};
  seen.task(kW1).training = TrainingSnapshot{.mode = "sync", .doing = "computes step 7, slot 1"};
  seen.task(kW0).links.push_back({.peer = kW1, .up = true, .progress_ns = 600 * kSecond});
  EXPECT_EQ(seen.first().kind, Kind::working);
}

TEST(Why, AShardThatIsLongAtAMessageWithOthersBehindIt) {
  Seen seen;
  seen.waits(kW0, wait_thing::version(9, 0, 4), kPs0);
  seen.task(kPs0).actors.push_back(
      {.kind = "shard", .name = kPs0, .state = "busy", .mailbox = 41, .current = "Push", .current_ns = 12 * kSecond});
  const RootCause cause = seen.first();
  EXPECT_EQ(cause.kind, Kind::stuck);
  EXPECT_EQ(cause.text, "the shard of /job:ps/task:0, handling one Push, with 40 messages queued");
  EXPECT_EQ(cause.for_ns, 12 * kSecond);
}

TEST(Why, ALinkWhoseOtherEndTakesNothing) {
  Seen seen;
  TaskSnapshot& task = seen.task(kW0);
  task.links.push_back({.peer = kPs0, .up = true, .stalled = true, .queued_bytes = 5000, .window = 64});
  task.waiting.waits.push_back(
      {.waiter = "slot/9/7/1", .awaited = wait_thing::link(kW0, kPs0), .kind = "credit", .text = {}});
  EXPECT_THAT(seen.first().text, HasSubstr("/job:ps/task:0 to read its received data"));
  seen.task(kPs0).actors.push_back(
      {.kind = "shard", .name = kPs0, .mailbox = 3, .current = "Push", .current_ns = kSecond});
  EXPECT_THAT(analyse(seen.cluster).text,
              HasSubstr("     waits for the connection from /job:worker/task:0 to /job:ps/task:0, with 5000 bytes "
                        "waiting for credit\n"
                        "     waits for the shard of /job:ps/task:0, handling one Push, with 2 messages queued: "
                        "the credit of 64 bytes from /job:ps/task:0 is used up\n"));
}

// It has left the link.
// Of a worker whose batch has not come.
TEST(Why, DataIsWaitedForBecauseOfTheSlowestStage) {
  Seen seen;
  TaskSnapshot& worker = seen.task(kW0);
  worker.training = {.mode = "sync", .doing = "waits for the batch of slot 1 of step 7", .doing_ns = kSecond};
  seen.task("/job:input/task:1")
      .pipelines.push_back({.data = "training",
                            .stages = {{.name = "records", .elements = 900, .busy = 0.04},
                                       {.name = "map decode", .elements = 890, .busy = 0.93}}});
  EXPECT_THAT(analyse(seen.cluster).text,
              AllOf(HasSubstr("/job:worker/task:0, which waits for the batch of slot 1 of step 7"),
                    HasSubstr("stage 'map decode' of /job:input/task:1, the slowest of its pipeline, 93 % busy")));
}

TEST(Why, DataIsWaitedForOfInputTasksThatDoNotAnswerOrHaveNotBegun) {
  Seen seen;
  TaskSnapshot& worker = seen.task(kW0);
  worker.training = {.mode = "allreduce", .doing = "waits for the batch of slot 0 of step 7", .doing_ns = kSecond};
  EXPECT_THAT(analyse(seen.cluster).text, HasSubstr("the data of /job:worker/task:0, which no input task makes"));
  seen.task("/job:input/task:0");
  seen.silent("/job:input/task:1");
  EXPECT_THAT(analyse(seen.cluster).text, AllOf(HasSubstr("/job:input/task:0, which has not begun the training"),
                                                HasSubstr("/job:input/task:1 does not answer")));
}

TEST(Why, AGradientInTheMailboxOfABusyShard) {
  Seen seen;
  TaskSnapshot& task = seen.task(kW0);
  task.links.push_back({.peer = kPs0, .up = true});
  task.waiting.waits.push_back(
      {.waiter = "slot/9/7/1", .awaited = wait_thing::link(kW0, kPs0), .kind = "credit", .text = {}});
  seen.task(kPs0).actors.push_back(
      {.kind = "shard", .name = kPs0, .mailbox = 3, .current = "Push", .current_ns = kSecond});
  const WaitAnalysis found = analyse(seen.cluster);
  ASSERT_EQ(found.causes.size(), 1u) << found.text;
  EXPECT_EQ(found.causes[0].text, "the shard of /job:ps/task:0, handling one Push, with 2 messages queued");
}

TEST(Why, ALinkToATaskThatDoesNotAnswer) {
  Seen seen;
  TaskSnapshot& task = seen.task(kW0);
  task.links.push_back({.peer = kPs0, .up = true, .queued_bytes = 5000});
  task.waiting.waits.push_back(
      {.waiter = "slot/9/7/1", .awaited = wait_thing::link(kW0, kPs0), .kind = "credit", .text = {}});
  seen.silent(kPs0);
  const WaitAnalysis found = analyse(seen.cluster);
  ASSERT_EQ(found.causes.size(), 1u) << found.text;
  EXPECT_EQ(found.causes[0].kind, Kind::silent);
  EXPECT_THAT(found.text, HasSubstr("waits for the connection from /job:worker/task:0 to /job:ps/task:0, with 5000 "
                                    "bytes queued for the network\n"));
}

// A worker that was lost: the others have gone on without it, and no link to it is anybody's trouble.
TEST(Why, LinksToATaskThatHasEndedAreNoCausesOfTheirOwn) {
  Seen seen;
  for (const std::string& task : {kPs0, kW0}) seen.task(task).links.push_back({.peer = kW1, .up = false});
  seen.waits(kW0, wait_thing::device(kW0 + "/device:CPU:0"), kW0);
  seen.task(kW0).devices.push_back({.name = kW0 + "/device:CPU:0", .running = "MatMul 'm'"});
  seen.silent(kW1, "nobody listens at 127.0.0.1:7");
  const WaitAnalysis found = analyse(seen.cluster);
  EXPECT_EQ(found.brief,
            "Nothing is stuck, but not all is well; 1 thing waits.\n"
            "1. SILENT /job:worker/task:1 does not answer (nobody listens at 127.0.0.1:7: it has ended)\n"
            "   Nothing known waits for it.\n"
            "2. WORKING /job:worker/task:0/device:CPU:0 runs MatMul 'm', for 1.0 s; 1 waits for it\n");
  // One that is waited for leads to it.
  seen.task(kPs0).waiting.waits.push_back(
      {.waiter = "slot/9/7/1", .awaited = wait_thing::link(kPs0, kW1), .kind = "credit", .text = {}});
  EXPECT_THAT(analyse(seen.cluster).text,
              HasSubstr("1. SILENT /job:worker/task:1 does not answer (nobody listens at 127.0.0.1:7: it has ended)\n"
                        "   slot 1 of step 7\n"
                        "     waits for the connection from /job:ps/task:0 to /job:worker/task:1, which is down\n"));
}

TEST(Why, ATaskThatHasFailed) {
  Seen seen;
  seen.waits(kW0, wait_thing::join(9, kW1), kW1);
  seen.task(kW1).failure = "scheduler: broken";
  EXPECT_EQ(seen.first().kind, Kind::never);
  EXPECT_EQ(seen.first().text, "the thing: /job:worker/task:1 has failed: scheduler: broken");
}

TEST(Why, APeerThatIsCutOff) {
  Seen seen;
  seen.waits(kW1, wait_thing::tensor(SessionId{1}, StepId{7}, EdgeId{3}), kW0);
  TaskSnapshot& task = seen.task(kW0);
  task.waiting.things.push_back(
      {.id = wait_thing::part(SessionId{1}, StepId{7}, kW0), .text = "the part of step 7", .task = kW0});
  task.links.push_back({.peer = kW1, .up = true, .suspect = true, .heard_ns = 3 * kSecond});
  EXPECT_THAT(seen.first().text, HasSubstr("/job:worker/task:1, which is silent"));
  task.links[0] = {.peer = kW1, .up = false};
  EXPECT_THAT(seen.first().text,
              HasSubstr("the connection from /job:worker/task:0 to /job:worker/task:1, which is down"));
}

TEST(Why, ATensorThatNobodySends) {
  Seen seen;
  const std::string tensor = wait_thing::tensor(SessionId{1}, StepId{7}, EdgeId{3});
  seen.waits(kW1, tensor, kW0, kSecond);
  seen.task(kW0);
  EXPECT_EQ(seen.first().kind, Kind::working);  // it may be on its way
  Seen late;
  late.waits(kW1, tensor, kW0, 60 * kSecond);
  late.task(kW0);
  EXPECT_EQ(late.first().kind, Kind::never);
  EXPECT_THAT(late.first().text, HasSubstr("the step is over on /job:worker/task:0, so the tensor will never arrive"));
}

TEST(Why, APartOfAStepThatItsTaskKnowsNothingOf) {
  Seen seen;
  seen.waits(kW0, wait_thing::part(SessionId{1}, StepId{7}, kW1), kW1, 60 * kSecond);
  seen.task(kW1);
  EXPECT_EQ(seen.first().kind, Kind::never);
}

TEST(Why, ARankThatHasEndedItsTraining) {
  Seen seen;
  seen.waits(kW0, wait_thing::collective(1, 0, 4, kW1), kW1);
  seen.task(kW1).training = TrainingSnapshot{.mode = "allreduce"};
  EXPECT_EQ(seen.first().kind, Kind::never);
  EXPECT_THAT(seen.first().text, HasSubstr("/job:worker/task:1 has ended its training and joins no more collectives"));
  seen.task(kW1).training->doing = "computes step 6, slot 1";
  EXPECT_EQ(seen.first().kind, Kind::working);
  seen.task(kW1).training.reset();
  EXPECT_EQ(seen.first().kind, Kind::stuck);
}

TEST(Why, AWorkerThatRunsAndDoesNotTrain) {
  Seen seen;
  seen.waits(kPs0, wait_thing::join(9, kW1), kW1);
  seen.task(kW1);
  EXPECT_EQ(seen.first().kind, Kind::stuck);
  EXPECT_THAT(seen.first().text, HasSubstr("it runs, but its program is not training"));
}

TEST(Why, AWorkerThatWaitsForATokenOfASilentCoordinator) {
  Seen seen;
  seen.task(kW0).training = TrainingSnapshot{.mode = "sync", .doing = "waits for a token", .doing_ns = 3 * kSecond};
  seen.silent(kPs0);
  EXPECT_THAT(analyse(seen.cluster).text,
              AllOf(HasSubstr("1. SILENT /job:ps/task:0 does not answer"),
                    HasSubstr("   /job:worker/task:0, which waits for a token, for 3.0 s\n")));
}

// Two workers whose tokens are on their way to them do not wait for each other.
TEST(Why, TokensOnTheirWayAreNoDeadlock) {
  Seen seen;
  TaskSnapshot& ps = seen.task(kPs0);
  ps.job = JobSnapshot{.job = 9,
                       .members = {{.task = kW0, .state = "joined", .tokens = {"step 7 slot 0"}},
                                   {.task = kW1, .state = "joined", .tokens = {}}}};
  ps.waiting.things.push_back({.id = wait_thing::token(9, kW1), .text = "a token for worker 1"});
  ps.waiting.waits = {
      {.waiter = wait_thing::slot(9, 7, 0), .awaited = wait_thing::worker(9, kW0), .kind = "token", .text = {}},
      {.waiter = wait_thing::token(9, kW1), .awaited = wait_thing::slot(9, 7, 0), .kind = "token", .text = {}}};
  for (const std::string& worker : {kW0, kW1})
    seen.task(worker).training = TrainingSnapshot{.mode = "sync", .doing = "waits for a token"};
  const WaitAnalysis found = analyse(seen.cluster);
  ASSERT_EQ(found.causes.size(), 1u) << found.text;
  EXPECT_EQ(found.causes[0].kind, Kind::working);
  EXPECT_EQ(found.causes[0].text, "/job:worker/task:0, whose token is in flight");
}

TEST(Why, ASlotThatIsComputedWaitsForItsStepAndNotForItsWorkerToo) {
  Seen seen;
  seen.task(kPs0).waiting.waits = {
      {.waiter = "slot/9/7/0", .awaited = wait_thing::worker(9, kW0), .kind = "token", .text = {}}};
  TaskSnapshot& worker = seen.task(kW0);
  worker.training = TrainingSnapshot{.mode = "sync", .doing = "computes step 7, slot 0"};
  worker.waiting.waits = {
      {.waiter = "slot/9/7/0", .awaited = "step/1/3", .kind = "reply", .text = {}},
      {.waiter = "step/1/3", .awaited = wait_thing::device(kW0 + "/device:CPU:0"), .kind = "segment", .text = {}}};
  worker.devices.push_back({.name = kW0 + "/device:CPU:0", .running = "MatMul 'm'"});
  const WaitAnalysis found = analyse(seen.cluster);
  ASSERT_EQ(found.causes.size(), 1u) << found.text;
  EXPECT_EQ(found.causes[0].text, "/job:worker/task:0/device:CPU:0 runs MatMul 'm'");
}

TEST(Why, ADeviceThatIsLostIsTheCause) {
  Seen seen;
  TaskSnapshot& worker = seen.task(kW0);
  worker.waiting.waits = {
      {.waiter = "step/1/3", .awaited = wait_thing::device(kW0 + "/device:GPU:0"), .kind = "segment", .text = {}}};
  worker.devices.push_back({.name = kW0 + "/device:GPU:0",
                            .running = "MatMul 'm'",
                            .failure = "/job:worker/task:0/device:GPU:0 is lost: an illegal access"});
  const WaitAnalysis found = analyse(seen.cluster);
  ASSERT_EQ(found.causes.size(), 1u) << found.text;
  EXPECT_NE(found.causes[0].kind, Kind::working);
  EXPECT_EQ(found.causes[0].text, "/job:worker/task:0/device:GPU:0 is lost: an illegal access");
}

TEST(Why, StepsAreCalledByTheNumberThatPeopleCountThemBy) {
  const StepKey key{SessionId{0x3f2a}, StepId{812}};
  const TaskName task{"worker", 0};
  EXPECT_EQ(text_of({}, key, task), "step 812 of session 3f2a");
  EXPECT_EQ(text_of({.step = 7, .slot = 1, .job = 9, .number = 7}, key, task), "slot 1 of step 7");
  EXPECT_EQ(text_of({.step = 3, .group = 9, .number = 7}, key, task), "step 7 of the training on /job:worker/task:0");
}

// ---- From actors ---------------------------------------------------------------------------------------------------

ClusterSnapshot look_at(StepCluster& cluster) {
  ClusterSnapshot out;
  for (const auto& [name, task] : cluster.tasks) {
    TaskSnapshot snapshot;
    snapshot.task = name.to_string();
    for (const auto& record : cluster.system.registry.actors()) {
      ActorDetails details;
      if (record->name != snapshot.task || !record->look(details, 1s)) continue;
      snapshot.waiting.append(std::move(details.waiting));
    }
    out.tasks.push_back({.task = snapshot.task, .answered = true, .snapshot = std::move(snapshot)});
  }
  return out;
}

// c = -(-(-x)), the middle on the other task; `crossed`: what the other task needs is made from what it sends.
void register_there_and_back(StepCluster& cluster, bool crossed) {
  Graph graph;
  const Output x = placeholder(graph, DType::f32, {1}, "x");
  Output a, b, c;
  {
    const auto scope = graph.on_device("/job:worker/task:0/device:CPU:0");
    a = neg(x, "a");
  }
  {
    const auto scope = graph.on_device("/job:worker/task:1/device:CPU:0");
    b = neg(a, "b");
  }
  {
    const auto scope = graph.on_device("/job:worker/task:0/device:CPU:0");
    c = neg(b, "c");
  }
  cluster.register_call(kClient, kSession, GraphId{0}, graph, {x}, {c},
                        [&](const TaskName& task, proto::RegisterGraph& body) {
                          if (!crossed || task != kClient) return;
                          auto& nodes = *body.mutable_partition(0)->mutable_graph()->mutable_node();
                          for (int i = 0; i < nodes.size(); ++i)
                            if (nodes[i].op() == "Send") {
                              nodes[i].set_input(0, "c");
                              for (; i + 1 < nodes.size(); ++i) nodes.SwapElements(i, i + 1);
                            }
                        });
}

TEST(WhyActors, CrossedWaitsOfTwoTasksAreADeadlock) {
  StepCluster cluster({kClient, kOther});
  register_there_and_back(cluster, true);
  const auto answer = cluster.run(kClient, kSession, GraphId{0}, StepId{1}, {Tensor::vector<float>({1})});
  EXPECT_TRUE(answer->empty());
  const WaitAnalysis found = analyse(look_at(cluster));
  ASSERT_FALSE(found.causes.empty());
  EXPECT_EQ(found.causes[0].kind, Kind::deadlock) << found.text;
  EXPECT_EQ(found.causes[0].things.size(), 4u) << found.text;  // two segments, two tensors
  EXPECT_THAT(found.causes[0].text, AllOf(HasSubstr("from /job:worker/task:0/device:CPU:0"),
                                          HasSubstr("from /job:worker/task:1/device:CPU:0")));
  EXPECT_THAT(found.text, HasSubstr("   step 1 of session b on /job:worker/task:0"));
}

TEST(WhyActors, AStepWaitsForADeviceOfAnotherTask) {
  StepCluster cluster({kClient, kOther});
  register_there_and_back(cluster, false);
  cluster.device(kOther).hold = true;
  const auto answer = cluster.run(kClient, kSession, GraphId{0}, StepId{1}, {Tensor::vector<float>({1})});
  ClusterSnapshot seen = look_at(cluster);
  for (TaskReport& report : seen.tasks)
    report.snapshot->devices.push_back({.name = report.task + "/device:CPU:0", .queue = 1});
  const WaitAnalysis found = analyse(seen);
  ASSERT_EQ(found.causes.size(), 1u) << found.text;
  EXPECT_EQ(found.causes[0].kind, Kind::working);
  EXPECT_EQ(found.causes[0].things[0], "device//job:worker/task:1/device:CPU:0");
  cluster.device(kOther).work();
  cluster.system.run();
  EXPECT_EQ(answer->size(), 1u);
  EXPECT_EQ(analyse(look_at(cluster)).text, "Nothing waits.\n");
}

// A store in which an update takes as long as the test wants.
class HeldStore final : public ShardStore {
 public:
  Tensor value(std::uint32_t) override { return Tensor::vector<float>({0}); }
  void keep_as_final(std::uint32_t) override {}
  Tensor final_value(std::uint32_t slice) override { return value(slice); }
  void apply(std::uint32_t, const Update&) override {
    if (!entered.exchange(true)) begun.count_down();
    go_on.wait();
  }
  std::atomic<bool> entered{false};
  std::latch begun{1}, go_on{1};
};

TEST(WhyActors, AShardThatIsStuckWithAFullMailbox) {
  Task task(TaskOptions{.name = {"ps", 0}, .threads = 1});
  const auto store = std::make_shared<HeldStore>();
  ShardActorImpl::Config config{{"ps", 0},
                                {.workers = 1, .slots = 1},
                                {{0, "w", DType::f32, Shape{1}}},
                                store,
                                [](Error, const ShardCounters&, const ShardState::Cut&, const BarrierOpen&) {}};
  const auto record = task.actors().add(ActorKind::shard, kPs0);
  const ShardActor shard = task.system().spawn<ShardActorImpl, caf::detached>(record, std::move(config));
  for (std::uint64_t step = 0; step < 10; ++step)
    caf::anon_send(shard,
                   Inbound<Push>{{"worker", 0}, Push{0, step, 0, 0, 0, step, Tensor::vector<float>({1}), {}}, {}});
  store->begun.wait();
  while (steady_now_ns() - record->current_since_ns.load() < kSecond / 4 || record->messages_in.load() < 10)
    std::this_thread::yield();
  ClusterSnapshot seen = task.introspection().view().snapshot();
  Seen waiter;
  waiter.waits(kW0, wait_thing::version(9, 0, 4), kPs0);
  seen.tasks.push_back(waiter.cluster.tasks[0]);
  const WaitAnalysis found = analyse(seen);
  ASSERT_FALSE(found.causes.empty());
  EXPECT_EQ(found.causes[0].text, "the shard of /job:ps/task:0, handling one Push, with 9 messages queued")
      << found.text;
  store->go_on.count_down();
  caf::anon_send(shard, Stop{});
  EXPECT_TRUE(task.shutdown());
}

// ---- For errors ----------------------------------------------------------------------------------------------------

TEST(Explainer, AsksOnceAndHasTheAnswerLater) {
  std::promise<void> go_on;
  std::atomic<int> asked{0};
  Explainer explainer([&] {
    ++asked;
    go_on.get_future().wait();
    return std::string("because");
  });
  EXPECT_FALSE(explainer());
  EXPECT_FALSE(explainer());
  EXPECT_TRUE(explainer.pending());
  go_on.set_value();
  std::optional<std::string> text;
  while (!(text = explainer())) std::this_thread::yield();
  EXPECT_EQ(*text, "\nbecause");
  EXPECT_EQ(*explainer(), "\nbecause");  // for all who ask then
  EXPECT_FALSE(explainer.pending());
  EXPECT_EQ(asked.load(), 1);
}

TEST(Explainer, DoesNotWaitForAnAnswerForEver) {
  std::promise<void> go_on;
  Explainer explainer([&] {
    go_on.get_future().wait();
    return std::string("late");
  });
  std::optional<std::string> text;
  while (!(text = explainer())) std::this_thread::yield();
  EXPECT_EQ(*text, "");
  go_on.set_value();
  explainer.stop();
  EXPECT_EQ(*Explainer(nullptr)(), "");
}

// An op whose kernel takes as long as the test wants, and two tasks.
class Gated : public ::testing::Test {
 protected:
  Gated() {
    on_build = [](int) {};
    auto own = std::make_shared<OpRegistry>(standard_ops());
    own->add(Op("Gate").input("x", DType::f32).output("y", DType::f32).shape([](ShapeContext& c) {
      c.set_output(0, c.input(0));
    }));
    ops = own;
    std::vector<TaskOptions> options;
    for (int i : {0, 1})
      options.push_back(
          {.name = {"worker", i}, .ops = ops, .register_kernels = [this, i](KernelRegistry& k) {
             k.add({.op = "Gate", .device_type = "CPU", .dtypes = {}, .make = [this, i](const KernelInit&) -> Kernel {
                      on_build(i);
                      return [this](KernelContext& c) {
                        if (!inside.try_wait()) inside.count_down();
                        gate.wait();
                        c.set_output(0, c.input(0));
                      };
                    }});
           }});
    tasks.start(std::move(options));
  }
  ~Gated() override {
    for (std::latch* latch : {&gate, &building})
      if (!latch->try_wait()) latch->count_down();
  }

  // What a task says when it says `text`; its last answer after a minute.
  std::string why_with(std::size_t task, const std::string& text) {
    return why_until(task, [&](const WaitAnalysis& said) { return said.text.find(text) != std::string::npos; }).text;
  }
  WaitAnalysis why_until(std::size_t task, const std::function<bool(const WaitAnalysis&)>& holds) {
    WaitAnalysis said;
    testing::eventually([&] { return holds(said = tasks[task].introspection().view().why()); });
    return said;
  }

  std::shared_ptr<const OpRegistry> ops;
  std::function<void(int task)> on_build;  // of the plan with the op
  std::latch inside{1}, gate{1}, building{1};
  testing::TaskCluster tasks;  // ends first
};

TEST_F(Gated, TheErrorOfADeadlineSaysWhyTheClusterWaited) {
  Graph graph(*ops);
  const Output x = placeholder(graph, DType::f32, Shape{}, "x");
  Output y;
  {
    const auto scope = graph.on_device("/job:worker/task:1");
    y = add_op("Gate", {x});
  }
  const ::testing::Matcher<std::string> says =
      AllOf(HasSubstr("did not end before its deadline; it was waiting for:\n"),
            ::testing::ContainsRegex(
                "WORKING /job:worker/task:1/device:CPU:0 runs Gate 'Gate' of step 1 of session [0-9a-f]+, for"),
            ::testing::ContainsRegex("   step 1 of session [0-9a-f]+ on /job:worker/task:0, for"));
  std::string message;
  EXPECT_TRUE(testing::holds_with_more_time(200ms, [&](std::chrono::milliseconds limit) {  // for it to come to the gate
    Session session(tasks[0], graph);
    const Error error = testing::error_of([&] {
      session.run({{x, Tensor::scalar(1.0f)}}, std::vector<Output>{y}, {}, {.timeout = limit});
    });
    EXPECT_EQ(error.code(), Code::deadline_exceeded);
    return says.Matches(message = error.message());
  })) << message;
  gate.count_down();
}

TEST_F(Gated, AClientWaitsForATaskThatBuildsItsPart) {
  on_build = [&](int task) {
    if (task == 1) building.wait();
  };
  Graph graph(*ops);
  const Output x = placeholder(graph, DType::f32, Shape{}, "x");
  Output y;
  {
    const auto scope = graph.on_device("/job:worker/task:1");
    y = add_op("Gate", {x});
  }
  const char* wait = "a client on /job:worker/task:0, for ";
  const char* of = "waits for /job:worker/task:1 to build its part of the graph, for ";
  {
    Session session(tasks[0], graph);
    auto compiling = std::async(std::launch::async, [&] { return session.callable({x}, {y}); });
    const std::string at_work = "the partition of /job:worker/task:1, handling one BuildPlan";
    EXPECT_THAT(why_with(1, at_work), AllOf(HasSubstr(wait), HasSubstr(of)));
    building.count_down();
    compiling.get();
    EXPECT_THAT(why_with(0, "Nothing waits."), HasSubstr("Nothing waits."));
  }
  on_build = [&](int task) {
    if (task == 1) gate.wait();
  };
  Session hasty(tasks[0], graph, {.build_timeout = 300ms});
  const Error late = testing::error_of([&] { hasty.callable({x}, {y}); });
  EXPECT_EQ(late.code(), Code::deadline_exceeded);
  EXPECT_THAT(
      late.message(),
      AllOf(
          HasSubstr("/job:worker/task:1 was asked to build its part of the graph and has not answered within 0.3 s\n"),
          HasSubstr(wait), HasSubstr(of)));
}

TEST_F(Gated, ADirectStepShowsItsNode) {
  Graph graph(*ops);
  const Output x = placeholder(graph, DType::f32, Shape{}, "x");
  const Output y = add_op("Gate", {x});
  Session session(tasks[0], graph);
  auto running = session.callable({x}, {y}).async({Tensor::scalar(1.0f)});
  inside.wait();
  const WaitAnalysis found = why_until(1, [](const WaitAnalysis& said) {  // of the other, which may be late
    return said.causes.size() == 1 && said.causes[0].kind == Kind::working;
  });
  ASSERT_EQ(found.causes.size(), 1u) << found.text;
  EXPECT_EQ(found.causes[0].kind, Kind::working);
  EXPECT_THAT(found.causes[0].text, HasSubstr("/job:worker/task:0/device:CPU:0 runs Gate 'Gate' of step "));
  const ClusterSnapshot seen = tasks[0].introspection().view().snapshot();
  EXPECT_EQ(seen.tasks.at(0).snapshot->devices.at(0).running, "Gate 'Gate'");
  gate.count_down();
  running.get();
}

}  // namespace
}  // namespace troupe
