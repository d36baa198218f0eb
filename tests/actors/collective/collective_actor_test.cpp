// Collective actors of a few tasks, one message at a time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <caf/after.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>

#include "tests/actors/steps/step_testing.hpp"
#include <troupe/actors/steps/contribution.hpp>
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/training/all_reduce.hpp>

namespace troupe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::StepCluster;

const TaskName kRank0{"worker", 0}, kRank1{"worker", 1}, kRank2{"worker", 2};

class Collectives : public ::testing::Test {
 protected:
  GroupOpened open(const TaskName& on, const std::vector<TaskName>& members, const std::string& name = "job") {
    auto place = std::make_shared<GroupPlace>();
    place->name = name;
    place->members = members;
    place->timeout = std::chrono::seconds(60);
    caf::scoped_actor self(*cluster.system.caf);
    self->send(caf::actor_cast<caf::actor>(cluster.task(on).collective), OpenGroup{std::move(place)});
    cluster.system.run();
    GroupOpened opened{Error(Code::internal, "no reply"), 0};
    self->receive([&](const GroupOpened& answer) { opened = answer; }, caf::after(std::chrono::seconds(0)) >> [] {});
    return opened;
  }
  std::uint64_t open_all(const std::vector<TaskName>& members) {
    std::uint64_t id = 0;
    for (const TaskName& member : members) id = open(member, members).group;
    return id;
  }
  using Answer = std::shared_ptr<std::vector<CollectiveResult>>;
  Answer contribute(const TaskName& on, std::uint64_t group, Tensor tensor, const std::string& name = "x") {
    auto answer = std::make_shared<std::vector<CollectiveResult>>();
    auto contribution = std::make_shared<Contribution>();
    contribution->group = group;
    contribution->spec = {.dtype = tensor.dtype(), .shape = tensor.shape(), .name = name};
    contribution->tensor = std::move(tensor);
    contribution->done = [answer](CollectiveResult result) { answer->push_back(std::move(result)); };
    caf::anon_send(cluster.task(on).collective, Contribute{std::move(contribution)});
    cluster.system.run();
    return answer;
  }
  static std::string error_of(const Answer& answer) {
    return answer->empty() ? "no answer" : answer->back().error.message();
  }

  StepCluster cluster{{kRank0, kRank1, kRank2}};
};

TEST_F(Collectives, PartsTravelBetweenTheTasksAndTheResultIsTheSame) {
  const std::uint64_t group = open_all({kRank0, kRank1, kRank2});
  for (int round = 0; round < 2; ++round) {
    SCOPED_TRACE(::testing::Message() << "round " << round);
    std::vector<Answer> answers;
    for (const TaskName& task : {kRank0, kRank1, kRank2})
      answers.push_back(contribute(task, group, Tensor::vector<std::int64_t>({task.index + 1, 10 * task.index})));
    for (const Answer& answer : answers) {
      SCOPED_TRACE(::testing::Message() << "rank " << (&answer - answers.data()));
      ASSERT_EQ(answer->size(), 1u);
      ASSERT_FALSE(answer->front().error) << answer->front().error.message();
      EXPECT_TRUE(bitwise_equal(answer->front().tensors.at(0), Tensor::vector<std::int64_t>({6, 30})));
    }
  }
  EXPECT_EQ(cluster.sent<CollectivePart>(kRank0, kRank1).size(), 2u) << "one hop each";
}

TEST_F(Collectives, WhatALostTaskSentForAGroupThatWasNotOpenedIsFreed) {
  const Tensor lost = Tensor::vector<float>({1}), kept = Tensor::vector<float>({2});
  cluster.deliver(kRank0, kRank1, CollectivePart{.group = 9, .operation = {}, .tensor = lost, .error = {}});
  cluster.deliver(kRank2, kRank1, CollectivePart{.group = 9, .operation = {}, .tensor = kept, .error = {}});
  cluster.system.run();
  EXPECT_FALSE(lost.unique());
  cluster.cut(kRank0, kRank1);
  EXPECT_TRUE(lost.unique());
  EXPECT_FALSE(kept.unique());
}

