// Collective actors of a few tasks, one message at a time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <caf/after.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>

#include "actors/collective/contribution.hpp"
#include "graph/all_reduce.hpp"
#include "tests/actors/step_testing.hpp"

namespace troupe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::StepCluster;

const TaskName kA{"worker", 0}, kB{"worker", 1}, kC{"worker", 2};

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
  static std::string error_of(const Answer& answer) { return answer->empty() ? "no answer" : answer->back().error.message(); }

  StepCluster cluster{{kA, kB, kC}};
};

TEST_F(Collectives, PartsTravelBetweenTheTasksAndTheResultIsTheSame) {
  const std::uint64_t group = open_all({kA, kB, kC});
  for (int round = 0; round < 2; ++round) {
    std::vector<Answer> answers;
    for (const TaskName& task : {kA, kB, kC})
      answers.push_back(contribute(task, group, Tensor::vector<std::int64_t>({task.index + 1, 10 * task.index})));
    for (const Answer& answer : answers) {
      ASSERT_EQ(answer->size(), 1u);
      ASSERT_FALSE(answer->front().error) << answer->front().error.message();
      EXPECT_TRUE(bitwise_equal(answer->front().tensors.at(0), Tensor::vector<std::int64_t>({6, 30})));
    }
  }
  EXPECT_EQ(cluster.sent<CollectivePart>(kA, kB).size(), 2u) << "one hop each";
}

TEST_F(Collectives, WhatALostTaskSentForAGroupThatWasNotOpenedIsFreed) {
  const Tensor lost = Tensor::vector<float>({1}), kept = Tensor::vector<float>({2});
  cluster.deliver(kA, kB, CollectivePart{.group = 9, .operation = {}, .tensor = lost, .error = {}});
  cluster.deliver(kC, kB, CollectivePart{.group = 9, .operation = {}, .tensor = kept, .error = {}});
  cluster.system.run();
  EXPECT_FALSE(lost.unique());
  cluster.cut(kA, kB);
  EXPECT_TRUE(lost.unique());
  EXPECT_FALSE(kept.unique());
}

TEST_F(Collectives, WhatComesBeforeTheGroupIsOpenIsKept) {
  const std::uint64_t group = open(kA, {kA, kB}).group;
  const Answer first = contribute(kA, group, Tensor::vector<float>({1}));
  EXPECT_EQ(open(kB, {kA, kB}).group, group);
  contribute(kB, group, Tensor::vector<float>({2}));
  EXPECT_EQ(first->at(0).tensors.at(0).item<float>(), 3);
}

TEST_F(Collectives, GroupsOfTheSameNameAreToldApart) {
  const std::uint64_t first = open(kA, {kA, kB}).group, second = open(kA, {kA, kB}).group;
  EXPECT_NE(first, second);
  EXPECT_EQ(open(kB, {kA, kB}).group, first);
  EXPECT_NE(open(kB, {kA, kB}, "other").group, second);
}

TEST_F(Collectives, AGroupThatCannotBeIsRefused) {
  EXPECT_THAT(open(kA, {kB, kC}).error.message(), HasSubstr("/job:worker/task:0 is not among the members of group 'job'"));
  EXPECT_THAT(open(kA, {kA, kB, kB}).error.message(), HasSubstr("comes twice"));
  EXPECT_THAT(error_of(contribute(kA, 5, Tensor::vector<float>({1}))), HasSubstr("has no group 5 open"));
}

TEST_F(Collectives, ARankThatDisagreesIsAnErrorOnEveryTask) {
  const std::uint64_t group = open_all({kA, kB, kC});
  std::vector<Answer> answers = {contribute(kA, group, Tensor::vector<float>({1}), "loss"),
                                 contribute(kB, group, Tensor::vector<float>({1}), "accuracy"),
                                 contribute(kC, group, Tensor::vector<float>({1}), "loss")};
  for (const Answer& answer : answers) {
    ASSERT_EQ(answer->size(), 1u);
    EXPECT_THAT(error_of(answer), AllOf(HasSubstr("'loss'"), HasSubstr("'accuracy'"), HasSubstr("/job:worker/task:1")));
  }
}

