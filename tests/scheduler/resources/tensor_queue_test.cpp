#include <gtest/gtest.h>

#include <map>

#include <troupe/scheduler/resources/resource_calls.hpp>
#include <troupe/scheduler/resources/tensor_queue.hpp>

namespace troupe {
namespace {

using enum ResourceOperation;

Tensor number(std::int64_t value) { return Tensor::scalar(value); }

TensorQueue queue_of(std::int64_t capacity) {
  return TensorQueue("queue", "FIFOQueue", {.capacity = capacity, .dtypes = {DType::i64}, .shapes = {Shape{}}});
}

// Numbers the calls on one queue, and keeps their answers.
class Caller {
 public:
  explicit Caller(TensorQueue& queue) : queue_(queue) {}
  CallId call(ResourceOperation operation, std::vector<std::int64_t> values = {}) {
    ResourceCall call{operation, {}};
    for (const std::int64_t value : values) call.values.push_back(number(value));
    CallAnswers answers;
    queue_.call(++last_, std::move(call), answers);
    keep(answers);
    return last_;
  }
  void drop(std::vector<CallId> calls) {
    CallAnswers answers;
    queue_.drop(calls, answers);
    keep(answers);
  }
  bool answered(CallId call) const { return answers_.contains(call); }
  Code code(CallId call) const { return answers_.at(call).error.code(); }
  std::vector<std::int64_t> values(CallId call) const {
    std::vector<std::int64_t> out;
    for (const Tensor& value : answers_.at(call).values) out.push_back(value.item<std::int64_t>());
    return out;
  }

 private:
  void keep(CallAnswers& answers) {
    for (CallAnswer& answer : answers)
      EXPECT_TRUE(answers_.emplace(answer.call, std::move(answer)).second) << "call " << answer.call << " twice";
  }

  TensorQueue& queue_;
  CallId last_ = 0;
  std::map<CallId, CallAnswer> answers_;
};

using Numbers = std::vector<std::int64_t>;

TEST(TensorQueue, ElementsLeaveInTheOrderOfTheirArrival) {
  TensorQueue queue = queue_of(3);
  Caller caller(queue);
  caller.call(enqueue, {1, 2});
  caller.call(enqueue, {3});
  EXPECT_EQ(caller.values(caller.call(dequeue)), (Numbers{1}));
  EXPECT_EQ(caller.values(caller.call(dequeue_many, {2})), (Numbers{2, 3}));
}

TEST(TensorQueue, AnEnqueueWaitsForRoom) {
  TensorQueue queue = queue_of(2);
  Caller caller(queue);
  const CallId three = caller.call(enqueue, {1, 2, 3});
  EXPECT_FALSE(caller.answered(three));
  EXPECT_EQ(queue.describe(), "2 of 2 elements (24 bytes), open; 1 call for room");
  caller.call(dequeue);
  EXPECT_EQ(caller.code(three), Code::ok);
}

TEST(TensorQueue, DequeueManyTakesMoreThanTheCapacity) {
  TensorQueue queue = queue_of(2);
  Caller caller(queue);
  const CallId five = caller.call(dequeue_many, {5});
  caller.call(enqueue, {1, 2, 3});
  EXPECT_FALSE(caller.answered(five));
  EXPECT_EQ(queue.describe(), "0 of 2 elements (24 bytes), open; 1 call for elements, the oldest for 2 more");
  caller.call(enqueue, {4, 5});
  EXPECT_EQ(caller.values(five), (Numbers{1, 2, 3, 4, 5}));
}

TEST(TensorQueue, WhatADroppedCallHadTakenIsAtTheFrontAgain) {
  TensorQueue queue = queue_of(5);
  Caller caller(queue);
  const CallId three = caller.call(dequeue_many, {3});
  caller.call(enqueue, {1, 2});
  const CallId next = caller.call(dequeue);
  EXPECT_FALSE(caller.answered(next));
  caller.drop({three});
  EXPECT_FALSE(caller.answered(three));
  EXPECT_EQ(caller.values(next), (Numbers{1}));
  EXPECT_EQ(queue.size(), 1u);
}

TEST(TensorQueue, OfTwoDroppedCallsNoneGetsWhatTheOtherLeaves) {
  TensorQueue queue = queue_of(5);
  Caller caller(queue);
  const CallId three = caller.call(dequeue_many, {3}), one = caller.call(dequeue);
  caller.call(enqueue, {1, 2});
  caller.drop({three, one});
  EXPECT_FALSE(caller.answered(one));
  EXPECT_EQ(queue.size(), 2u);
}

TEST(TensorQueue, AClosedQueueGivesWhatIsLeft) {
  TensorQueue queue = queue_of(2);
  Caller caller(queue);
  const CallId waiting = caller.call(enqueue, {1, 2, 3});
  EXPECT_EQ(caller.code(caller.call(close)), Code::ok);
  EXPECT_EQ(caller.code(caller.call(enqueue, {4})), Code::cancelled);
  EXPECT_FALSE(caller.answered(waiting));
  EXPECT_EQ(caller.code(caller.call(dequeue_many, {4})), Code::out_of_range);
  EXPECT_EQ(caller.code(waiting), Code::ok);
  EXPECT_EQ(queue.size(), 3u);  // all that the call had taken
  EXPECT_EQ(caller.values(caller.call(dequeue_up_to, {4})), (Numbers{1, 2, 3}));
  EXPECT_EQ(caller.code(caller.call(dequeue_up_to, {4})), Code::out_of_range);
  EXPECT_EQ(caller.code(caller.call(dequeue)), Code::out_of_range);
}

TEST(TensorQueue, ClosingMayCancelEnqueuesThatWait) {
  TensorQueue queue = queue_of(1);
  Caller caller(queue);
  const CallId waiting = caller.call(enqueue, {1, 2});
  caller.call(close_and_cancel);
  EXPECT_EQ(caller.code(waiting), Code::cancelled);
  EXPECT_EQ(caller.values(caller.call(dequeue)), (Numbers{1}));
}

TEST(TensorQueue, ClosingEndsDequeuesThatWait) {
  TensorQueue queue = queue_of(1);
  Caller caller(queue);
  const CallId one = caller.call(dequeue), other = caller.call(dequeue_up_to, {2});
  caller.call(close);
  EXPECT_EQ(caller.code(one), Code::out_of_range);
  EXPECT_EQ(caller.code(other), Code::out_of_range);
}

TEST(TensorQueue, AnElementOfAnotherShapeChangesNothing) {
  TensorQueue queue = queue_of(2);
  CallAnswers answers;
  queue.call(1, {enqueue, {number(1), Tensor::vector<std::int64_t>({2, 3})}}, answers);
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].error.message(), "queue 'queue': component 0 must be i64[], not i64[2]");
  EXPECT_EQ(queue.size(), 0u);
}