TEST_F(Collectives, WhatComesBeforeTheGroupIsOpenIsKept) {
  const std::uint64_t group = open(kRank0, {kRank0, kRank1}).group;
  const Answer first = contribute(kRank0, group, Tensor::vector<float>({1}));
  EXPECT_EQ(open(kRank1, {kRank0, kRank1}).group, group);
  contribute(kRank1, group, Tensor::vector<float>({2}));
  EXPECT_EQ(first->at(0).tensors.at(0).item<float>(), 3);
}

TEST_F(Collectives, GroupsOfTheSameNameAreToldApart) {
  const std::uint64_t first = open(kRank0, {kRank0, kRank1}).group, second = open(kRank0, {kRank0, kRank1}).group;
  EXPECT_NE(first, second);
  EXPECT_EQ(open(kRank1, {kRank0, kRank1}).group, first);
  EXPECT_NE(open(kRank1, {kRank0, kRank1}, "other").group, second);
}

TEST_F(Collectives, AGroupThatCannotBeIsRefused) {
  EXPECT_THAT(open(kRank0, {kRank1, kRank2}).error.message(),
              HasSubstr("/job:worker/task:0 is not a member of group 'job'"));
  EXPECT_THAT(open(kRank0, {kRank0, kRank1, kRank1}).error.message(), HasSubstr("group 'job' has a member twice"));
  EXPECT_THAT(error_of(contribute(kRank0, 5, Tensor::vector<float>({1}))),
              HasSubstr("/job:worker/task:0 has no open group 5"));
}

TEST_F(Collectives, ARankThatDisagreesIsAnErrorOnEveryTask) {
  const std::uint64_t group = open_all({kRank0, kRank1, kRank2});
  std::vector<Answer> answers = {contribute(kRank0, group, Tensor::vector<float>({1}), "loss"),
                                 contribute(kRank1, group, Tensor::vector<float>({1}), "accuracy"),
                                 contribute(kRank2, group, Tensor::vector<float>({1}), "loss")};
  for (const Answer& answer : answers) {
    SCOPED_TRACE(::testing::Message() << "rank " << (&answer - answers.data()));
    ASSERT_EQ(answer->size(), 1u);
    EXPECT_THAT(error_of(answer), AllOf(HasSubstr("'loss'"), HasSubstr("'accuracy'"), HasSubstr("/job:worker/task:1")));
  }
}

TEST_F(Collectives, ALostTaskIsNamedOnAllOthers) {
  const std::uint64_t group = open_all({kRank0, kRank1, kRank2});
  const Answer a = contribute(kRank0, group, Tensor::zeros(DType::f32, {9000}));
  const Answer c = contribute(kRank2, group, Tensor::zeros(DType::f32, {9000}));
  cluster.cut(kRank1, kRank2);  // around the ring C waits for B; A hears it from C
  for (const auto& [rank, answer] : {std::pair(0, a), {2, c}})
    EXPECT_THAT(error_of(answer), HasSubstr("/job:worker/task:1 was lost: the link was cut")) << "rank " << rank;
  EXPECT_THAT(error_of(contribute(kRank0, group, Tensor::vector<float>({1}))),
              HasSubstr("/job:worker/task:1 was lost"));
}

