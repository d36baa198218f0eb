// Large constants, which a session shares with the plans of its task.
#include <gtest/gtest.h>

#include <algorithm>

#include <troupe/actors/session/session.hpp>
#include <troupe/graph/builder/builder.hpp>

namespace troupe::testing {
namespace {

TEST(SharedConstants, StayInTheirMemory) {
  Graph graph;
  const Tensor large = Tensor::zeros(DType::f32, {1024}), small = Tensor::zeros(DType::f32, {3});
  const Output x = constant(graph, large), y = constant(graph, small);
  Session session(graph);
  EXPECT_EQ(session.run(x).buffer().get(), large.buffer().get());
  EXPECT_NE(session.run(y).buffer().get(), small.buffer().get());
}

// The graph alone holds the constant: a kernel must not take it over.
TEST(SharedConstants, AreNotWrittenTo) {
  Graph graph;
  const Output x = placeholder(graph, DType::f32, {1024}, "x");
  const Output y = constant(graph, Tensor::zeros(DType::f32, {1024})) + x;
  Session session(graph);
  Tensor one(DType::f32, {1024});
  std::ranges::fill(one.mutable_values<float>(), 1.0f);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(session.run({{x, one}}, y).values<float>()[2], 1);
}

TEST(SharedConstants, ThatAreNotAlignedAreCopied) {
  Graph graph;
  const Tensor all = Tensor::zeros(DType::f32, {1030, 1});
  const Output x = constant(graph, all.rows(1, 1030));
  Session session(graph);
  EXPECT_NE(session.run(x).buffer().get(), all.buffer().get());
}

}  // namespace
}  // namespace troupe::testing
