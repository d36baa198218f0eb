#include <gtest/gtest.h>

#include "tests/scheduler/toy.hpp"
#include <troupe/scheduler/run/step_table.hpp>

namespace troupe {
namespace {

using namespace testing;
using Numbers = std::vector<std::int64_t>;

// out = -(r0) + -(r1), with a segment for each of the two and one for the sum.
struct TwoArrivals {
  TwoArrivals() {
    Output a = node(graph, "Neg", {recv(graph, 0, kPair, "r0")}, "a");
    Output b = node(graph, "Neg", {pull(graph, 1, kPair, "r1")}, "b");
    fetch(graph, node(graph, "Add", {a, b}, "sum"), 0, "out");
  }
  Graph graph;
};

TEST(StepTable, RunsSegmentsAsTheirArrivalsCome) {
  TwoArrivals g;
  ToyTask task(g.graph);
  task.start(1);
  EXPECT_TRUE(task.hooks.ran.empty());
  task.arrive(1, "r1", i64({1, 2}));
  EXPECT_EQ(task.hooks.ran, (std::vector<std::string>{"b"}));
  task.arrive(1, "r1", i64({9, 9}));  // a second one is ignored
  EXPECT_FALSE(task.ended[1]);
  task.arrive(1, "r0", i64({10, 20}));
  EXPECT_EQ(task.hooks.ran, (std::vector<std::string>{"b", "a", "sum"}));
  EXPECT_TRUE(task.ended[1]);
  EXPECT_EQ(numbers(task.finish(1).at(0)), (Numbers{-11, -22}));
  EXPECT_TRUE(task.table.empty());
}

TEST(StepTable, StepsInFlightDoNotMix) {
  TwoArrivals g;
  ToyTask task(g.graph);
  for (std::uint64_t step : {1, 2, 3}) task.start(step);
  task.arrive(3, "r0", i64({30, 30}));
  task.arrive(1, "r1", i64({1, 1}));
  task.arrive(2, "r0", i64({20, 20}));
  task.arrive(2, "r1", i64({2, 2}));
  EXPECT_TRUE(task.ended[2]);
  EXPECT_EQ(numbers(task.finish(2).at(0)), (Numbers{-22, -22}));
  task.start(4);  // in the frame of step 2
  task.arrive(1, "r0", i64({10, 10}));
  task.arrive(3, "r1", i64({3, 3}));
  task.arrive(4, "r1", i64({4, 4}));
  task.arrive(4, "r0", i64({40, 40}));
  EXPECT_EQ(numbers(task.finish(4).at(0)), (Numbers{-44, -44}));
  EXPECT_EQ(numbers(task.finish(1).at(0)), (Numbers{-11, -11}));
  EXPECT_EQ(numbers(task.finish(3).at(0)), (Numbers{-33, -33}));
}

TEST(StepTable, ASecondTensorForAnArrivalCountsForNothing) {
  Graph g;
  fetch(g, node(g, "Add", {recv(g, 0, kPair, "r0"), recv(g, 1, kPair, "r1")}, "sum"), 0, "out");
  ToyTask task(g);
  task.start(1);
  task.arrive(1, "r0", i64({1, 2}));
  task.arrive(1, "r0", i64({5, 6}));
  EXPECT_TRUE(task.hooks.ran.empty());
  task.arrive(1, "r1", i64({10, 20}));
  EXPECT_EQ(numbers(task.finish(1).at(0)), (Numbers{11, 22}));
}

TEST(StepTable, FramesAreUsedAgain) {
  TwoArrivals g;
  ToyTask task(g.graph);
  auto one = task.partition->take_frame();
  auto two = task.partition->take_frame();
  const PlanFrame* first = one.get();
  EXPECT_NE(first, two.get());
  task.partition->give_back(std::move(one));
  EXPECT_EQ(task.partition->take_frame().get(), first);
}

TEST(StepTable, APlanWithoutNodesEndsAtOnce) {
  ToyTask task(*std::make_unique<Graph>());
  task.start(1);
  EXPECT_TRUE(task.ended[1]);
}

TEST(StepTable, RefusesASecondStartAndMissingFeeds) {
  Graph g;
  fetch(g, feed(g, 1, kPair, "x"), 0, "out");
  ToyTask task(g);
  const auto start = [&](const std::vector<Tensor>& feeds) {
    return error_of([&] { task.table.start(task.key(1), {task.partition}, {}, feeds); });
  };
  EXPECT_EQ(start({i64({1, 2})}).message(), "missing feed 1, which /device:CPU:0 needs");
  EXPECT_EQ(start({i64({1, 2}), Tensor()}).code(), Code::invalid_argument);
  EXPECT_TRUE(task.table.empty());
  EXPECT_TRUE(start({Tensor(), i64({1, 2})}).ok());
  EXPECT_EQ(start({Tensor(), i64({1, 2})}).code(), Code::already_exists);
}

TEST(StepTable, AnArrivalThatDoesNotFitAbortsTheStep) {
  for (const auto& [tensor, came] :
       {std::pair{Tensor::vector<float>({1, 2}), "f32[2]"}, std::pair{i64({1, 2, 3}), "i64[3]"}}) {
    SCOPED_TRACE(came);
    TwoArrivals g;
    ToyTask task(g.graph);
    task.start(1);
    task.arrive(1, "r1", tensor);
    EXPECT_EQ(task.table.error(task.key(1)).message(), fmt::format("'r1' from shard 0 must be i64[2], not {}", came));
    EXPECT_TRUE(task.ended[1]);
    task.arrive(1, "r0", i64({1, 2}));
    EXPECT_TRUE(task.hooks.ran.empty());
  }
}

TEST(StepTable, TheFirstErrorCountsAndTheStepEndsWhenNothingRuns) {
  TwoArrivals g;
  ToyTask task(g.graph);
  StepTable& table = task.table;
  table.start(task.key(1), {task.partition}, {}, {});
  const auto a = table.arrived(task.key(1), 0, 0, i64({1, 2}));
  const auto b = table.arrived(task.key(1), 0, 1, i64({1, 2}));
  ASSERT_EQ(a.ready.size(), 1u);
  ASSERT_EQ(b.ready.size(), 1u);
  EXPECT_FALSE(table.abort(task.key(1), Error(Code::unavailable, "first")).ended);
  EXPECT_FALSE(table.abort(task.key(1), Error(Code::internal, "second")).ended);
  EXPECT_FALSE(table.segment_done(task.key(1), 0, a.ready[0].segment, Error(Code::cancelled, "third")).ended);
  const auto last = table.segment_done(task.key(1), 0, b.ready[0].segment, Error());
  EXPECT_TRUE(last.ended);
  EXPECT_TRUE(last.ready.empty());  // the sum never starts
  EXPECT_EQ(table.error(task.key(1)).message(), "first");
}

// What the scheduler of the client's task waits for, and what it is to tell others.
TEST(StepTable, AStepOfSeveralTasksEndsWithItsLastPart) {
  Graph g;
  fetch(g, node(g, "Neg", {recv(g, 0, kPair, "r0")}, "a"), 0, "out");
  ToyTask task(g);
  StepTable& table = task.table;
  const StepKey key = task.key(1);
  const auto begin = [&] {
    table.start(key, {task.partition}, {}, {}, 2);
    EXPECT_EQ(table.parts_left(key), (std::vector<std::uint32_t>{0, 1}));
    EXPECT_FALSE(table.part_ended(key, 1, Error()).ended);
    EXPECT_FALSE(table.part_ended(key, 1, Error()).ended) << "the same part again";
    EXPECT_EQ(table.parts_left(key), (std::vector<std::uint32_t>{0}));
  };
  begin();
  auto ready = table.arrived(key, 0, 0, i64({1, 2})).ready;
  EXPECT_FALSE(table.own_part_ended(key));
  Recorder recorder(task.plan());
  run_segment(*ready.at(0).frame, ready[0].segment, *task.device, recorder);
  EXPECT_FALSE(table.segment_done(key, 0, ready[0].segment, Error()).ended) << "a part of another task is left";
  EXPECT_TRUE(table.own_part_ended(key));
  const auto last = table.part_ended(key, 0, Error());
  EXPECT_TRUE(last.ended);
  EXPECT_FALSE(last.failed);
  const StepTable::Result result = table.finish(key);
  EXPECT_FALSE(result.error);
  ASSERT_EQ(result.fetches.size(), 1u);
  EXPECT_EQ(numbers(result.fetches[0].second), (Numbers{-1, -2}));
  EXPECT_FALSE(table.contains(key));
}

TEST(StepTable, AfterAnErrorOtherPartsAreToldOnceAndNotWaitedFor) {
  Graph g;
  fetch(g, node(g, "Neg", {recv(g, 0, kPair, "r0")}, "a"), 0, "out");
  ToyTask task(g);
  StepTable& table = task.table;
  const StepKey key = task.key(1);
  table.start(key, {task.partition}, {}, {}, 2);
  const auto ready = table.arrived(key, 0, 0, i64({1, 2})).ready;
  const auto first = table.part_ended(key, 0, Error(Code::unavailable, "first"));
  EXPECT_TRUE(first.failed);
  EXPECT_FALSE(first.ended) << "a segment runs";
  const auto second = table.abort(key, Error(Code::internal, "second"));
  EXPECT_FALSE(second.failed);
  EXPECT_FALSE(second.ended);
  const auto last = table.segment_done(key, 0, ready.at(0).segment, Error(Code::cancelled, "third"));
  EXPECT_FALSE(last.failed);
  EXPECT_TRUE(last.ended) << "part 1 is not waited for";
  const StepTable::Result result = table.finish(key);
  EXPECT_EQ(result.error.message(), "first");
  EXPECT_TRUE(result.fetches.empty());
}

TEST(StepTable, AnErrorThatIsNoneEndsNothing) {
  TwoArrivals g;
  ToyTask task(g.graph);
  task.table.start(task.key(1), {task.partition}, {}, {});
  const auto progress = task.table.abort(task.key(1), Error());
  EXPECT_FALSE(progress.failed);
  EXPECT_FALSE(progress.ended);
}

TEST(StepTable, IgnoresWhatIsLate) {
  TwoArrivals g;
  ToyTask task(g.graph);
  EXPECT_FALSE(task.table.arrived(task.key(1), 0, 0, i64({1, 2})).ended);
  EXPECT_FALSE(task.table.segment_done(task.key(1), 0, 0, Error()).ended);
  EXPECT_FALSE(task.table.abort(task.key(1), Error(Code::internal, "x")).ended);
  EXPECT_TRUE(task.table.error(task.key(1)).ok());
  task.table.finish(task.key(1));
}

TEST(StepTable, TellsWhatAStepWaitsFor) {
  TwoArrivals g;
  ToyTask task(g.graph);
  using Texts = std::vector<std::string>;
  StepTable& table = task.table;
  table.start(task.key(1), {task.partition}, {}, {});
  EXPECT_EQ(table.waits_for(task.key(1)),
            (Texts{"tensor 'r0' from /device:CPU:9 for /device:CPU:0", "tensor 'r1' from shard 0 for /device:CPU:0"}));
  const auto progress = table.arrived(task.key(1), 0, 0, i64({1, 2}));
  EXPECT_EQ(table.waits_for(task.key(1)),
            (Texts{"tensor 'r1' from shard 0 for /device:CPU:0", "1 segments queued on /device:CPU:0"}));
  Recorder recorder(task.plan());
  run_segment(*progress.ready[0].frame, progress.ready[0].segment, *task.device, recorder);
  table.segment_done(task.key(1), 0, progress.ready[0].segment, Error());
  EXPECT_EQ(table.waits_for(task.key(1)), (Texts{"tensor 'r1' from shard 0 for /device:CPU:0"}));
}

TEST(StepTable, TellsWhichNodeRuns) {
  Graph g;
  fetch(g, node(g, "Square", {node(g, "Neg", {feed(g, 0, kPair, "x")}, "n")}, "slow"), 0, "out");
  ToyTask task(g);
  std::vector<std::string> seen;
  task.hooks.on_square = [&] { seen = task.table.waits_for(task.key(1)); };
  task.start(1, {i64({1, 2})});
  EXPECT_EQ(seen, (std::vector<std::string>{"Square 'slow' running on /device:CPU:0"}));
}

// A task that shuts down forgets its steps while kernels run: frame, plan and variables must outlive that, and the
// frame must not be given to another step.
TEST(StepTable, AForgottenStepLeavesItsRunningSegmentsTheirFrame) {
  auto g = std::make_unique<Graph>();
  fetch(*g, node(*g, "Neg", {node(*g, "Square", {feed(*g, 0, kPair, "x")}, "square")}, "n"), 0, "out");
  ToyTask task(*g);
  std::shared_ptr<const Plan> plan = build_plan(*g, task.kernels, "CPU", "/device:CPU:0");
  std::weak_ptr<const Plan> alive = plan;
  task.partition = std::make_shared<RegisteredPartition>(std::move(plan), std::vector<Variable*>());
  const PlanFrame* frame = nullptr;
  Error error;
  {
    auto progress = task.table.start(task.key(1), {task.partition}, {}, {i64({1, 2})});
    ReadySegment segment = std::move(progress.ready.at(0));
    Recorder recorder(segment.frame->plan());
    frame = segment.frame.get();
    task.hooks.on_square = [&] {
      task.table.abort(task.key(1), Error(Code::cancelled, "shut down"));
      task.table.finish(task.key(1));
      EXPECT_NE(task.partition->take_frame().get(), frame);
      task.partition.reset();
    };
    error = run_segment(*segment.frame, segment.segment, *task.device, recorder);
    EXPECT_FALSE(alive.expired());
  }
  EXPECT_EQ(error.code(), Code::cancelled);
  EXPECT_TRUE(alive.expired());
}

TEST(StepTable, ListsTheStepsOfASession) {
  Graph g;
  recv(g, 0, kPair);
  node(g, "NoOp", {});
  ToyTask task(g);
  const StepKey other{SessionId{2}, StepId{1}};
  for (const StepKey& key : {task.key(1), task.key(2), other}) task.table.start(key, {task.partition}, {}, {});
  EXPECT_EQ(task.table.steps_of(SessionId{1}), (std::vector<StepKey>{task.key(1), task.key(2)}));
  EXPECT_EQ(task.table.steps_of(SessionId{2}), (std::vector<StepKey>{other}));
}

}  // namespace
}  // namespace troupe
