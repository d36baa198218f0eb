// Random values whose distribution depends on inputs: moments, determinism, limits.
#include <map>
#include <numeric>

#include "tests/kernels/evaluate_graph.hpp"
#include "tests/kernels/kernel_fixture.hpp"
#include <troupe/graph/builder/builder.hpp>
#include <troupe/messages/philox.hpp>

namespace troupe::testing {
namespace {

class RandomDrawsTest : public KernelTest {
 protected:
  Tensor draw(const std::string& op, const std::vector<Tensor>& inputs, std::int64_t seed = 0, int threads = 1) {
    return run_kernel(registry(), threads == 1 ? *device_ : *three_threads_,
                      {.op = op,
                       .dtype = inputs[0].dtype(),
                       .inputs = inputs,
                       .attributes = {{"seed", seed}},
                       .key = {1, 2, 3},
                       .hash = 4})[0];
  }
  struct Moments {
    double mean, variance;
  };
  static Moments moments(const Tensor& t) {
    const std::vector<double> x = doubles(t);
    const auto n = static_cast<double>(x.size());
    const double mean = std::accumulate(x.begin(), x.end(), 0.0) / n;
    double squares = 0;
    for (const double v : x) squares += (v - mean) * (v - mean);
    return {mean, squares / n};
  }
};

constexpr std::int64_t kDraws = 200'000;

TEST_F(RandomDrawsTest, MomentsAreThoseOfTheDistribution) {
  struct Case {
    const char* op;
    double parameter, mean, variance;
  };
  for (const Case& c :
       {Case{"Bernoulli", 0.3, 0.3, 0.21}, Case{"RandomGamma", 0.4, 0.4, 0.4}, Case{"RandomGamma", 2.5, 2.5, 2.5},
        Case{"RandomGamma", 30, 30, 30}, Case{"RandomPoisson", 0.7, 0.7, 0.7}, Case{"RandomPoisson", 9.9, 9.9, 9.9},
        Case{"RandomPoisson", 12, 12, 12}, Case{"RandomPoisson", 400, 400, 400}})
    for (const Tensor& x :
         {filled<float>({kDraws}, static_cast<float>(c.parameter)), filled<double>({kDraws}, c.parameter)}) {
      SCOPED_TRACE(::testing::Message() << c.op << ' ' << c.parameter << ' ' << name(x.dtype()));
      const Tensor out = draw(c.op, {x});
      const Moments found = moments(out);
      EXPECT_NEAR(found.mean, c.mean, 5 * std::sqrt(c.variance / kDraws) + 1e-7);
      EXPECT_NEAR(found.variance, c.variance, 0.05 * c.variance);
      EXPECT_TRUE(bitwise_equal(out, draw(c.op, {x}, 0, 3)));
      EXPECT_FALSE(bitwise_equal(out, draw(c.op, {x}, 1)));
    }
}

TEST_F(RandomDrawsTest, ParametersThatAreNoneGiveNan) {
  const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
  for (const double bad : {-1.0, nan, inf}) {
    EXPECT_TRUE(std::isnan(doubles(draw("RandomGamma", {filled<double>({1}, bad)}))[0])) << bad;
    EXPECT_TRUE(std::isnan(doubles(draw("RandomPoisson", {filled<double>({1}, bad)}))[0])) << bad;
  }
  EXPECT_EQ(doubles(draw("RandomPoisson", {filled<float>({3}, 0)})), (std::vector<double>{0, 0, 0}));
  EXPECT_EQ(doubles(draw("Bernoulli", {Tensor::of<float>(Shape{2}, {0, 1})})), (std::vector<double>{0, 1}));
}

TEST_F(RandomDrawsTest, ClassesAreDrawnByTheirWeights) {
  const float none = -std::numeric_limits<float>::infinity();
  const Tensor logits = Tensor::of<float>(Shape{2, 4}, {1000, none, 1000 + std::log(3.0f), none, none, -5, none, none});
  const Tensor count = Tensor::scalar<std::int64_t>(40'000);
  const Tensor out = draw("Multinomial", {logits, count});
  ASSERT_EQ(out.shape(), (Shape{2, 40'000}));
  std::array<int, 4> seen{};
  for (std::int64_t i = 0; i < 40'000; ++i) ++seen.at(static_cast<std::size_t>(out.data<std::int64_t>()[i]));
  EXPECT_EQ(seen[1] + seen[3], 0);
  EXPECT_NEAR(seen[2] / 40'000.0, 0.75, 0.01);
  for (std::int64_t i = 40'000; i < 80'000; ++i) ASSERT_EQ(out.data<std::int64_t>()[i], 1);
  EXPECT_TRUE(bitwise_equal(out, draw("Multinomial", {logits, count}, 0, 3)));
  EXPECT_THROW(draw("Multinomial", {filled<float>({1, 2}, none), count}), Error);
  EXPECT_THROW(draw("Multinomial", {filled<float>({1, 2}, std::nanf("")), count}), Error);
  EXPECT_THROW(draw("Multinomial", {logits, Tensor::scalar<std::int64_t>(-1)}), Error);
  EXPECT_THROW(draw("Multinomial", {Tensor(DType::f32, Shape{1, 0}), count}), Error);
  EXPECT_EQ(draw("Multinomial", {Tensor(DType::f32, Shape{0, 0}), count}).shape(), (Shape{0, 40'000}));
}

TEST_F(RandomDrawsTest, PermutationsHoldEachNumberOnce) {
  const Tensor out = draw("RandomPermutation", {Tensor::scalar<std::int64_t>(1000)});
  std::vector<double> sorted = doubles(out);
  double moved = 0;
  for (std::size_t i = 0; i < sorted.size(); ++i) moved += std::abs(sorted[i] - static_cast<double>(i));
  EXPECT_NEAR(moved / 1e6, 1.0 / 3, 0.05);
  std::ranges::sort(sorted);
  for (std::size_t i = 0; i < sorted.size(); ++i) ASSERT_EQ(sorted[i], static_cast<double>(i));
  EXPECT_EQ(draw("RandomPermutation", {Tensor::scalar<std::int64_t>(0)}).shape(), (Shape{0}));
  EXPECT_THROW(draw("RandomPermutation", {Tensor::scalar<std::int64_t>(-1)}), Error);
}

// Each value comes from 64 bits of the stream: the high half of their product with the range.
TEST_F(RandomDrawsTest, IntegersAreUniformInAnyRange) {
  const auto draw_integers = [&]<class T>(T low, T high, std::int64_t count, int threads = 1) {
    const Tensor dims = Tensor::vector<std::int64_t>({count});
    return run_kernel(registry(), threads == 1 ? *device_ : *three_threads_,
                      {.op = "RandomIntegers",
                       .dtype = dtype_of<T>,
                       .inputs = {dims, Tensor::scalar<T>(low), Tensor::scalar<T>(high)},
                       .attributes = {{"seed", std::int64_t{0}}},
                       .key = {1, 2, 3},
                       .hash = 4})[0];
  };
  const PhiloxStream stream{1, mix64(mix64(mix64(4) ^ 2) ^ 3)};
  using Limits = std::numeric_limits<std::int64_t>;
  const Tensor wide = draw_integers(Limits::min(), Limits::max(), 50'001);
  for (std::uint64_t i = 0; i < 10; ++i) {
    const PhiloxBlock words = stream.block(i / 2);
    __extension__ using Wide = unsigned __int128;
    const std::uint64_t bits = std::uint64_t{words[i % 2 * 2]} << 32 | words[i % 2 * 2 + 1];
    EXPECT_EQ(
        wide.values<std::int64_t>()[i],
        static_cast<std::int64_t>((std::uint64_t{1} << 63) + static_cast<std::uint64_t>((Wide{bits} * ~0ull) >> 64)));
  }
  EXPECT_TRUE(bitwise_equal(wide, draw_integers(Limits::min(), Limits::max(), 50'001, 3)));
  EXPECT_TRUE(bitwise_equal(wide.rows(0, 17), draw_integers(Limits::min(), Limits::max(), 17)));

  // 2^64 * 3/4 values: the product alone would give every third value twice as often as the others.
  const std::int64_t end = std::int64_t{1} << 62;
  std::array<int, 3> thirds{};
  const Tensor three_quarters = draw_integers(Limits::min(), end, 60'000);
  for (const std::int64_t v : three_quarters.values<std::int64_t>()) {
    ASSERT_LT(v, end);
    ++thirds.at((static_cast<std::uint64_t>(v) - static_cast<std::uint64_t>(Limits::min())) % 3);
  }
  for (const int count : thirds) EXPECT_NEAR(count, 20'000, 600);
  const std::int32_t seven = 7, eight = 8;
  EXPECT_EQ(doubles(draw_integers(seven, eight, 3)), (std::vector<double>{7, 7, 7}));
  EXPECT_THROW(draw_integers(eight, eight, 1), Error);
  EXPECT_THROW(draw_integers(eight, seven, 1), Error);
  EXPECT_THROW(draw_integers(seven, eight, -1), Error);
}

// The shape of each is that of a value which the graph computes.
TEST(RandomBuilders, ShapesAreComputed) {
  Graph g;
  const Output x = placeholder(g, DType::f32, Shape{kUnknown, 3}, "x");
  const Output dims = shape_of(x);
  const Outputs drawn{random_uniform(dims),
                      random_normal(dims),
                      truncated_normal(dims),
                      random_exponential(dims),
                      random_integers(dims, constant<std::int32_t>(g, 0), constant<std::int32_t>(g, 5)),
                      random_gamma(x),
                      random_poisson(x),
                      bernoulli(x)};
  GraphEvaluator evaluator;
  const Feeds feeds{{{x.node, x.index}, Tensor::of<float>(Shape{2, 3}, {0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f})}};
  for (const Output& y : drawn) {
    EXPECT_EQ(y.shape(), (Shape{kUnknown, 3}));
    EXPECT_EQ(evaluator.run(y, feeds).shape(), (Shape{2, 3}));
  }
  EXPECT_EQ(drawn[4].dtype(), DType::i32);
  EXPECT_THROW(random_normal(g, Shape{2, kUnknown}), Error);
}

TEST(RandomBuilders, IntegersExponentialsAndShuffles) {
  Graph g;
  const Output numbers = random_integers(g, Shape{10'000}, -2, 3, {.dtype = DType::i32});
  const Output waits = random_exponential(g, Shape{100'000}, 4);
  const Output rows = shuffle(constant(g, Tensor::of<float>(Shape{3, 2}, {0, 1, 2, 3, 4, 5})));
  GraphEvaluator evaluator;
  std::map<double, int> seen;
  for (const double v : doubles(evaluator.run(numbers))) ++seen[v];
  EXPECT_EQ(seen.size(), 5u);
  for (const auto& [value, count] : seen) EXPECT_TRUE(value >= -2 && value < 3 && std::abs(count - 2000) < 250);
  double sum = 0;
  for (const double v : doubles(evaluator.run(waits))) {
    ASSERT_TRUE(v >= 0 && std::isfinite(v));
    sum += v;
  }
  EXPECT_NEAR(sum / 100'000, 0.25, 0.005);
  const std::vector<double> shuffled = doubles(evaluator.run(rows));
  for (std::size_t r = 0; r < 3; ++r) EXPECT_EQ(shuffled[2 * r + 1], shuffled[2 * r] + 1);
  EXPECT_EQ(shuffled[0] + shuffled[2] + shuffled[4], 6);
}

}  // namespace
}  // namespace troupe::testing
