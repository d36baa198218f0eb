// Each case of the table of gradients, at once and as a graph: the same bits.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "tests/kernels/gradient_cases.hpp"
#include "tests/sanitized.hpp"
#include <troupe/actors/cluster/task.hpp>
#include <troupe/actors/eager/eager.hpp>
#include <troupe/actors/session/session.hpp>
#include <troupe/graph/gradients/tape.hpp>

namespace troupe {

namespace {

using testing::GradientCase;
using testing::weighted_sum;

// The results, their first gradients, and the gradients of these.
struct Derivatives {
  std::vector<Tensor> results, first, second;
};

class EagerGradients : public ::testing::TestWithParam<GradientCase> {
 protected:
  static void SetUpTestSuite() { task_ = std::make_unique<Task>(); }
  static void TearDownTestSuite() { task_.reset(); }
  void SetUp() override {
    std::mt19937_64 random(7);
    for (const Shape& shape : GetParam().shapes)
      inputs_.push_back(testing::random_tensor(shape, GetParam().low, GetParam().high, random));
    if (GetParam().prints) ::testing::internal::CaptureStderr();
  }
  void TearDown() override {
    if (GetParam().prints) ::testing::internal::GetCapturedStderr();
  }

  Derivatives of_graph() {
    Graph graph;
    Outputs xs;
    Feeds feeds;
    for (const Tensor& x : inputs_) {
      xs.push_back(placeholder(graph, x.dtype(), x.shape()));
      feeds.emplace_back(xs.back(), x);
    }
    const Outputs results = GetParam().build(graph, xs);
    const Outputs first = flowing(gradients(Outputs{weighted_sum(graph, results)}, xs), xs);
    Outputs second;
    if (GetParam().twice && !first.empty()) second = flowing(gradients(Outputs{weighted_sum(graph, first)}, xs), xs);
    Outputs all = results;
    for (const Outputs& part : {first, second}) all.insert(all.end(), part.begin(), part.end());
    Session session(*task_, graph);
    const std::vector<Tensor> values = session.run(feeds, all);
    const auto at = [&](std::size_t i) { return values.begin() + static_cast<std::ptrdiff_t>(i); };
    return {{at(0), at(results.size())},
            {at(results.size()), at(results.size() + first.size())},
            {at(results.size() + first.size()), values.end()}};
  }

  Derivatives at_once() {
    Eager eager(*task_);
    Graph& graph = eager.graph();
    Outputs xs;
    for (const Tensor& x : inputs_) xs.push_back(constant(graph, x));
    GradientTape outer, inner;
    for (const Output& x : xs) {
      outer.watch(x);
      inner.watch(x);
    }
    const Outputs results = GetParam().build(graph, xs);
    const Outputs first = flowing(inner.gradients(Outputs{weighted_sum(graph, results)}, xs), xs);
    Outputs second;
    if (GetParam().twice && !first.empty())
      second = flowing(outer.gradients(Outputs{weighted_sum(graph, first)}, xs), xs);
    return {values(results), values(first), values(second)};
  }

 private:
  static Outputs flowing(const std::vector<Gradient>& found, const Outputs& xs) {
    Outputs out;
    for (std::size_t i = 0; i < xs.size(); ++i)
      if (found[i]) out.push_back(dense(found[i], xs[i]));
    return out;
  }
  static std::vector<Tensor> values(const Outputs& outputs) {
    std::vector<Tensor> out;
    for (const Output& y : outputs) out.push_back(y.value());
    return out;
  }
  static inline std::unique_ptr<Task> task_;
  std::vector<Tensor> inputs_;
};

// "" or what differs.
std::string difference(const Tensor& once, const Tensor& graph, bool rounds) {
  const std::string text = fmt::format("{}, in a graph {}", once.to_string(), graph.to_string());
  if (!rounds) return bitwise_equal(once, graph) ? "" : text;
  if (once.shape() != graph.shape()) return text;
  for (std::int64_t i = 0; i < once.num_elements(); ++i) {
    const double a = once.values<double>()[static_cast<std::size_t>(i)],
                 b = graph.values<double>()[static_cast<std::size_t>(i)];
    if (!(std::abs(a - b) <= 1e-13 * std::max(std::abs(b), 1.0))) return text;
  }
  return "";
}

TEST_P(EagerGradients, AreThoseOfAGraph) {
  const Derivatives graph = of_graph(), once = at_once();
  for (const auto& [what, part] : {std::pair{"result", &Derivatives::results},
                                   {"gradient", &Derivatives::first},
                                   {"second gradient", &Derivatives::second}}) {
    ASSERT_EQ((once.*part).size(), (graph.*part).size()) << what;
    if (GetParam().eager == GradientCase::Eager::draws) continue;
    for (std::size_t i = 0; i < (once.*part).size(); ++i)
      EXPECT_EQ(difference((once.*part)[i], (graph.*part)[i], GetParam().eager == GradientCase::Eager::rounds), "")
          << what << " " << i;
  }
}

std::vector<GradientCase> eager_cases() {
  std::vector<GradientCase> out;
  int seen = 0;
  for (const GradientCase& c : testing::all_gradient_cases())
    if (++seen % (testing::kSanitized ? 20 : 1) == 0) out.push_back(c);
  return out;
}

INSTANTIATE_TEST_SUITE_P(AllOps, EagerGradients, ::testing::ValuesIn(eager_cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace troupe
