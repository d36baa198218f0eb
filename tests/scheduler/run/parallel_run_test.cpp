// Nodes of a segment on several threads.
#include <gtest/gtest.h>

#include <condition_variable>

#include "tests/scheduler/toy.hpp"

namespace troupe {
namespace {

using namespace testing;

// Squares of `count` values, summed.
Output wide(Graph& g, int count) {
  const Output x = feed(g, 0, kPair, "x");
  Output sum = node(g, "Square", {x});
  for (int i = 1; i < count; ++i)
    sum = node(g, "Add", {sum, node(g, "Square", {node(g, "Add", {x, constant_node(g, i64({i, i}))})})});
  return sum;
}

TEST(ParallelRun, NodesThatDoNotWaitForEachOtherRunAtTheSameTime) {
  Graph g;
  fetch(g, wide(g, 3), 0);
  make_costly(g);
  ToyTask task(g, 2);
  ASSERT_EQ(task.plan().orders.size(), 1u);
  EXPECT_NE(task.plan().dump().find("nodes in parallel"), std::string::npos);
  // A square waits until another has begun.
  std::mutex mutex;
  std::condition_variable both;
  int begun = 0;
  task.hooks.on_square = [&] {
    std::unique_lock lock(mutex);
    ++begun;
    both.notify_all();
    both.wait(lock, [&] { return begun >= 2; });
  };
  task.start(1, {i64({1, 2})});
  EXPECT_EQ(numbers(task.finish(1).at(0)), (std::vector<std::int64_t>{1 + 4 + 9, 4 + 9 + 16}));
}

TEST(ParallelRun, CheapOrNarrowSegmentsRunInOrder) {
  Graph cheap;
  fetch(cheap, wide(cheap, 10), 0);
  EXPECT_TRUE(ToyTask(cheap, 2).plan().orders.empty());
  Graph chain;
  Output y = feed(chain, 0, kPair, "x");
  for (int i = 0; i < 10; ++i) y = node(chain, "Neg", {y});
  fetch(chain, y, 0);
  make_costly(chain);
  EXPECT_TRUE(ToyTask(chain, 2).plan().orders.empty());
}

TEST(ParallelRun, UsersOfAVariableKeepTheOrderOfThePlan) {
  Graph g;
  const Output v = variable_node(g, "v", kPair);
  std::int64_t fetches = 0;
  // No edges between these: the order is that of their numbers.
  for (std::int64_t i = 1; i <= 20; ++i) {
    fetch(g, node(g, "ReadVariable", {v}, {}, {{"T", DType::i64}}), fetches++);
    fetch(g, node(g, "ReadVariable", {v}, {}, {{"T", DType::i64}}), fetches++);
    node(g, i % 2 == 0 ? "AssignVariable" : "AssignAddVariable", {v, constant_node(g, i64({i, -i}))});
  }
  make_costly(g);
  ToyTask one(g, 1), many(g, 4);
  ASSERT_EQ(many.plan().orders.size(), 1u);
  for (ToyTask* task : {&one, &many}) task->variable("v").assign(i64({100, 100}));
  for (std::uint64_t step = 1; step <= 20; ++step) {
    one.start(step);
    many.start(step);
    const auto expected = one.finish(step), got = many.finish(step);
    ASSERT_EQ(got.size(), 40u) << "step " << step;
    for (const auto& [index, tensor] : expected)
      EXPECT_EQ(numbers(got.at(index)), numbers(tensor)) << "fetch " << index;
  }
}

TEST(ParallelRun, TheFirstErrorEndsTheSegmentAndTheFrameCanBeUsedAgain) {
  Graph g;
  const Output x = feed(g, 0, kPair, "x");
  Output sum = node(g, "Abs", {x}, "positive");
  for (int i = 0; i < 50; ++i) sum = node(g, "Add", {sum, node(g, "Square", {x})});
  fetch(g, sum, 0);
  make_costly(g);
  ToyTask task(g, 3);
  ASSERT_EQ(task.plan().orders.size(), 1u);
  for (std::uint64_t step = 1; step <= 20; ++step) {
    SCOPED_TRACE(::testing::Message() << "step " << step);
    const bool fails = step % 2 == 1;
    task.start(step, {fails ? i64({-1, 2}) : i64({1, 2})});
    ASSERT_TRUE(task.ended[step]);
    EXPECT_EQ(task.table.error(task.key(step)).message(),
              fails ? "Abs 'positive' on /device:CPU:0: -1 is negative" : "");
    const auto fetched = task.finish(step);
    if (!fails) {
      EXPECT_EQ(numbers(fetched.at(0)), (std::vector<std::int64_t>{51, 202}));
    }
  }
}

TEST(ParallelRun, AnAbortedSegmentStops) {
  Graph g;
  fetch(g, wide(g, 100), 0);
  make_costly(g);
  ToyTask task(g, 2);
  std::atomic<int> squares = 0;
  task.hooks.on_square = [&] {
    if (++squares == 3) task.ready_frame->aborted.store(true);
  };
  auto progress = task.table.start(task.key(1), {task.partition}, {}, {i64({1, 2})});
  task.ready_frame = progress.ready[0].frame;
  Recorder recorder(task.plan());
  const Error error = run_segment(*progress.ready[0].frame, 0, *task.device, recorder);
  EXPECT_EQ(error.code(), Code::cancelled);
  EXPECT_LE(squares, 4);
}

}  // namespace
}  // namespace troupe
