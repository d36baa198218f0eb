// Queues and accumulators of eager mode: calls wait where they are made, and all of it ends with the last handle.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <optional>
#include <thread>
#include <vector>

#include "tests/error_of.hpp"
#include "tests/patience.hpp"
#include <troupe/actors/cluster/task.hpp>
#include <troupe/actors/eager/eager.hpp>
#include <troupe/actors/eager/function.hpp>
#include <troupe/actors/introspection/introspection.hpp>
#include <troupe/graph/builder/accumulator.hpp>
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/builder/queue.hpp>
#include <troupe/graph/builder/variable.hpp>

namespace troupe {
namespace {

using testing::error_of;
using testing::eventually;
using ::testing::HasSubstr;

class EagerQueues : public ::testing::Test {
 protected:
  FifoQueue numbers(std::int64_t capacity = 10) { return {graph_, capacity, {DType::i64}, {Shape{}}}; }
  Output number(std::int64_t value) { return constant(graph_, value); }
  static std::int64_t value(const Output& x) { return x.value().item<std::int64_t>(); }

  Eager eager_;
  Graph& graph_ = eager_.graph();
};

TEST_F(EagerQueues, ACallWaitsForOneOfAnotherThread) {
  const FifoQueue queue = numbers(1);
  auto taken = std::async(std::launch::async, [&] {
    std::vector<std::int64_t> out;
    for (int i = 0; i < 50; ++i) out.push_back(value(queue.dequeue()[0]));
    return out;
  });
  std::vector<std::int64_t> given;
  for (std::int64_t i = 0; i < 50; ++i) {
    queue.enqueue({number(i)});
    given.push_back(i);
  }
  EXPECT_EQ(taken.get(), given);
}

TEST_F(EagerQueues, WithItsLastHandleAQueueIsFree) {
  const Tensor element = Tensor::zeros(DType::f32, Shape{1000});
  {
    const FifoQueue queue(graph_, 10, {DType::f32}, {Shape{1000}});
    for (int i = 0; i < 3; ++i) queue.enqueue({constant(graph_, element)});
    EXPECT_GT(element.buffer()->references(), 3u);
  }
  EXPECT_TRUE(eventually([&] { return element.buffer()->references() == 1; })) << element.buffer()->references();
}

TEST_F(EagerQueues, ATracedFunctionKeepsTheQueueThatItUses) {
  std::optional<FifoQueue> queue = numbers();
  std::optional<TracedFunction> take(std::in_place, eager_, [held = *queue](const Outputs&) { return held.dequeue(); });
  queue->enqueue({number(7)});
  queue->enqueue({number(8)});
  EXPECT_EQ(value((*take)({})[0]), 7);
  queue.reset();
  EXPECT_EQ(value((*take)({})[0]), 8);
}

TEST_F(EagerQueues, EachOfManyHasItsOwnElements) {
  for (std::int64_t i = 0; i < 100; ++i) {  // often where the one before was in memory
    const FifoQueue queue = numbers(i % 2 == 0 ? 10 : 20);
    queue.enqueue({number(i)});
    EXPECT_EQ(queue.size().value().item<std::int32_t>(), 1);
    EXPECT_EQ(value(queue.dequeue()[0]), i);
  }
}

TEST_F(EagerQueues, ErrorsNameTheQueueAndWhatIsWrong) {
  const FifoQueue queue(graph_, 2, {DType::f32}, {Shape{2}}, {.name = "pairs"});
  EXPECT_THAT(error_of([&] { queue.enqueue({constant(graph_, 1.0f)}); }).message(),
              HasSubstr("queue 'pairs': component 0 must be f32[2], not f32[]"));
  EXPECT_THAT(error_of([&] { queue.enqueue_many({constant(graph_, 1.0f)}); }).message(), HasSubstr("has no rows"));
  queue.close();
  const Error closed = error_of([&] { queue.dequeue(); });
  EXPECT_EQ(closed.code(), Code::out_of_range);
  EXPECT_EQ(closed.message(), "queue 'pairs' is closed and has 0 elements left, of 1 wanted");
  const VariableRef w = variable(graph_, {.name = "w", .shape = {2}});
  EXPECT_THAT(error_of([&] { add_op("QueueSize", {w.handle}); }).message(), HasSubstr("no queue or accumulator"));
}

TEST_F(EagerQueues, RowsOfAnySizeRunAsOneKindOfCall) {
  const FifoQueue queue(graph_, 100, {DType::f32});
  for (std::int64_t rows = 1; rows < 6; ++rows) {
    queue.enqueue_many({constant(graph_, Tensor::zeros(DType::f32, Shape{rows, 2}))});
    EXPECT_EQ(queue.dequeue_many(rows)[0].shape(), (Shape{rows, 2}));
  }
}

TEST_F(EagerQueues, MeansOfGradients) {
  const ConditionalAccumulator mean(graph_, DType::f32, Shape{2});
  mean.apply_grad(constant(graph_, Tensor::vector<float>({1, 2})));
  mean.apply_grad(constant(graph_, Tensor::vector<float>({3, 6})));
  EXPECT_EQ(mean.take_grad(2).value().to_string(), "f32[2] = 2 4");
}

TEST(EagerQueuesAfterwards, AHandleMayOutliveItsEager) {
  Task task;
  std::optional<FifoQueue> queue;
  {
    Eager eager(task);
    queue.emplace(eager.graph(), 10, std::vector{DType::i64}, std::vector{Shape{}});
    queue->enqueue({constant<std::int64_t>(eager.graph(), 1)});
  }
  queue.reset();
}

TEST(EagerQueuesAfterwards, AnEagerThatEndsEndsCallsThatWait) {
  Task task;
  std::optional<Eager> eager(std::in_place, task);
  const FifoQueue queue(eager->graph(), 10, {DType::i64}, {Shape{}}, {.name = "empty"});
  auto waits = std::async(std::launch::async, [&] { return error_of([&] { queue.dequeue(); }).code(); });
  EXPECT_TRUE(eventually(
      [&] { return task.introspection().view().why().text.find("dequeue of 'empty'") != std::string::npos; }));
  eager.reset();
  EXPECT_EQ(waits.get(), Code::cancelled);
}

}  // namespace
}  // namespace troupe