TEST_F(Collectives, ATaskWithoutMemoryFailsTheGroupAndLivesOn) {
  const std::uint64_t group = open_all({kRank0, kRank1, kRank2});
  const Answer a = contribute(kRank0, group, Tensor::zeros(DType::f32, {9000}));
  cluster.without_memory = {kRank1};
  const Tensor held = Tensor::zeros(DType::f32, {9000});
  const Answer b = contribute(kRank1, group, held);
  const Answer c = contribute(kRank2, group, Tensor::zeros(DType::f32, {9000}));
  for (const auto& [rank, answer] : {std::pair(0, a), {1, b}, {2, c}})
    EXPECT_THAT(error_of(answer), AllOf(HasSubstr("rank 1 (/job:worker/task:1)"), HasSubstr("no memory left")))
        << "rank " << rank;
  // Its actor is there for other groups.
  cluster.without_memory.clear();
  const std::uint64_t second = open_all({kRank0, kRank1});
  const Answer again = contribute(kRank0, second, Tensor::vector<float>({1}));
  contribute(kRank1, second, Tensor::vector<float>({2}));
  ASSERT_EQ(again->size(), 1u);
  EXPECT_EQ(again->front().error.to_string(), Error().to_string());
}

// Around the ring C waits for B, but only A, which sends to B, is told that B has left.
TEST_F(Collectives, ATaskThatHasLeftTellsThoseWhoCallOn) {
  const std::uint64_t group = open_all({kRank0, kRank1, kRank2});
  caf::anon_send(cluster.task(kRank1).collective, CloseGroup{group, {}});
  cluster.system.run();
  const Answer c = contribute(kRank2, group, Tensor::zeros(DType::f32, {9000}));
  EXPECT_TRUE(c->empty());
  const Answer a = contribute(kRank0, group, Tensor::zeros(DType::f32, {9000}));
  for (const auto& [rank, answer] : {std::pair(0, a), {2, c}})
    EXPECT_THAT(error_of(answer), HasSubstr("/job:worker/task:1 has left the group")) << "rank " << rank;
}

TEST_F(Collectives, ATaskThatLeavesOthersInAnOperationTellsThem) {
  const std::uint64_t group = open_all({kRank0, kRank1, kRank2});
  const Answer a = contribute(kRank0, group, Tensor::zeros(DType::f32, {9000}));  // B keeps its part
  const Answer c = contribute(kRank2, group, Tensor::zeros(DType::f32, {9000}));
  EXPECT_TRUE(a->empty() && c->empty());
  caf::anon_send(cluster.task(kRank1).collective, CloseGroup{group, {}});
  cluster.system.run();
  for (const auto& [rank, answer] : {std::pair(0, a), {2, c}})
    EXPECT_THAT(error_of(answer), HasSubstr("/job:worker/task:1 has left the group")) << "rank " << rank;
}

TEST_F(Collectives, ATaskThatDoesNotComeIsNamedWhenTimeIsUp) {
  const std::uint64_t group = open_all({kRank0, kRank1, kRank2});
  const Answer c = contribute(kRank2, group, Tensor::zeros(DType::f32, {9000}));
  const Answer a = contribute(kRank0, group, Tensor::zeros(DType::f32, {9000}));
  int ticks = 0;
  while (c->empty() && ++ticks < 100) cluster.system.run_next_timeout();
  EXPECT_GE(ticks, 3 * 8) << "three tasks, each a few times in the timeout";
  for (const auto& [rank, answer] : {std::pair(0, a), {2, c}})
    EXPECT_THAT(error_of(answer),
                AllOf(HasSubstr("has waited for 60 s"), HasSubstr("rank 1 (/job:worker/task:1) has not begun")))
        << "rank " << rank;
}

TEST_F(Collectives, AGroupThatIsOverNeedsNoTicks) {
  const std::uint64_t group = open_all({kRank0, kRank1});
  for (const TaskName& task : {kRank0, kRank1}) caf::anon_send(cluster.task(task).collective, CloseGroup{group, {}});
  cluster.system.run();
  for (int i = 0; i < 2; ++i) cluster.system.run_next_timeout();
  EXPECT_FALSE(cluster.system.has_timeout());
}

TEST_F(Collectives, ATaskThatFailsTakesTheOthersWithIt) {
  const std::uint64_t group = open_all({kRank0, kRank1, kRank2});
  const Answer a = contribute(kRank0, group, Tensor::vector<float>({1}));
  caf::anon_send(cluster.task(kRank1).collective, CloseGroup{group, Error(Code::deadline_exceeded, "too slow")});
  cluster.system.run();
  EXPECT_THAT(error_of(a), AllOf(HasSubstr("/job:worker/task:1: too slow"), HasSubstr("waiting for nothing")));
}

