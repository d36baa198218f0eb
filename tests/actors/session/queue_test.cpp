// Queues, accumulators and hash tables in steps of sessions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>

#include "tests/actors/task_cluster.hpp"
#include "tests/error_of.hpp"
#include "tests/patience.hpp"
#include <troupe/actors/introspection/introspection.hpp>
#include <troupe/actors/session/session.hpp>
#include <troupe/graph/builder/accumulator.hpp>
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/builder/hash_table.hpp>
#include <troupe/graph/builder/queue.hpp>

namespace troupe::testing {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

struct Numbers {
  explicit Numbers(std::int64_t capacity, const std::string& device = {})
      : x(placeholder(graph, DType::i64, Shape{}, "x")),
        queue(graph, capacity, {DType::i64}, {Shape{}}, {.name = "numbers", .device = device}),
        put(queue.enqueue({x}, "put")),
        next(queue.dequeue("next")[0]),
        three(queue.dequeue_many(3, "three")[0]),
        size(queue.size("size")),
        close(queue.close(false, "close")),
        cancel(queue.close(true, "cancel")) {}

  Graph graph;
  Output x;
  FifoQueue queue;
  Output put, next, three, size, close, cancel;
};

void put(Session& session, const Numbers& of, std::int64_t value) {
  session.run({{of.x, Tensor::scalar(value)}}, {}, {of.put});
}

TEST(Queues, StepsHandElementsToLaterSteps) {
  const Numbers of(5);
  Session session(of.graph);
  for (const std::int64_t i : {1, 2, 3, 4}) put(session, of, i);
  EXPECT_EQ(session.run(of.size).item<std::int32_t>(), 4);
  EXPECT_EQ(session.run(of.next).item<std::int64_t>(), 1);
  EXPECT_EQ(session.run(of.three).to_string(), "i64[3] = 2 3 4");
}

TEST(Queues, AStepWaitsForAnElementAndForRoom) {
  const Numbers of(1);
  Session session(of.graph);
  const Callable next = session.callable({}, {of.next}), enqueue = session.callable({of.x}, {}, {of.put});
  auto first = next.async({});
  put(session, of, 7);
  EXPECT_EQ(first.get()[0].item<std::int64_t>(), 7);
  put(session, of, 8);
  auto full = enqueue.async({Tensor::scalar<std::int64_t>(9)});
  EXPECT_EQ(session.run(of.next).item<std::int64_t>(), 8);
  full.get();
  EXPECT_EQ(session.run(of.next).item<std::int64_t>(), 9);
}

TEST(Queues, WaitingStepsEndWithADeadlineWithCancelAndWithTheQueue) {
  const Numbers of(5);
  Session session(of.graph);
  const Error late = error_of([&] { session.run({}, {of.next}, {}, {.timeout = 30ms}); });
  EXPECT_EQ(late.code(), Code::deadline_exceeded);
  EXPECT_THAT(late.message(), HasSubstr("FIFOQueue 'numbers'"));

  const Callable three = session.callable({}, {of.three});
  std::promise<StepResult> ended;
  const StepId step = three.start({}, {}, [&](StepResult result) { ended.set_value(std::move(result)); });
  put(session, of, 1);
  session.cancel(step);
  EXPECT_EQ(ended.get_future().get().error.code(), Code::cancelled);
  EXPECT_EQ(session.run(of.next).item<std::int64_t>(), 1) << "the cancelled step has kept what it had taken";

  auto waits = session.callable({}, {of.next}).async({});
  session.run_targets({of.close});
  EXPECT_EQ(error_of([&] { waits.get(); }).code(), Code::out_of_range);
  EXPECT_EQ(error_of([&] { put(session, of, 1); }).code(), Code::cancelled);
}

TEST(Queues, ASessionThatClosesEndsItsSteps) {
  const Numbers of(5);
  Session session(of.graph);
  auto waits = session.callable({}, {of.next}).async({});
  session.close();
  EXPECT_EQ(error_of([&] { waits.get(); }).code(), Code::cancelled);
}

TEST(Queues, WhyNamesTheQueue) {
  Task task;
  const Numbers of(5);
  Session session(task, of.graph);
  auto waits = session.callable({}, {of.three}).async({});
  put(session, of, 1);
  std::string why;
  EXPECT_TRUE(eventually([&] {
    why = task.introspection().view().why().text;
    return why.find("dequeue_many of 'numbers'") != std::string::npos;
  })) << why;
  EXPECT_THAT(why, HasSubstr("0 of 5 elements (8 bytes), open; 1 call for elements, the oldest for 2 more"));
  session.close();
}

TEST(Queues, SessionsOfOneContainerShareThem) {
  const TaskCluster tasks{std::vector<TaskName>{{"ps", 0}, {"worker", 0}, {"worker", 1}}};
  const Numbers of(2, "/job:ps/task:0");
  Session producer(tasks[1], of.graph, {.container = "shared"}), consumer(tasks[2], of.graph, {.container = "shared"});
  auto three = consumer.callable({}, {of.three}).async({});
  for (const std::int64_t i : {1, 2, 3}) put(producer, of, i);
  EXPECT_EQ(three.get()[0].to_string(), "i64[3] = 1 2 3");
  // A client that ends while it waits leaves the elements to others.
  auto waits = producer.callable({}, {of.three}).async({});
  put(consumer, of, 4);
  producer.close();
  EXPECT_EQ(error_of([&] { waits.get(); }).code(), Code::cancelled);
  EXPECT_EQ(consumer.run(of.next).item<std::int64_t>(), 4);
}

TEST(Queues, ATaskThatIsLostLeavesWhatItHadTaken) {
  TaskCluster tasks{std::vector<TaskName>{{"ps", 0}, {"worker", 0}, {"worker", 1}}};
  const Numbers of(2, "/job:ps/task:0");
  Session lost(tasks[1], of.graph, {.container = "shared"}), consumer(tasks[2], of.graph, {.container = "shared"});
  auto three = lost.callable({}, {of.three}).async({});
  put(consumer, of, 4);
  EXPECT_TRUE(eventually([&] { return consumer.run(of.size).item<std::int32_t>() == 0; }));
  tasks.shut_down(1);
  EXPECT_NE(error_of([&] { three.get(); }).code(), Code::ok);
  EXPECT_EQ(consumer.run(of.next).item<std::int64_t>(), 4);
}

TEST(Queues, AnotherDeclarationIsRefused) {
  Task task;
  const Numbers of(5), other(6);
  Session one(task, of.graph, {.container = "shared"}), two(task, other.graph, {.container = "shared"});
  one.run(of.size);
  EXPECT_THAT(error_of([&] { two.run(other.size); }).message(),
              HasSubstr("'numbers' is FIFOQueue(capacity 5; i64[]) in this session or its container, but the graph "
                        "declares it as FIFOQueue(capacity 6; i64[])"));
}

TEST(Queues, RowsAndStringsAreElements) {
  Graph graph;
  FifoQueue queue(graph, 10, {DType::string, DType::f32}, {Shape{}, Shape{2}});
  const Output put = queue.enqueue_many({constant(graph, Tensor::vector<std::string>({"a", "b"})),
                                         constant(graph, Tensor::of<float>({2, 2}, {1, 2, 3, 4}))});
  const Outputs rest = queue.dequeue_up_to(5);
  const Output close = queue.close();
  Session session(graph);
  session.run_targets({put});
  session.run_targets({close});
  const auto found = session.run(rest);
  EXPECT_EQ(found[0].to_string(), "string[2] = a b");
  EXPECT_EQ(found[1].to_string(), "f32[2,2] = 1 2 3 4");
}

TEST(Queues, NodesThatDeclareOtherComponentsAreRefused) {
  Graph graph;
  FifoQueue queue(graph, 10, {DType::i64}, {Shape{}});
  const Output put = queue.enqueue({constant<std::int64_t>(graph, 1)});
  const auto take = [&](std::vector<DType> types, Integers shapes) {
    return add_outputs("QueueDequeue", {queue.handle()}, {{"types", std::move(types)}, {"shapes", std::move(shapes)}});
  };
  const Outputs two = take({DType::i64, DType::i64}, {0, 0}), other = take({DType::f32}, {0});
  Session session(graph);
  for (const Output& wrong : {two[1], other[0]}) {
    session.run_targets({put});
    EXPECT_THAT(error_of([&] { session.run(wrong); }).message(), HasSubstr("expected"));
  }
}

TEST(Queues, TheBodyOfALoopCannotWait) {
  Graph graph;
  FifoQueue queue(graph, 10, {DType::i64}, {Shape{}});
  EXPECT_THAT(error_of([&] {
                const Outputs last = while_loop([](const Outputs& v) { return less(v[0], scalar_like(v[0], 3)); },
                                                [&](const Outputs& v) { return Outputs{v[0] + queue.dequeue()[0]}; },
                                                {constant<std::int64_t>(graph, 0)});
                Session(graph).run(last[0]);
              }).message(),
              HasSubstr("loop"));
}

TEST(Accumulators, MeansAreThoseOfTheGradientsThatArrived) {
  Graph graph;
  const Output gradient = placeholder(graph, DType::f32, Shape{2}, "gradient");
  const Output step = placeholder(graph, DType::i64, Shape{}, "step");
  ConditionalAccumulator mean(graph, DType::f32, Shape{2});
  const Output give = mean.apply_grad(gradient, step), take = mean.take_grad(2), count = mean.num_accumulated();
  Session session(graph);
  const auto apply = [&](float a, float b, std::int64_t at) {
    session.run({{gradient, Tensor::vector<float>({a, b})}, {step, Tensor::scalar(at)}}, {}, {give});
  };
  auto taken = session.callable({}, {take}).async({});
  apply(1, 2, 0);
  apply(3, 5, 0);
  EXPECT_EQ(taken.get()[0].to_string(), "f32[2] = 2 3.5");
  apply(9, 9, 0);
  EXPECT_EQ(session.run(count).item<std::int32_t>(), 0) << "a gradient of the step that was taken";
}

TEST(Accumulators, RowsAreMeansOverThoseThatTouchThem) {
  Graph graph;
  SparseConditionalAccumulator rows(graph, DType::f32, Shape{4, 1});
  const auto give = [&](std::initializer_list<std::int64_t> indices, std::initializer_list<float> values) {
    return rows.apply_grad(constant(graph, Tensor::vector<std::int64_t>(indices)),
                           constant(graph, Tensor::of<float>({static_cast<std::int64_t>(values.size()), 1}, values)));
  };
  const Output first = give({3, 1}, {1, 2}), second = give({3, 3}, {2, 4});
  const auto taken = rows.take_grad(2);
  Session session(graph);
  session.run_targets({first});
  session.run_targets({second});
  const auto found = session.run({taken.indices, taken.values});
  EXPECT_EQ(found[0].to_string(), "i64[2] = 1 3");
  EXPECT_EQ(found[1].to_string(), "f32[2,1] = 2 3.5");
}

TEST(HashTables, EntriesChange) {
  Graph graph;
  const Output keys = placeholder(graph, DType::string, Shape{kUnknown}, "keys");
  const Output values = placeholder(graph, DType::f32, Shape{kUnknown, 2}, "values");
  MutableHashTable table(graph, DType::string, DType::f32, Shape{2});
  const Output insert = table.insert(keys, values), remove = table.remove(keys);
  const Output find = table.lookup(keys, constant(graph, Tensor::vector<float>({0, -1})));
  const auto all = table.export_entries();
  const Output size = table.size();
  Session session(graph);
  session.run(
      {{keys, Tensor::vector<std::string>({"a", "b", "c"})}, {values, Tensor::of<float>({3, 2}, {1, 2, 3, 4, 5, 6})}},
      {}, {insert});
  EXPECT_EQ(session.run({{keys, Tensor::vector<std::string>({"c", "x"})}}, find).to_string(), "f32[2,2] = 5 6 0 -1");
  session.run({{keys, Tensor::vector<std::string>({"a", "x"})}}, {}, {remove});
  const auto found = session.run({all.keys, all.values, size});
  EXPECT_EQ(found[0].to_string(), "string[2] = c b");
  EXPECT_EQ(found[1].to_string(), "f32[2,2] = 5 6 3 4");
  EXPECT_EQ(found[2].item<std::int64_t>(), 2);
}

}  // namespace
}  // namespace troupe::testing
