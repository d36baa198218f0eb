// Reductions that are built of several ops, and those of bool, on values worked out with NumPy.
#include "tests/kernels/evaluate_graph.hpp"
#include "tests/kernels/kernel_fixture.hpp"
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/gradients/autodiff.hpp>

namespace troupe::testing {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// f(x, axes), with the axes as a constant.
using Reduction = Output (*)(Output, Axes, ReduceOptions);
Tensor reduced(Reduction f, const Tensor& x, const Axes& axes = {}, bool keep = false) {
  Graph g;
  GraphEvaluator run;
  return run.run(f(constant(g, x), axes, {.keep_dims = keep}));
}

std::vector<double> gradient_of(Reduction f, const Tensor& x, const Axes& axes = {}) {
  Graph g;
  GraphEvaluator run;
  const Output in = constant(g, x);
  const std::vector<Output> ys = {f(in, axes, {})}, xs = {in};
  return doubles(run.run(gradients(ys, xs)[0].dense));
}

void expect_near(const std::vector<double>& got, const std::vector<double>& want, const char* what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (std::size_t i = 0; i < got.size(); ++i)
    if (std::isfinite(want[i]))
      EXPECT_NEAR(got[i], want[i], 1e-13 * std::abs(want[i]) + 1e-15) << what << ' ' << i;
    else
      EXPECT_TRUE(std::isnan(want[i]) ? std::isnan(got[i]) : got[i] == want[i]) << what << ' ' << i;
}

TEST(Reductions, EqualNumPys) {
  const Tensor x = Tensor::of<double>(Shape{2, 3}, {1, -2, 3, 0.5, 4, -0.25});
  expect_near(doubles(reduced(reduce_l1, x, {1})), {6, 4.75}, "l1");
  expect_near(doubles(reduced(reduce_l2, x, {1})), {3.7416573867739413, 4.0388736053508781}, "l2");
  expect_near(doubles(reduced(sum_square, x, {0})), {1.25, 20, 9.0625}, "sum_square");
  expect_near(doubles(reduced(log_sum, x, {})), {1.83258146374831}, "log_sum");
  expect_near(doubles(reduced(log_sum_exp, x, {1})), {3.1328452337275756, 4.043501553930298}, "log_sum_exp");
  expect_near(doubles(reduced(prod, x, {0})), {0.5, -8, -0.75}, "prod");
  expect_near(doubles(reduced(variance, x, {1})), {4.2222222222222223, 3.4305555555555554}, "variance");
  expect_near(doubles(reduced(standard_deviation, x, {0})), {0.25, 3, 1.625}, "standard_deviation");
  EXPECT_EQ(reduced(variance, x, {1}, true).shape(), (Shape{2, 1}));
  EXPECT_EQ(reduced(log_sum_exp, x, {-1}, true).shape(), (Shape{2, 1}));
  const Tensor zeros = Tensor::of<std::int32_t>(Shape{2, 3}, {0, 5, 0, -1, 2, 3});
  EXPECT_EQ(doubles(reduced(count_nonzero, zeros, {1})), (std::vector<double>{1, 3}));
  Graph g;
  GraphEvaluator run;
  const Moments both = moments(constant(g, x), {0});
  expect_near(doubles(run.run(both.mean)), {0.75, 1, 1.375}, "mean");
  expect_near(doubles(run.run(both.variance)), {0.0625, 9, 2.640625}, "variance of moments");
}

TEST(Reductions, LogSumExpNeitherOverflowsNorLosesInfinities) {
  const Tensor x =
      Tensor::of<double>(Shape{6, 2}, {1000, 1000, -1000, -1001, kInf, 1, -kInf, -kInf, -kInf, 3, kNan, 0});
  expect_near(doubles(reduced(log_sum_exp, x, {1})), {1000.6931471805599, -999.68673831248177, kInf, -kInf, 3, kNan},
              "log_sum_exp");
  expect_near(gradient_of(log_sum_exp, Tensor::vector<double>({1000, 1000, -kInf})), {0.5, 0.5, 0}, "gradient");
}

TEST(Reductions, TheGradientOfAProductKnowsZeros) {
  expect_near(gradient_of(prod, Tensor::of<double>(Shape{4, 3}, {2, 3, 4, 0, 3, 4, 0, 3, 0, 0, 0, 0}), {1}),
              {12, 8, 6, 12, 0, 0, 0, 0, 0, 0, 0, 0}, "prod");
  expect_near(gradient_of(reduce_l2, Tensor::of<double>(Shape{2, 2}, {0, 0, 3, 4}), {1}), {0, 0, 0.6, 0.8}, "l2");
}

TEST(Reductions, ProductsWrapAndAreRoundedOnce) {
  EXPECT_EQ(reduced(prod, Tensor::vector<std::uint8_t>({16, 16, 3})).item<std::uint8_t>(), 0);
  EXPECT_EQ(reduced(prod, Tensor::vector<std::int8_t>({-100, 2})).item<std::int8_t>(), 56);
  EXPECT_EQ(reduced(prod, Tensor::vector<std::uint64_t>({std::uint64_t{1} << 63, 1})).item<std::uint64_t>(),
            std::uint64_t{1} << 63);
  // Partial products of f32 beyond its range.
  EXPECT_EQ(reduced(prod, Tensor::vector<float>({1e30f, 1e30f, 1e-30f, 1e-30f})).item<float>(), 1.0f);
  EXPECT_EQ(reduced(prod, Tensor(DType::f16, Shape{0})).item<Half>().bits, Half(1).bits);
  const Tensor halves = Tensor::vector<Half>({Half(200), Half(200), Half(0.01f)});
  EXPECT_NEAR(doubles(reduced(prod, halves))[0], 400.1, 0.3);
}

TEST(Reductions, AnyAndAllOfBools) {
  const Tensor x = Tensor::of<bool>(Shape{2, 3}, {true, false, true, true, false, false});
  const auto bools = [](const Tensor& t) {
    return std::vector<bool>(t.values<bool>().begin(), t.values<bool>().end());
  };
  EXPECT_EQ(bools(reduced(reduce_any, x, {0})), (std::vector<bool>{true, false, true}));
  EXPECT_EQ(bools(reduced(reduce_all, x, {0})), (std::vector<bool>{true, false, false}));
  EXPECT_EQ(bools(reduced(reduce_all, x, {})), std::vector<bool>{false});
  const Tensor none(DType::boolean, Shape{2, 0});
  EXPECT_EQ(bools(reduced(reduce_any, none, {1})), (std::vector<bool>{false, false}));
  EXPECT_EQ(bools(reduced(reduce_all, none, {1})), (std::vector<bool>{true, true}));
  EXPECT_EQ(*reinterpret_cast<const unsigned char*>(reduced(reduce_all, none, {1}).raw()), 1);
}

TEST(Reductions, HardmaxMarksTheFirstMaximum) {
  Graph g;
  GraphEvaluator run;
  const Output x = constant(g, Tensor::of<float>(Shape{2, 3}, {1, 3, 3, 5, 2, 1}));
  EXPECT_EQ(doubles(run.run(hardmax(x))), (std::vector<double>{0, 1, 0, 1, 0, 0}));
  EXPECT_EQ(doubles(run.run(hardmax(x, {.axis = 0}))), (std::vector<double>{0, 1, 1, 1, 0, 0}));
  const Output labels = constant(g, Tensor::vector<std::int64_t>({2, -5}));
  EXPECT_EQ(doubles(run.run(pick_classes(x, labels))), (std::vector<double>{3, 0}));
}

}  // namespace
}  // namespace troupe::testing