TEST_F(Collectives, ALostTaskIsNamedOnAllOthers) {
  const std::uint64_t group = open_all({kA, kB, kC});
  const Answer a = contribute(kA, group, Tensor::zeros(DType::f32, {9000}));
  const Answer c = contribute(kC, group, Tensor::zeros(DType::f32, {9000}));
  cluster.cut(kB, kC);  // around the ring C waits for B; A hears it from C
  for (const Answer& answer : {a, c}) EXPECT_THAT(error_of(answer), HasSubstr("/job:worker/task:1 was lost: the link was cut"));
  EXPECT_THAT(error_of(contribute(kA, group, Tensor::vector<float>({1}))), HasSubstr("/job:worker/task:1 was lost"));
}

TEST_F(Collectives, ATaskWithoutMemoryFailsTheGroupAndLivesOn) {
  const std::uint64_t group = open_all({kA, kB, kC});
  const Answer a = contribute(kA, group, Tensor::zeros(DType::f32, {9000}));
  cluster.without_memory = {kB};
  const Tensor held = Tensor::zeros(DType::f32, {9000});
  const Answer b = contribute(kB, group, held);
  const Answer c = contribute(kC, group, Tensor::zeros(DType::f32, {9000}));
  for (const Answer& answer : {a, b, c})
    EXPECT_THAT(error_of(answer), AllOf(HasSubstr("rank 1 (/job:worker/task:1)"), HasSubstr("no memory left")));
  // Its actor is there for other groups.
  cluster.without_memory.clear();
  const std::uint64_t second = open_all({kA, kB});
  const Answer again = contribute(kA, second, Tensor::vector<float>({1}));
  contribute(kB, second, Tensor::vector<float>({2}));
  ASSERT_EQ(again->size(), 1u);
  EXPECT_EQ(again->front().error.to_string(), Error().to_string());
}

// Around the ring C waits for B, but only A, which sends to B, is told that B has left.
TEST_F(Collectives, ATaskThatHasLeftTellsThoseWhoCallOn) {
  const std::uint64_t group = open_all({kA, kB, kC});
  caf::anon_send(cluster.task(kB).collective, CloseGroup{group, {}});
  cluster.system.run();
  const Answer c = contribute(kC, group, Tensor::zeros(DType::f32, {9000}));
  EXPECT_TRUE(c->empty());
  const Answer a = contribute(kA, group, Tensor::zeros(DType::f32, {9000}));
  for (const Answer& answer : {a, c}) EXPECT_THAT(error_of(answer), HasSubstr("/job:worker/task:1 has left the group"));
}

TEST_F(Collectives, ATaskThatLeavesOthersInAnOperationTellsThem) {
  const std::uint64_t group = open_all({kA, kB, kC});
  const Answer a = contribute(kA, group, Tensor::zeros(DType::f32, {9000}));  // B keeps its part
  const Answer c = contribute(kC, group, Tensor::zeros(DType::f32, {9000}));
  EXPECT_TRUE(a->empty() && c->empty());
  caf::anon_send(cluster.task(kB).collective, CloseGroup{group, {}});
  cluster.system.run();
  for (const Answer& answer : {a, c}) EXPECT_THAT(error_of(answer), HasSubstr("/job:worker/task:1 has left the group"));
}

TEST_F(Collectives, ATaskThatDoesNotComeIsNamedWhenTimeIsUp) {
  const std::uint64_t group = open_all({kA, kB, kC});
  const Answer c = contribute(kC, group, Tensor::zeros(DType::f32, {9000}));
  const Answer a = contribute(kA, group, Tensor::zeros(DType::f32, {9000}));
  int ticks = 0;
  while (c->empty() && ++ticks < 100) cluster.system.run_next_timeout();
  EXPECT_GE(ticks, 3 * 8) << "three tasks, each a few times in the timeout";
  for (const Answer& answer : {a, c})
    EXPECT_THAT(error_of(answer), AllOf(HasSubstr("has waited for 60 s"), HasSubstr("rank 1 (/job:worker/task:1) has not begun")));
}

