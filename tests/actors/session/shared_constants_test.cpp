// Sessions that hand their graph to the node of their task as it is (SessionOptions::share_constants).
#include <gtest/gtest.h>

#include <troupe/actors/session/session.hpp>
#include <troupe/graph/builder/builder.hpp>

namespace troupe::testing {
namespace {

TEST(SharedConstants, StayInTheirMemory) {
  Graph graph;
  const Tensor value = Tensor::vector<float>({1, 2, 3});
  const Output x = constant(graph, value);
  Session sharing(graph, {.share_constants = true}), copying(graph);
  EXPECT_EQ(sharing.run(x).buffer().get(), value.buffer().get());
  EXPECT_NE(copying.run(x).buffer().get(), value.buffer().get());
}

// The graph alone holds the constant: a kernel must not take it over.
TEST(SharedConstants, AreNotWrittenTo) {
  Graph graph;
  const Output x = placeholder(graph, DType::f32, {3}, "x");
  const Output y = constant(graph, Tensor::vector<float>({1, 2, 3})) + x;
  Session session(graph, {.share_constants = true});
  const Tensor one = Tensor::vector<float>({1, 1, 1});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(session.run({{x, one}}, y).values<float>()[2], 4);
}

TEST(SharedConstants, ThatAreNotAlignedAreCopied) {
  Graph graph;
  const Tensor all = Tensor::of<float>({3, 1}, {1, 2, 3});
  const Output x = constant(graph, all.rows(1, 3));
  Session session(graph, {.share_constants = true});
  const Tensor found = session.run(x);
  EXPECT_NE(found.buffer().get(), all.buffer().get());
  EXPECT_EQ(found.values<float>()[1], 3);
}

}  // namespace
}  // namespace troupe::testing
