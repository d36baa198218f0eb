#include <gtest/gtest.h>

#include <set>

#include "tests/kernels/gradient_cases.hpp"

namespace troupe {

namespace {

using testing::BuildFn;
using testing::check_gradients;
using testing::first_gradients;
using testing::GradientCase;

class Gradients : public ::testing::TestWithParam<GradientCase> {
 protected:
  void SetUp() override {
    if (GetParam().prints) ::testing::internal::CaptureStderr();
  }
  void TearDown() override {
    if (!GetParam().prints) return;
    EXPECT_NE(::testing::internal::GetCapturedStderr(), "");
  }
};

TEST_P(Gradients, AgreeWithDifferences) { EXPECT_EQ(check_gradients(GetParam(), GetParam().build, false), ""); }

TEST_P(Gradients, AgreeWhenShapesAreUnknown) {
  if (!GetParam().dynamic) return;
  EXPECT_EQ(check_gradients(GetParam(), GetParam().build, true), "");
}

TEST_P(Gradients, AreDifferentiableAgain) {
  if (!GetParam().twice) return;
  const BuildFn again = [&](Graph& graph, const Outputs& xs) { return first_gradients(graph, GetParam().build, xs); };
  EXPECT_EQ(check_gradients(GetParam(), again, false), "");
}

INSTANTIATE_TEST_SUITE_P(AllOps, Gradients, ::testing::ValuesIn(testing::all_gradient_cases()),
                         [](const auto& info) { return info.param.name; });

TEST(GradientCoverage, EveryDifferentiableOpHasACase) {
  std::set<std::string> seen;
  const auto note = [&seen](const Graph& graph) {
    for (int i = 0; i < graph.size(); ++i) seen.insert(graph.node(i).op->name);
  };
  for (const GradientCase& c : testing::all_gradient_cases()) {
    Graph graph;
    Outputs xs;
    for (const Shape& shape : c.shapes) xs.push_back(placeholder(graph, DType::f64, shape));
    c.twice ? first_gradients(graph, c.build, xs) : c.build(graph, xs);
    note(graph);
    for (const auto& [name, function] : graph.functions()) note(*function.body);
  }
  for (const std::string& name : standard_ops().names()) {
    if (!standard_ops().get(name).gradient) continue;
    EXPECT_TRUE(seen.contains(name)) << name;
  }
}

}  // namespace
}  // namespace troupe