TEST_F(Collectives, ATaskTellsWhomItWaitsFor) {
  const std::uint64_t group = open_all({kRank0, kRank1});
  const Answer a = contribute(kRank0, group, Tensor::vector<float>({1}));
  const auto details = [&](const TaskName& of) {
    ActorDetails out;
    for (const auto& record : cluster.system.registry.actors()) {
      if (record->kind != "collective" || record->name != of.to_string()) continue;
      EXPECT_TRUE(record->look(out, std::chrono::seconds(1)));
    }
    return out;
  };
  EXPECT_THAT(details(kRank0).waits_for, HasSubstr("the next from rank 1 (/job:worker/task:1)"));
  Waiting all = details(kRank0).waiting;
  all.append(details(kRank1).waiting);
  const WaitAnalysis found = analyse(all, {});
  ASSERT_EQ(found.causes.size(), 1u);
  EXPECT_THAT(found.causes[0].text, HasSubstr("rank 1 (/job:worker/task:1)'s part in all_reduce"));
  contribute(kRank1, group, Tensor::vector<float>({1}));
  EXPECT_EQ(details(kRank0).waits_for, "");
  EXPECT_TRUE(details(kRank0).waiting.things.empty());
}

// ---- Between devices -----------------------------------------------------------------------------------------------

// Devices that do nothing before the test says so.
class HandCommunicator final : public DeviceCommunicator {
 public:
  void run(const CollectiveSpec& spec, Tensor, Done done) override {
    given.push_back(spec.name);
    running.push_back(std::move(done));
  }
  void abort(const Error& why) override {
    aborted = why;
    for (Done& done : std::exchange(running, {})) done({}, why);
  }
  void leave() override { left = true; }
  Error failure() const override { return aborted; }

  std::function<void(Error)> joined;
  std::vector<std::string> given;
  std::vector<Done> running;
  Error aborted;
  bool left = false;
};

class HandMaker final : public CommunicatorMaker {
 public:
  std::string description() override { return "hands"; }
  std::string identity() override { return "mine"; }
  CommunicatorId make_id() override { return CommunicatorId(3); }
  std::shared_ptr<DeviceCommunicator> join(const CommunicatorPlace& place, std::function<void(Error)> joined) override {
    if (refuses) fail(Code::unavailable, "no such library");
    EXPECT_EQ(place.id.size(), 3u);
    EXPECT_EQ(place.rank, rank);
    made = std::make_shared<HandCommunicator>();
    made->joined = std::move(joined);
    return made;
  }
  std::uint32_t rank = 0;
  bool refuses = false;
  std::shared_ptr<HandCommunicator> made;
};

class CollectivesOnDevices : public Collectives {
 protected:
  CollectivesOnDevices() {
    for (std::uint32_t r = 0; r < 3; ++r) makers[r].rank = r;
    group = open_all(members);
  }
  Answer give(std::uint32_t rank, const std::string& name, bool joins) {
    auto answer = std::make_shared<std::vector<CollectiveResult>>();
    auto contribution = std::make_shared<Contribution>();
    contribution->group = group;
    contribution->spec = {.dtype = DType::f32, .shape = Shape{1}, .name = name};
    if (joins) {
      contribution->spec = {.kind = CollectiveKind::barrier, .name = name};
      contribution->joins = &makers[rank];
      contribution->id = CommunicatorId(3);
    } else {
      contribution->tensor = Tensor::vector<float>({1});
      contribution->on_devices = true;
    }
    contribution->done = [answer](CollectiveResult result) { answer->push_back(std::move(result)); };
    caf::anon_send(cluster.task(members[rank]).collective, Contribute{std::move(contribution)});
    cluster.system.run();
    return answer;
  }
  void join_all() {
    std::vector<Answer> answers;
    for (const std::uint32_t r : {0u, 1u, 2u}) answers.push_back(give(r, "joining", true));
    for (HandMaker& maker : makers) maker.made->joined({});
    cluster.system.run();
    for (const Answer& answer : answers) {
      SCOPED_TRACE(::testing::Message() << "rank " << (&answer - answers.data()));
      ASSERT_EQ(answer->size(), 1u);
      EXPECT_EQ(error_of(answer), "");
    }
  }
  // It says nothing more, and hears nothing.
  void lose(const TaskName& task) {
    for (const TaskName& other : members)
      if (other != task)
        caf::anon_send(cluster.task(other).peers.extract(task).mapped(), LinkLost{Error(Code::unavailable, "silence")});
    cluster.system.run();
  }
  HandCommunicator& end(std::uint32_t rank) { return *makers[rank].made; }