TEST(TensorQueue, AShuffledQueueKeepsSomeUntilItIsClosed) {
  const auto order = [](std::uint64_t seed) {
    TensorQueue queue("queue", "RandomShuffleQueue",
                      {.capacity = 20,
                       .dtypes = {DType::i64},
                       .shapes = {Shape{}},
                       .shuffled = true,
                       .min_after_dequeue = 4,
                       .seed = seed});
    Caller caller(queue);
    Numbers all;
    for (std::int64_t i = 0; i < 12; ++i) all.push_back(i);
    caller.call(enqueue, all);
    Numbers left = caller.values(caller.call(dequeue_many, {8}));
    const CallId more = caller.call(dequeue_many, {4});
    EXPECT_FALSE(caller.answered(more));
    caller.call(close);
    for (const std::int64_t value : caller.values(more)) left.push_back(value);
    return left;
  };
  Numbers sorted = order(1);
  EXPECT_EQ(sorted, order(1));
  EXPECT_NE(sorted, order(2));
  std::ranges::sort(sorted);
  for (std::int64_t i = 0; i < 12; ++i) EXPECT_EQ(sorted[static_cast<std::size_t>(i)], i);
}

// Priorities alone tell elements apart; those of a pair also the order of arrival.
TEST(TensorQueue, TheLowestPriorityLeavesFirst) {
  TensorQueue queue(
      "queue", "PriorityQueue",
      {.capacity = 10, .dtypes = {DType::i64, DType::i64}, .shapes = {Shape{}, Shape{}}, .by_priority = true});
  Caller caller(queue);
  caller.call(enqueue, {5, 1, 3, 2, 5, 3, 3, 4});
  EXPECT_EQ(caller.values(caller.call(dequeue)), (Numbers{3, 2}));
  // What a dropped call had taken is in its place again: before a later one of the same priority.
  const CallId most = caller.call(dequeue_many, {5});
  EXPECT_EQ(queue.size(), 0u);
  caller.drop({most});
  caller.call(enqueue, {3, 5, -7, 6});
  EXPECT_EQ(caller.values(caller.call(dequeue_many, {5})), (Numbers{-7, 6, 3, 4, 3, 5, 5, 1, 5, 3}));
  EXPECT_THROW(TensorQueue("queue", "PriorityQueue",
                           {.capacity = 1, .dtypes = {DType::f32}, .shapes = {Shape{}}, .by_priority = true}),
               Error);
}

TEST(ResourceCalls, AStepThatEndsLetsOthersGoOn) {
  TensorQueue queue = queue_of(5);
  ResourceCalls calls;
  const auto key = [](std::uint64_t step, std::uint32_t edge) {
    return RendezvousKey{SessionId{1}, StepId{step}, EdgeId{edge}};
  };
  EXPECT_TRUE(calls.call(key(1, 1), queue, {dequeue_many, {number(3)}}).empty());
  EXPECT_TRUE(calls.call(key(1, 2), queue, {dequeue, {}}).empty());
  EXPECT_TRUE(calls.call(key(2, 1), queue, {dequeue, {}}).empty());
  EXPECT_EQ(calls.call(key(3, 1), queue, {enqueue, {number(7)}}).size(), 1u);
  EXPECT_EQ(calls.describe(key(1, 1)),
            "dequeue_many of 'queue', a FIFOQueue: 0 of 5 elements (8 bytes), open; 3 calls for elements, the oldest "
            "for 2 more");
  const auto answers = calls.end_step(SessionId{1}, StepId{1});
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].to, key(2, 1));
  EXPECT_EQ(answers[0].values[0].item<std::int64_t>(), 7);
  EXPECT_TRUE(calls.empty());
}

}  // namespace
}  // namespace troupe
