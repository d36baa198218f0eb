#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/layers/layers.hpp>
#include <troupe/graph/training/all_reduce.hpp>
#include <troupe/scheduler/plan/contribution_order.hpp>

namespace troupe {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> names(const Graph& graph, const std::vector<int>& order) {
  std::vector<std::string> out;
  for (int id : order) out.push_back(graph.node(id).name);
  return out;
}

// A chain of gradients, each of which is contributed by a node that was added after all of them.
TEST(ContributionOrder, EachLeavesAsSoonAsItIsMade) {
  Graph graph;
  const Output a = placeholder(graph, DType::f32, {1}, "a");
  const Output b = neg(a, "b"), c = neg(b, "c"), d = neg(c, "d");
  neg(d, "end");
  all_reduce(d, {.name = "of_d"});
  all_reduce(b, {.name = "of_b"});
  const auto order = graph.topological_order();
  EXPECT_THAT(names(graph, contributions_first(graph, order)),
              ElementsAre("a", "b", "of_b/contribute", "c", "d", "of_d/contribute", "end", "of_d", "of_b"));
}

TEST(ContributionOrder, WithoutContributionsNothingChanges) {
  Graph graph;
  neg(neg(placeholder(graph, DType::f32, {1})));
  EXPECT_EQ(contributions_first(graph, graph.topological_order()), graph.topological_order());
}

}  // namespace
}  // namespace troupe