  const std::vector<TaskName> members = {kRank0, kRank1, kRank2};
  std::array<HandMaker, 3> makers;
  std::uint64_t group = 0;
};

TEST_F(CollectivesOnDevices, JoinWhenAllAreThereAndHandOverWhatAllHaveBegun) {
  const Answer early = give(0, "joining", true);
  give(2, "joining", true);
  EXPECT_EQ(makers[0].made, nullptr) << "rank 1 may never come, and the device would wait for it";
  give(1, "joining", true);
  for (HandMaker& maker : makers) ASSERT_NE(maker.made, nullptr) << "rank " << maker.rank;
  EXPECT_TRUE(early->empty());
  for (HandMaker& maker : makers) maker.made->joined({});
  cluster.system.run();
  EXPECT_EQ(early->size(), 1u);

  const Answer a = give(0, "x", false), b = give(1, "x", false);
  EXPECT_TRUE(end(0).given.empty());
  const Answer c = give(2, "x", false);
  for (const std::uint32_t r : {0u, 1u, 2u}) {
    EXPECT_EQ(end(r).given, std::vector<std::string>{"x"}) << "rank " << r;
    end(r).running[0]({Tensor::vector<float>({static_cast<float>(r)})}, {});
  }
  cluster.system.run();
  float value = 0;
  for (const Answer& answer : {a, b, c}) {
    SCOPED_TRACE(::testing::Message() << "rank " << value);
    ASSERT_EQ(answer->size(), 1u);
    EXPECT_EQ(answer->front().tensors.at(0).item<float>(), value++);
  }
  for (const TaskName& task : members) caf::anon_send(cluster.task(task).collective, CloseGroup{group, {}});
  cluster.system.run();
  for (const std::uint32_t r : {0u, 1u, 2u}) {
    SCOPED_TRACE(::testing::Message() << "rank " << r);
    EXPECT_TRUE(end(r).left);
    EXPECT_FALSE(end(r).aborted);
  }
}

// The devices of the others would wait for ever.
TEST_F(CollectivesOnDevices, ATaskLostWhileTheyWorkIsNamedAndTheOthersAbort) {
  join_all();
  const Answer a = give(0, "x", false), c = give(2, "x", false);
  give(1, "x", false);
  EXPECT_EQ(end(2).running.size(), 1u);
  lose(kRank1);
  for (const auto& [rank, answer] : {std::pair(0, a), {2, c}}) {
    SCOPED_TRACE(::testing::Message() << "rank " << rank);
    ASSERT_EQ(answer->size(), 1u);
    EXPECT_THAT(error_of(answer), HasSubstr("/job:worker/task:1 was lost: silence"));
  }
  for (const std::uint32_t r : {0u, 2u})
    EXPECT_THAT(end(r).aborted.message(), HasSubstr("was lost: silence")) << "rank " << r;
  // Another group of the same tasks has communicators of its own.
  const std::shared_ptr<HandCommunicator> old = makers[0].made;
  group = open_all({kRank0, kRank2});
  makers[2].rank = 1;
  const auto answers = {give(0, "joining", true), give(2, "joining", true)};
  for (const std::uint32_t r : {0u, 2u}) makers[r].made->joined({});
  cluster.system.run();
  for (const Answer& answer : answers) EXPECT_EQ(error_of(answer), "") << "rank " << (&answer - answers.begin());
  EXPECT_NE(makers[0].made, old);
}

