// Clipping by global norm against sums in float64.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "tests/graph/training/classifier_graph.hpp"
#include "tests/kernels/evaluate_graph.hpp"
#include <troupe/graph/training/clipping.hpp>

namespace troupe {
namespace {

using testing::GraphEvaluator;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Clipped {
  std::vector<Tensor> values;  // dense gradients, or rows
  double norm = 0;
};

// Of gradients that are given; those with row numbers are sparse. `scale`: as if of a loss scaled by it.
Clipped clipped(const std::vector<Tensor>& flows, double clip_norm, const std::vector<Tensor>& rows = {},
                double scale = 1) {
  Graph graph;
  std::vector<GradientAndVariable> gradients;
  for (std::size_t i = 0; i < flows.size(); ++i) {
    Gradient g{.dense = constant(graph, flows[i])};
    if (i < rows.size() && rows[i].valid()) g = {.indices = constant(graph, rows[i]), .values = g.dense};
    gradients.push_back(
        {g, variable(graph, {.name = fmt::format("v{}", i), .shape = flows[i].shape(), .dtype = flows[i].dtype()})});
  }
  const LossScale loss_scaled = loss_scale(graph, {.initial = scale});
  GraphEvaluator evaluator;
  const Output start = initializer(graph);
  evaluator.run(graph, {}, {{start.node, 0}});
  Clipped out{.norm = evaluator.run(global_norm(gradients)).item<double>()};
  for (const GradientAndVariable& g :
       clip_gradients(gradients, {.global_norm = clip_norm}, scale == 1 ? nullptr : &loss_scaled))
    out.values.push_back(evaluator.run(g.gradient.is_dense() ? g.gradient.dense : g.gradient.values));
  return out;
}

Tensor ramp(std::int64_t count, float step) {
  Tensor out(DType::f32, Shape{count});
  for (std::int64_t i = 0; i < count; ++i)
    out.mutable_data<float>()[i] = step * static_cast<float>((i * 37) % 101 - 50);
  return out;
}

double norm_in_f64(const std::vector<Tensor>& tensors) {
  double sum = 0;
  for (const Tensor& t : tensors)
    for (const float x : t.values<float>()) sum += static_cast<double>(x) * x;
  return std::sqrt(sum);
}

TEST(Clipping, TheNormIsThatOfAllGradientsTogether) {
  const std::vector<Tensor> flows = {ramp(5000, 0.01f), ramp(7, 1), ramp(100000, 0.001f)};
  EXPECT_NEAR(clipped(flows, 1).norm, norm_in_f64(flows), 1e-6 * norm_in_f64(flows));
}

TEST(Clipping, LongGradientsAreMadeShorterByOneFactor) {
  const std::vector<Tensor> flows = {ramp(5000, 0.01f), ramp(7, 1)};
  const Clipped got = clipped(flows, 2.5);
  EXPECT_NEAR(norm_in_f64(got.values), 2.5, 1e-6);
  const auto factor = static_cast<float>(2.5 / got.norm);
  for (std::size_t i = 0; i < flows.size(); ++i)
    for (std::int64_t k = 0; k < flows[i].num_elements(); ++k)
      EXPECT_EQ(got.values[i].data<float>()[k], flows[i].data<float>()[k] * factor) << i << ", element " << k;
}

TEST(Clipping, ShortGradientsKeepTheirBits) {
  const std::vector<Tensor> flows = {ramp(5000, 0.01f), ramp(7, 1)};
  for (const double most : {norm_in_f64(flows) * 1.001, 1e30})
    for (std::size_t i = 0; i < flows.size(); ++i)
      EXPECT_TRUE(bitwise_equal(clipped(flows, most).values[i], flows[i])) << "at most " << most << ", gradient " << i;
  const std::vector<Tensor> zeros = {Tensor::zeros(DType::f32, {3})};
  EXPECT_TRUE(bitwise_equal(clipped(zeros, 1).values[0], zeros[0]));
}

// Rows that come twice are not added up for the norm: (3, 4) twice has 5 sqrt(2), not 10.
TEST(Clipping, RowsOfSparseGradientsCountAsTheyAre) {
  const Tensor values = Tensor::of<float>({2, 2}, {3, 4, 3, 4});
  const Clipped got =
      clipped({values, Tensor::vector<float>({0})}, std::sqrt(0.5), {Tensor::vector<std::int64_t>({1, 1})});
  EXPECT_DOUBLE_EQ(got.norm, 5 * std::sqrt(2.0));
  EXPECT_FLOAT_EQ(got.values[0].data<float>()[0], 0.3f);
  EXPECT_FLOAT_EQ(got.values[0].data<float>()[3], 0.4f);
}

TEST(Clipping, OneThatIsNotFiniteMakesAllUnknown) {
  for (const float bad :
       {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN(), 3e38f}) {  // the square of the last is infinite
    const Clipped got = clipped({Tensor::vector<float>({1, 2}), Tensor::vector<float>({bad})}, 1);
    for (const Tensor& t : got.values)
      for (const float x : t.values<float>()) EXPECT_TRUE(std::isnan(x)) << bad;
  }
}

TEST(Clipping, GradientsOfAScaledLossAreComparedWithoutTheScale) {
  const std::vector<Tensor> flows = {ramp(5000, 0.01f), ramp(7, 1)};
  std::vector<Tensor> scaled;
  for (const Tensor& t : flows) {
    scaled.push_back(t.clone());
    for (float& x : scaled.back().mutable_values<float>()) x *= 4096;
  }
  for (const double most : {2.5, 1e9}) {
    const Clipped plain = clipped(flows, most), got = clipped(scaled, most, {}, 4096);
    for (std::size_t i = 0; i < flows.size(); ++i)
      for (std::int64_t k = 0; k < flows[i].num_elements(); ++k)
        EXPECT_EQ(got.values[i].data<float>()[k], 4096 * plain.values[i].data<float>()[k])
            << "at most " << most << ", gradient " << i << ", element " << k;
  }
}

TEST(Clipping, TheNormMustBePositive) {
  for (const double bad : {-1.0, std::nan(""), static_cast<double>(kInfinity)})
    EXPECT_THROW(clipped({Tensor::vector<float>({1})}, bad), Error) << bad;
  EXPECT_THROW(clip_gradients({}, {.global_norm = 1}), Error);
  EXPECT_THROW(global_norm({}), Error);
}

// Each slot's gradients, before they are averaged.
TEST(Clipping, InTowersEachSlotIsClippedByItself) {
  const auto build = [](int slots, double clip_norm) {
    return testing::classifier_graph(Sequential({layers::dense(3)}), Shape{2}, optimizers::SGD{},
                                     {.slots = slots, .clipping = {.global_norm = clip_norm}});
  };
  const auto gradient = [](const testing::ClassifierGraph& t, const std::vector<float>& pixels) {
    GraphEvaluator evaluator;
    evaluator.run(*t.graph, {}, {{t.initializer.node, 0}});
    testing::Feeds feeds;
    for (std::size_t s = 0; s < t.images.size(); ++s) {
      feeds[{t.images[s].node, 0}] = Tensor::of<float>({1, 2}, {pixels[s], 1});
      feeds[{t.labels[s].node, 0}] = Tensor::vector<std::int32_t>({1});
    }
    return evaluator.run(*t.graph, feeds, {t.graph->get("train/dense/kernel").inputs[2]})[0];
  };
  const Tensor both = gradient(build(2, 0.25), {100, 0.01f});
  const Tensor first = gradient(build(1, 0.25), {100}), second = gradient(build(1, 0.25), {0.01f});
  EXPECT_FALSE(bitwise_equal(first, gradient(build(1, 0), {100})));
  for (std::int64_t i = 0; i < 6; ++i)
    EXPECT_EQ(both.data<float>()[i], (first.data<float>()[i] + second.data<float>()[i]) / 2) << i;
}

}  // namespace
}  // namespace troupe
