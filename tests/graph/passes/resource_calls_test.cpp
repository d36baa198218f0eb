#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/graph/messages.hpp"
#include <troupe/graph/builder/accumulator.hpp>
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/builder/queue.hpp>
#include <troupe/graph/builder/variable.hpp>
#include <troupe/graph/passes/resource_calls.hpp>

namespace troupe {
namespace {

using ::testing::HasSubstr;

TEST(ResourceCalls, BecomeARequestAndAnAnswer) {
  Graph graph;
  FifoQueue queue(graph, 5, {DType::f32, DType::i64}, {Shape{2}, Shape{}}, {.name = "queue"});
  const Outputs taken = queue.dequeue_many(3, "take");
  identity(taken[1], "second");
  EXPECT_TRUE(has_resource_calls(graph));
  const auto expanded = expand_resource_calls(graph);
  EXPECT_FALSE(has_resource_calls(*expanded));
  const Node& results = *expanded->find("take_1");
  EXPECT_EQ(results.op->name, "CallResults");
  EXPECT_EQ(results.output_shapes[0].to_string(), "[?,2]");
  const Node& answer = expanded->node(results.inputs[0].node);
  EXPECT_TRUE(answer.op->is_arrival());
  ASSERT_EQ(answer.controls.size(), 1u);
  const Node& request = expanded->node(answer.controls[0]);
  EXPECT_TRUE(request.op->is_departure());
  EXPECT_EQ(request.attributes.integer("edge"), answer.attributes.integer("edge"));
  EXPECT_EQ(answer.attributes.string("from"), "FIFOQueue 'queue'");
  for (const Node* node : {&results, &answer, &request}) EXPECT_EQ(node->colocate_with, "queue") << node->name;
  EXPECT_EQ(expanded->get("second").inputs[0], (Endpoint{results.id, 1}));
}

// Ops of libraries may have an attribute of any name.
TEST(ResourceCalls, AnOpIsACallByItsHandleAndOperation) {
  OpRegistry ops;
  ops.add(
      Op("Mine").input("x", DType::f32).output("y", DType::f32).attr("operation", "blur").shape([](ShapeContext& c) {
        c.set_output(0, c.input(0));
      }));
  EXPECT_FALSE(calls_resource(ops.get("Mine")));
  Graph graph;
  int calls = 0;
  for (const std::string& name : graph.ops().names()) calls += calls_resource(graph.ops().get(name)) ? 1 : 0;
  EXPECT_EQ(calls, 14);
}

TEST(ResourceCalls, KeepTheirOrder) {
  Graph graph;
  FifoQueue queue(graph, 5, {DType::i64}, {Shape{}}, {.name = "queue"});
  const Output put = queue.enqueue({constant<std::int64_t>(graph, 1)}, "put");
  {
    const auto after = graph.after({put});
    queue.dequeue("take");
  }
  const auto expanded = expand_resource_calls(graph);
  const Node& put_ends = expanded->get("put_1");
  const std::vector<int>& controls = expanded->get("take/request").controls;
  EXPECT_NE(std::ranges::find(controls, put_ends.id), controls.end());
}

TEST(ResourceCalls, ResourcesAreNoVariables) {
  Graph graph;
  FifoQueue(graph, 5, {DType::i64});
  ConditionalAccumulator(graph, DType::f32);
  variable(graph, {.name = "w", .shape = Shape{2}});
  ASSERT_EQ(variables(graph).size(), 1u);
  EXPECT_EQ(variables(graph)[0].name, "w");
}

TEST(ResourceCalls, MisuseIsRefused) {
  Graph graph;
  EXPECT_THAT(testing::message_of([&] { FifoQueue(graph, 0, {DType::i64}); }), HasSubstr("a capacity of 0 is below 1"));
  EXPECT_THAT(testing::message_of([&] {
                FifoQueue(graph, 1, {DType::i64}, {Shape{}, Shape{}});
              }),
              HasSubstr("2 shapes for 1 components"));
  EXPECT_THAT(testing::message_of([&] { ConditionalAccumulator(graph, DType::i64); }), HasSubstr("floating dtype"));
  FifoQueue queue(graph, 1, {DType::i64});
  EXPECT_THAT(testing::message_of([&] { queue.enqueue({constant(graph, 1.0f)}); }),
              HasSubstr("component 0 must be i64"));
}

TEST(ResourceCalls, ResourcesAreOnCpus) {
  Graph graph;
  const auto there = graph.on_device("/job:ps/task:1/device:GPU:2");
  EXPECT_EQ(FifoQueue(graph, 1, {DType::i64}).handle().source().device, "/job:ps/task:1/device:CPU:0");
}

}  // namespace
}  // namespace troupe