TEST_F(CollectivesOnDevices, ATaskLostWhileTheyJoinIsNamedAndTheOthersAbort) {
  std::vector<Answer> answers;
  for (const std::uint32_t r : {0u, 1u, 2u}) answers.push_back(give(r, "joining", true));
  lose(kRank1);
  for (const std::uint32_t r : {0u, 2u}) {
    SCOPED_TRACE(::testing::Message() << "rank " << r);
    EXPECT_THAT(error_of(answers[r]), HasSubstr("/job:worker/task:1 was lost: silence"));
    EXPECT_TRUE(end(r).aborted);
  }
}

TEST_F(CollectivesOnDevices, AnErrorOfOneDeviceEndsTheGroup) {
  join_all();
  std::vector<Answer> answers;
  for (const std::uint32_t r : {0u, 1u, 2u}) answers.push_back(give(r, "x", false));
  end(1).running[0]({}, Error(Code::unavailable, "the network is gone"));
  cluster.system.run();
  for (const Answer& answer : answers)
    EXPECT_EQ(error_of(answer), "rank 1 (/job:worker/task:1): the network is gone")
        << "rank " << (&answer - answers.data());
  for (const std::uint32_t r : {0u, 2u}) EXPECT_TRUE(end(r).aborted) << "rank " << r;
}

TEST_F(CollectivesOnDevices, OneThatCannotJoinEndsTheGroup) {
  makers[1].refuses = true;
  std::vector<Answer> answers;
  for (const std::uint32_t r : {0u, 1u, 2u}) answers.push_back(give(r, "joining", true));
  for (const Answer& answer : answers)
    EXPECT_EQ(error_of(answer), "rank 1 (/job:worker/task:1): no such library")
        << "rank " << (&answer - answers.data());
  EXPECT_TRUE(end(0).aborted);
}

TEST_F(CollectivesOnDevices, OneThatDoesNotEndIsGivenUpWhenTimeIsUp) {
  join_all();
  const Answer a = give(0, "x", false);
  for (const std::uint32_t r : {1u, 2u}) give(r, "x", false);
  int ticks = 0;
  while (a->empty() && ++ticks < 200) cluster.system.run_next_timeout();
  EXPECT_THAT(error_of(a),
              AllOf(HasSubstr(
                  "has waited for 60 s: still missing the result of all_reduce sum of f32[1] 'x' between devices")));
  for (const std::uint32_t r : {0u, 1u, 2u}) EXPECT_TRUE(end(r).aborted) << "rank " << r;
}

TEST_F(CollectivesOnDevices, ATaskThatShutsDownAborts) {
  join_all();
  give(0, "x", false);
  caf::anon_send(cluster.task(kRank0).collective, Stop{});
  cluster.system.run();
  EXPECT_THAT(end(0).aborted.message(), HasSubstr("/job:worker/task:0 is shutting down"));
}

TEST_F(CollectivesOnDevices, ATensorOfADeviceThatTheGroupHasNotJoinedIsRefused) {
  auto contribution = std::make_shared<Contribution>();
  auto answer = std::make_shared<std::vector<CollectiveResult>>();
  class Far final : public Buffer {
   public:
    Far() : Buffer(nullptr, 64, {MemorySpace::Kind::cuda, 0}) {}
  };
  contribution->group = group;
  contribution->tensor = Tensor(DType::f32, {1}, BufferRef(new Far));
  contribution->on_devices = true;
  contribution->spec = {.dtype = DType::f32, .shape = {1}, .name = "x"};
  contribution->done = [answer](CollectiveResult result) { answer->push_back(std::move(result)); };
  caf::anon_send(cluster.task(kRank0).collective, Contribute{std::move(contribution)});
  cluster.system.run();
  EXPECT_THAT(error_of(answer),
              HasSubstr("all_reduce sum of f32[1] 'x': got f32[1], on a device that the group has not joined"));
}

