// Sparse tensors in steps of sessions: on devices of other tasks, in loops, and what they cost.
#include <gtest/gtest.h>

#include <chrono>

#include "tests/actors/task_cluster.hpp"
#include "tests/error_of.hpp"
#include <troupe/actors/introspection/introspection.hpp>
#include <troupe/actors/session/session.hpp>
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/builder/sparse.hpp>
#include <troupe/graph/builder/variable.hpp>
#include <troupe/graph/gradients/autodiff.hpp>
#include <troupe/graph/optimizers/optimizers.hpp>

namespace troupe::testing {
namespace {

// `count` elements of value 1, one in each row.
SparseTensorValue diagonal(std::int64_t count, std::int64_t size) {
  SparseTensorValue out{.indices = Tensor(DType::i64, {count, 2}), .values = Tensor(DType::f32, {count})};
  for (std::int64_t i = 0; i < count; ++i) {
    out.indices.mutable_data<std::int64_t>()[2 * i] = i;
    out.indices.mutable_data<std::int64_t>()[2 * i + 1] = i;
    out.values.mutable_data<float>()[i] = 1;
  }
  out.dense_shape = Tensor::vector<std::int64_t>({size, size});
  return out;
}

SparseTensorValue run_sparse(Session& session, const Feeds& feeds, const SparseTensor& x) {
  return sparse_value(session.run(feeds, parts_of(x)));
}

std::uint64_t bytes_sent(Task& task) {
  std::uint64_t sum = 0;
  for (const LinkSnapshot& link : task.introspection().links()) sum += link.bytes_sent;
  return sum;
}

TEST(SparseSteps, AreFedAndFetchedAsOneValue) {
  Graph graph;
  const SparseTensor x = sparse_placeholder(graph, DType::f32, {kUnknown, 4});
  const SparseTensor sum = sparse_add(x, sparse_reorder(x));
  Session session(graph);
  for (const std::int64_t count : {0, 1, 4}) {
    Feeds feeds;
    feed(feeds, x, diagonal(count, 4));
    const SparseTensorValue found = run_sparse(session, feeds, sum);
    EXPECT_EQ(found.indices.shape(), (Shape{count, 2}));
    EXPECT_EQ(found.values.to_string(), count == 4 ? "f32[4] = 2 2 2 2" : count == 1 ? "f32[1] = 2" : "f32[0] =");
    EXPECT_EQ(found.dense_shape.to_string(), "i64[2] = 4 4");
  }
}

// A sparse matrix of 10^12 elements, of which 1,000 are there: 20 bytes each, there and back.
TEST(SparseSteps, CostTheElementsThatAreThereOnTheWire) {
  const TaskCluster tasks{std::vector<TaskName>{{"worker", 0}, {"worker", 1}}};
  constexpr std::int64_t kSize = 1'000'000, kCount = 1'000;
  Graph graph;
  const SparseTensor x = sparse_placeholder(graph, DType::f32, {kSize, kSize});
  SparseTensor doubled;
  {
    const auto there = graph.on_device("/job:worker/task:1");
    doubled = sparse_transpose(sparse_add(x, x));
  }
  Session session(tasks[0], graph);
  Feeds feeds;
  feed(feeds, x, diagonal(kCount, kSize));
  run_sparse(session, feeds, doubled);  // connects, registers
  const std::uint64_t there = bytes_sent(tasks[0]), back = bytes_sent(tasks[1]);
  const SparseTensorValue found = run_sparse(session, feeds, doubled);
  EXPECT_EQ(found.values.data<float>()[kCount - 1], 2);
  EXPECT_EQ(found.indices.shape(), (Shape{kCount, 2}));
  constexpr std::uint64_t kBytes = kCount * (2 * sizeof(std::int64_t) + sizeof(float));
  EXPECT_GE(bytes_sent(tasks[0]) - there, kBytes);
  EXPECT_LE(bytes_sent(tasks[0]) - there, kBytes + 8'000);
  EXPECT_LE(bytes_sent(tasks[1]) - back, kBytes + 8'000);
}

TEST(SparseSteps, RunInLoopsAndBranches) {
  Graph graph;
  const SparseTensor x = sparse_placeholder(graph, DType::f32, {4, 4});
  const Outputs last = while_loop([](const Outputs& v) { return less(v[0], constant<std::int64_t>(*v[0].graph, 3)); },
                                  [](const Outputs& v) -> Outputs {
                                    const SparseTensor in{.indices = v[1], .values = v[2], .dense_shape = v[3]};
                                    const SparseTensor sum = sparse_add(in, in);
                                    return {v[0] + 1.0, sum.indices, sum.values, sum.dense_shape};
                                  },
                                  {constant<std::int64_t>(graph, 0), x.indices, x.values, x.dense_shape});
  Session session(graph);
  Feeds feeds;
  feed(feeds, x, diagonal(2, 4));
  EXPECT_EQ(session.run(feeds, last[2]).to_string(), "f32[2] = 8 8");
}

// w converges to what makes every product of the training set 1.
TEST(SparseSteps, TrainVariables) {
  Graph graph;
  const SparseTensor x = sparse_placeholder(graph, DType::f32, {kUnknown, 4});
  VariableOptions options;
  options.name = "w";
  options.shape = Shape{4, 1};
  const VariableRef w = variable(graph, options);
  const Output loss = mean(square(sparse_dense_matmul(x, w.read()) - 1.0));
  const Output step = minimize(loss, optimizers::SGD{.learning_rate = 1});
  const Output start = initializer(graph);
  Session session(graph);
  session.run_targets({start});
  Feeds feeds;
  feed(feeds, x, diagonal(4, 4));
  for (int i = 0; i < 50; ++i) session.run(feeds, {}, {step});
  EXPECT_LT(session.run(feeds, loss).item<float>(), 1e-6F);
}

TEST(SparseSteps, NameTheNodeOfAnElementOutsideOfTheShape) {
  Graph graph;
  const SparseTensor x = sparse_placeholder(graph, DType::f32, {2, 2});
  SparseToDenseOptions options;
  options.name = "whole";
  const Output dense = sparse_to_dense(x, options);
  Session session(graph);
  SparseTensorValue value = diagonal(1, 2);
  value.indices.mutable_data<std::int64_t>()[1] = 2;
  Feeds feeds;
  feed(feeds, x, value);
  const Error error = error_of([&] { session.run(feeds, dense); });
  EXPECT_EQ(error.code(), Code::invalid_argument);
  EXPECT_NE(error.to_string().find("whole"), std::string::npos);
  EXPECT_NE(error.to_string().find("element 0 of the sparse tensor is at [0,2], outside of its shape [2,2]"),
            std::string::npos);
}

}  // namespace
}  // namespace troupe::testing
