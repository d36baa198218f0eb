// Variables that sessions of several clients share. tests/apps/node_cluster_test.cpp has clients in processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/actors/task_cluster.hpp"
#include "tests/error_of.hpp"
#include <troupe/actors/session/session.hpp>
#include <troupe/graph/builder/builder.hpp>

namespace troupe::testing {
namespace {

using ::testing::HasSubstr;

// A counter and a table, on two tasks.
struct Shared {
  explicit Shared(std::int64_t first = 0, std::int64_t rows = 2) {
    count = variable(
        graph, {.name = "count", .initial_value = constant(graph, Tensor::scalar(first)), .device = "/job:ps/task:0"});
    table = variable(graph, {.name = "table", .shape = Shape{rows}, .device = "/job:ps/task:1"});
    add = count.assign_add(constant(graph, Tensor::scalar<std::int64_t>(1)));
    init = initializer(graph);
    once = initialize_once(graph);
  }

  Graph graph;
  VariableRef count, table;
  Output add, init, once;
};

class Container : public ::testing::Test {
 protected:
  static SessionOptions in(const std::string& container) { return {.container = container}; }
  static std::int64_t count(Session& session, Shared& of) { return session.run(of.count.read()).item<std::int64_t>(); }

  const TaskCluster tasks_{std::vector<TaskName>{{"ps", 0}, {"ps", 1}, {"worker", 0}, {"worker", 1}}};
  Task& first_ = tasks_[2];
  Task& second_ = tasks_[3];
};

TEST_F(Container, ClientsShareVariablesWhichOutliveTheirSessions) {
  Shared a(10), b(20);
  {
    Session one(first_, a.graph, in("shared"));
    one.run_targets({a.once});
    Session two(second_, b.graph, in("shared"));
    two.run_targets({b.once});
    EXPECT_EQ(count(two, b), 10) << "initialized twice";
    one.run_targets({a.add});
    two.run_targets({b.add});
    EXPECT_EQ(count(one, a), 12);
  }
  Session three(second_, b.graph, in("shared"));
  three.run_targets({b.once});
  EXPECT_EQ(count(three, b), 12);
}

TEST_F(Container, OthersHaveTheirOwn) {
  Shared a(10);
  Session shared(first_, a.graph, in("shared")), other(first_, a.graph, in("other")), own(first_, a.graph),
      own_too(first_, a.graph);
  for (Session* session : {&shared, &other, &own}) {
    session->run_targets({a.once});
    session->run_targets({a.add});
    EXPECT_EQ(count(*session, a), 11);
  }
  EXPECT_EQ(error_of([&] { count(own_too, a); }).code(), Code::failed_precondition);
}

TEST_F(Container, ManyClientsInitializeOnceAndLoseNoUpdate) {
  constexpr int kRounds = 5, kSteps = 20;
  for (int round = 0; round < kRounds; ++round) {
    const std::string name = fmt::format("round {}", round);
    const std::vector<std::string> counts = tasks_.run([&](Task& task) -> std::string {
      Shared mine(100 * (task.name().index + 1));
      Session session(task, mine.graph, in(name));
      session.run_targets({mine.once});
      for (int i = 0; i < kSteps; ++i) session.run_targets({mine.add});
      return "";
    });
    for (const std::string& error : counts) EXPECT_EQ(error, "");
    Shared last(7);
    Session session(first_, last.graph, in(name));
    const std::int64_t total = count(session, last) - kSteps * static_cast<std::int64_t>(tasks_.size());
    EXPECT_TRUE(total == 100 || total == 200) << total;
  }
}

TEST_F(Container, AResetForgetsVariablesOnAllTasks) {
  Shared a(10);
  Session before(first_, a.graph, in("shared")), other(first_, a.graph, in("other"));
  for (Session* session : {&before, &other}) session->run_targets({a.init});
  before.run_targets({a.add});
  reset_container(second_, "shared");
  Session after(first_, a.graph, in("shared"));
  EXPECT_THAT(error_of([&] { after.run(a.table.read()); }).to_string(), HasSubstr("'table'"));
  after.run_targets({a.once});
  EXPECT_EQ(count(after, a), 10);
  EXPECT_EQ(count(before, a), 11) << "the session's variables were taken away";
  EXPECT_EQ(count(other, a), 10);
  reset_container(first_, "of nobody");
}

TEST_F(Container, AnotherShapeOfTheSameNameIsRefused) {
  Shared a(0, 2), b(0, 3);
  Session one(first_, a.graph, in("shared")), two(second_, b.graph, in("shared"));
  one.run_targets({a.once});
  EXPECT_THAT(
      error_of([&] { two.run_targets({b.once}); }).to_string(),
      HasSubstr("variable 'table' is f32[2] in this session or its container, but the graph declares it as f32[3]"));
}

}  // namespace
}  // namespace troupe::testing