// ---- In steps ------------------------------------------------------------------------------------------------------

// Each task is the client of a graph of its own: what it feeds, summed over the ranks, and then its negative.
class CollectiveSteps : public Collectives {
 protected:
  CollectiveSteps() {
    for (const TaskName& task : {kRank0, kRank1})
      cluster.register_call(task, session(task), GraphId{0}, graph, {x}, {y});
    group = open_all({kRank0, kRank1});
  }
  static SessionId session(const TaskName& task) { return SessionId{static_cast<std::uint64_t>(task.index) + 1}; }
  StepCluster::Answer run(const TaskName& task, std::uint64_t step, float value, std::uint64_t in_group) {
    auto answers = std::make_shared<std::vector<StepResult>>();
    auto request = std::make_shared<StepRequest>();
    request->session = session(task);
    request->graph = GraphId{0};
    request->step = StepId{++last_step};
    request->training = {.step = step, .group = in_group};
    request->feeds = {Tensor::vector<float>({value})};
    request->fetches.resize(1);
    request->done = [answers](StepResult result) { answers->push_back(std::move(result)); };
    caf::anon_send(cluster.task(task).scheduler, RunStep{std::move(request)});
    cluster.system.run();
    return answers;
  }

  Graph graph;
  Output x = placeholder(graph, DType::f32, {1}, "x");
  Output y = neg(all_reduce(x, {.reduction = "sum", .name = "sum"}), "y");
  std::uint64_t group = 0;
  std::uint64_t last_step = 0;
};

TEST_F(CollectiveSteps, ContributeAndGoOnWithTheResult) {
  for (const std::uint64_t step : {0, 1}) {
    SCOPED_TRACE(::testing::Message() << "step " << step);
    const auto a = run(kRank0, step, 1, group);
    EXPECT_TRUE(a->empty()) << "it waits for the other rank";
    const auto b = run(kRank1, step, 2, group);
    for (const auto& [rank, answer] : {std::pair(0, a), {1, b}}) {
      SCOPED_TRACE(::testing::Message() << "rank " << rank);
      ASSERT_EQ(answer->size(), 1u);
      EXPECT_EQ(answer->front().error.to_string(), Error().to_string());
      EXPECT_EQ(answer->front().fetches[0].item<float>(), -3);
    }
  }
}

TEST_F(CollectiveSteps, FailWithTheirGroup) {
  const auto a = run(kRank0, 0, 1, group);
  cluster.cut(kRank0, kRank1);
  ASSERT_EQ(a->size(), 1u);
  EXPECT_THAT(a->front().error.message(), HasSubstr("/job:worker/task:1 was lost"));
}

TEST_F(CollectiveSteps, WithoutAGroupFail) {
  const auto a = run(kRank0, 0, 1, 0);
  ASSERT_EQ(a->size(), 1u);
  EXPECT_THAT(a->front().error.message(), HasSubstr("/job:worker/task:0 has no open group 0"));
}

TEST_F(CollectiveSteps, ThatRepeatANumberFailOnBothRanks) {
  run(kRank0, 0, 1, group);
  run(kRank1, 0, 1, group);
  const auto b = run(kRank1, 1, 1, group);
  const auto a = run(kRank0, 0, 1, group);
  for (const auto& [rank, answer] : {std::pair(0, a), {1, b}}) {
    SCOPED_TRACE(::testing::Message() << "rank " << rank);
    ASSERT_EQ(answer->size(), 1u);
    EXPECT_THAT(answer->front().error.message(), HasSubstr("is operation 0 of channel 1, but the next must be 1"));
  }
}

}  // namespace
}  // namespace troupe