TEST_F(Collectives, AGroupThatIsOverNeedsNoTicks) {
  const std::uint64_t group = open_all({kA, kB});
  for (const TaskName& task : {kA, kB}) caf::anon_send(cluster.task(task).collective, CloseGroup{group, {}});
  cluster.system.run();
  for (int i = 0; i < 2; ++i) cluster.system.run_next_timeout();
  EXPECT_FALSE(cluster.system.has_timeout());
}

TEST_F(Collectives, ATaskThatFailsTakesTheOthersWithIt) {
  const std::uint64_t group = open_all({kA, kB, kC});
  const Answer a = contribute(kA, group, Tensor::vector<float>({1}));
  caf::anon_send(cluster.task(kB).collective, CloseGroup{group, Error(Code::deadline_exceeded, "too slow")});
  cluster.system.run();
  EXPECT_THAT(error_of(a), AllOf(HasSubstr("/job:worker/task:1: too slow"), HasSubstr("waiting for nothing")));
}

TEST_F(Collectives, ATaskTellsWhomItWaitsFor) {
  const std::uint64_t group = open_all({kA, kB});
  const Answer a = contribute(kA, group, Tensor::vector<float>({1}));
  const auto details = [&](const TaskName& of) {
    ActorDetails out;
    for (const auto& record : cluster.system.registry.actors()) {
      if (record->kind != "collective" || record->name != of.to_string()) continue;
      EXPECT_TRUE(record->look(out, std::chrono::seconds(1)));
    }
    return out;
  };
  EXPECT_THAT(details(kA).waits_for, HasSubstr("the next from rank 1 (/job:worker/task:1)"));
  Waiting all = details(kA).waiting;
  all.append(details(kB).waiting);
  const WaitAnalysis found = analyse(all, {});
  ASSERT_EQ(found.causes.size(), 1u);
  EXPECT_THAT(found.causes[0].text, HasSubstr("rank 1 (/job:worker/task:1)'s part in all_reduce"));
  contribute(kB, group, Tensor::vector<float>({1}));
  EXPECT_EQ(details(kA).waits_for, "");
  EXPECT_TRUE(details(kA).waiting.things.empty());
}

// ---- In steps ------------------------------------------------------------------------------------------------------

// Each task is the client of a graph of its own: what it feeds, summed over the ranks, and then its negative.
class CollectiveSteps : public Collectives {
 protected:
  CollectiveSteps() {
    for (const TaskName& task : {kA, kB}) cluster.register_call(task, session(task), GraphId{0}, graph, {x}, {y});
    group = open_all({kA, kB});
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
    const auto a = run(kA, step, 1, group);
    EXPECT_TRUE(a->empty()) << "it waits for the other rank";
    const auto b = run(kB, step, 2, group);
    for (const auto& answer : {a, b}) {
      ASSERT_EQ(answer->size(), 1u);
      EXPECT_EQ(answer->front().error.to_string(), Error().to_string());
      EXPECT_EQ(answer->front().fetches[0].item<float>(), -3);
    }
  }
}

TEST_F(CollectiveSteps, FailWithTheirGroup) {
  const auto a = run(kA, 0, 1, group);
  cluster.cut(kA, kB);
  ASSERT_EQ(a->size(), 1u);
  EXPECT_THAT(a->front().error.message(), HasSubstr("/job:worker/task:1 was lost"));
}

TEST_F(CollectiveSteps, WithoutAGroupFail) {
  const auto a = run(kA, 0, 1, 0);
  ASSERT_EQ(a->size(), 1u);
  EXPECT_THAT(a->front().error.message(), HasSubstr("has no group 0 open"));
}

TEST_F(CollectiveSteps, ThatRepeatANumberFailOnBothRanks) {
  run(kA, 0, 1, group);
  run(kB, 0, 1, group);
  const auto b = run(kB, 1, 1, group);
  const auto a = run(kA, 0, 1, group);
  for (const auto& answer : {a, b}) {
    ASSERT_EQ(answer->size(), 1u);
    EXPECT_THAT(answer->front().error.message(), HasSubstr("is operation 0 of channel 1; the next is 1"));
  }
}

}  // namespace
}  // namespace troupe
