#include "tests/kernels/kernel_fixture.hpp"
#include <troupe/kernels/cpu/random.hpp>

namespace troupe::testing {
namespace {

Attributes attributes(const std::string& op, double first, double second, std::int64_t seed) {
  Attributes a{{"seed", seed}};
  a.set(op == "RandomUniform" ? "minval" : "mean", first);
  a.set(op == "RandomUniform" ? "maxval" : "stddev", second);
  return a;
}

class RandomTest : public KernelTest {
 protected:
  Tensor draw(const std::string& op, DType dtype, const Shape& shape, double first, double second,
              RandomKey key = {1, 2, 3}, std::uint64_t hash = 4, std::int64_t seed = 0, bool three_threads = false) {
    return run_kernel(registry(), three_threads ? *three_threads_ : *device_,
                      {.op = op,
                       .dtype = dtype,
                       .inputs = {Tensor::of<std::int64_t>(Shape{shape.rank()}, shape.dims())},
                       .attributes = attributes(op, first, second, seed),
                       .key = key,
                       .hash = hash})[0];
  }
};

const std::vector<std::string> kOps{"RandomUniform", "RandomNormal", "TruncatedNormal"};

TEST_F(RandomTest, UniformValuesAreThoseOfThePhiloxStream) {
  const Tensor f = draw("RandomUniform", DType::f32, {7}, 0, 1), d = draw("RandomUniform", DType::f64, {3}, 0, 1);
  const PhiloxStream stream{1, mix64(mix64(mix64(4) ^ 2) ^ 3)};
  for (std::size_t i = 0; i < 7; ++i) EXPECT_EQ(f.values<float>()[i], uniform_float(stream.block(i / 4)[i % 4])) << i;
  for (std::size_t i = 0; i < 3; ++i) {
    const PhiloxBlock block = stream.block(i / 2);
    EXPECT_EQ(d.values<double>()[i], uniform_double(block[i % 2 * 2], block[i % 2 * 2 + 1])) << i;
  }
}

// Scaled by a product and a sum that are each rounded, on every device.
TEST_F(RandomTest, UniformValuesOfOtherRangesAreThoseScaled) {
  const PhiloxStream stream{1, mix64(mix64(mix64(4) ^ 2) ^ 3)};
  const Tensor f = draw("RandomUniform", DType::f32, {1000}, -2.3, 0.7),
               d = draw("RandomUniform", DType::f64, {1000}, -2.3, 0.7);
  for (std::size_t i = 0; i < 1000; ++i) {
    volatile float scaled = uniform_float(stream.block(i / 4)[i % 4]) * (0.7f - -2.3f);
    EXPECT_EQ(f.values<float>()[i], -2.3f + scaled) << i;
    const PhiloxBlock block = stream.block(i / 2);
    volatile double wide = uniform_double(block[i % 2 * 2], block[i % 2 * 2 + 1]) * (0.7 - -2.3);
    EXPECT_EQ(d.values<double>()[i], -2.3 + wide) << i;
  }
}

TEST_F(RandomTest, TheAttributeSeedIsMixedWithTheNodesHash) {
  const Tensor f = draw("RandomUniform", DType::f32, {1}, 0, 1, {1, 2, 3}, 4, 9);
  EXPECT_EQ(f.values<float>()[0], uniform_float(PhiloxStream{1, mix64(mix64(mix64(4 ^ 9) ^ 2) ^ 3)}.block(0)[0]));
}

TEST_F(RandomTest, EveryPartOfTheKeyMattersAndEqualKeysGiveEqualValues) {
  for (const std::string& op : kOps)
    for (DType dtype : {DType::f32, DType::f64}) {
      SCOPED_TRACE(::testing::Message() << op << ' ' << name(dtype));
      const auto with = [&](RandomKey key, std::uint64_t hash, std::int64_t seed) {
        return draw(op, dtype, {16}, 0, 1, key, hash, seed);
      };
      const Tensor base = with({1, 2, 3}, 4, 5);
      EXPECT_TRUE(bitwise_equal(base, with({1, 2, 3}, 4, 5)));
      EXPECT_FALSE(bitwise_equal(base, with({9, 2, 3}, 4, 5)));
      EXPECT_FALSE(bitwise_equal(base, with({1, 9, 3}, 4, 5)));
      EXPECT_FALSE(bitwise_equal(base, with({1, 2, 9}, 4, 5)));
      EXPECT_FALSE(bitwise_equal(base, with({1, 2, 3}, 9, 5)));
      EXPECT_FALSE(bitwise_equal(base, with({1, 2, 3}, 4, 9)));
    }
}

TEST_F(RandomTest, ValuesDependNeitherOnThreadsNorOnTheLengthOfTheTensor) {
  for (const std::string& op : kOps)
    for (DType dtype : {DType::f32, DType::f64}) {
      const Tensor whole = draw(op, dtype, {50'003}, 0, 1);
      EXPECT_TRUE(bitwise_equal(whole, draw(op, dtype, {50'003}, 0, 1, {1, 2, 3}, 4, 0, true))) << op;
      EXPECT_TRUE(bitwise_equal(whole.rows(0, 17), draw(op, dtype, {17}, 0, 1))) << op;
    }
}

TEST_F(RandomTest, MomentsAreThoseOfTheDistribution) {
  struct Moments {
    std::string op;
    double first, second, mean, variance;
  };
  // Variance of a normal cut at two deviations: 1 - 4 phi(2) / (2 Phi(2) - 1) = 0.7737.
  const std::vector<Moments> all{
      {"RandomUniform", -1, 3, 1, 16.0 / 12}, {"RandomNormal", 2, 3, 2, 9}, {"TruncatedNormal", 2, 3, 2, 9 * 0.77374}};
  for (const Moments& m : all)
    for (DType dtype : {DType::f32, DType::f64}) {
      const auto values = doubles(draw(m.op, dtype, {200'000}, m.first, m.second));
      double mean = 0, variance = 0;
      for (double v : values) mean += v / 200'000;
      for (double v : values) variance += (v - mean) * (v - mean) / 200'000;
      EXPECT_NEAR(mean, m.mean, 5 * std::sqrt(m.variance / 200'000)) << m.op;
      EXPECT_NEAR(variance, m.variance, m.variance * 0.02) << m.op;
    }
}

TEST_F(RandomTest, ValuesStayInTheirRange) {
  for (DType dtype : {DType::f32, DType::f64}) {
    for (double v : doubles(draw("RandomUniform", dtype, {100'000}, 5, 7)))
      ASSERT_TRUE(v >= 5 && v < 7) << name(dtype) << ' ' << v;
    for (double v : doubles(draw("TruncatedNormal", dtype, {100'000}, 0, 1))) ASSERT_LT(std::abs(v), 2) << name(dtype);
  }
  // So narrow that low + u * (high - low) often rounds to high.
  const float high = std::nextafter(1.0f, 2.0f);
  const Tensor narrow = draw("RandomUniform", DType::f32, {100}, 1, high);
  for (float v : narrow.values<float>()) EXPECT_EQ(v, 1.0f);
}

TEST_F(RandomTest, NeighboursAreNotCorrelated) {
  const auto z = doubles(draw("RandomNormal", DType::f32, {100'000}, 0, 1));
  for (std::size_t lag : {1, 2, 3, 4}) {
    double product = 0;
    for (std::size_t i = lag; i < z.size(); ++i) product += z[i] * z[i - lag] / static_cast<double>(z.size());
    EXPECT_NEAR(product, 0, 0.02) << lag;
  }
}

TEST_F(RandomTest, WrongAttributesAreErrors) {
  EXPECT_THROW(draw("RandomUniform", DType::f32, {2}, 1, 1), Error);
  EXPECT_THROW(draw("RandomUniform", DType::f32, {kUnknown}, 0, 1), Error);
  EXPECT_THROW(draw("RandomNormal", DType::f32, {std::int64_t{1} << 40, std::int64_t{1} << 40}, 0, 1), Error);
  EXPECT_EQ(draw("RandomNormal", DType::f32, {0}, 0, 1).num_elements(), 0);
}

TEST_F(RandomTest, DropoutZeroesAndScales) {
  const auto drop = [&](const Tensor& x, double rate, Device& device) {
    return run_kernel(registry(), device,
                      {.op = "Dropout",
                       .dtype = x.dtype(),
                       .inputs = {x, Tensor::scalar(rate)},
                       .attributes = {{"seed", std::int64_t{0}}},
                       .outputs = 2,
                       .key = {1, 2, 3},
                       .hash = 4});
  };
  for (const Tensor& x : {filled<float>({50'001}, 3), filled<double>({50'001}, 3)}) {
    SCOPED_TRACE(name(x.dtype()));
    const auto out = drop(x, 0.25, *device_);
    const auto y = doubles(out[0]), mask = doubles(out[1]);
    int kept = 0;
    for (std::size_t i = 0; i < y.size(); ++i) {
      ASSERT_TRUE(mask[i] == 0 || std::abs(mask[i] - 4.0 / 3) < 1e-6) << i;
      ASSERT_NEAR(y[i], 3 * mask[i], 1e-6) << i;
      kept += mask[i] != 0;
    }
    EXPECT_NEAR(kept / 50'001.0, 0.75, 0.01);
    const auto other = drop(x, 0.25, *three_threads_);
    EXPECT_TRUE(bitwise_equal(out[0], other[0]));
    EXPECT_TRUE(bitwise_equal(out[1], other[1]));
    EXPECT_TRUE(bitwise_equal(drop(x, 0, *device_)[0], x));
    EXPECT_THROW(drop(x, 1, *device_), Error);
    EXPECT_THROW(drop(x, -0.1, *device_), Error);
  }
}

// f16 and bf16 are drawn as floats and rounded.
TEST_F(RandomTest, NarrowValuesAreTheFloatsRounded) {
  for (const std::string& op : kOps)
    for (DType dtype : {DType::f16, DType::bf16}) {
      const Tensor wide = draw(op, DType::f32, {5003}, -1.5, 2.5), narrow = draw(op, dtype, {5003}, -1.5, 2.5);
      EXPECT_TRUE(bitwise_equal(narrow, draw(op, dtype, {5003}, -1.5, 2.5, {1, 2, 3}, 4, 0, true)));
      const std::vector<double> x = doubles(wide), y = doubles(narrow);
      for (std::size_t i = 0; i < x.size(); ++i) {
        ASSERT_NEAR(y[i], x[i], std::abs(x[i]) * (dtype == DType::f16 ? 0x1p-11 : 0x1p-8) + 1e-2 * (op == kOps[0]))
            << op;
        ASSERT_TRUE(op != "RandomUniform" || (y[i] >= -1.5 && y[i] < 2.5)) << y[i];
      }
    }
  const std::vector<double> below = doubles(draw("RandomUniform", DType::bf16, {100'000}, -0.0078125, 0));
  EXPECT_LT(*std::ranges::max_element(below), 0);
}

TEST_F(RandomTest, NarrowDropoutRoundsTheScaleAndTheProduct) {
  const auto check = [&]<class T>(T) {
    const Tensor x = random<T>({3001}), rate = Tensor::scalar(0.3);
    const auto out = run_kernel(registry(), *device_,
                                {.op = "Dropout",
                                 .dtype = dtype_of<T>,
                                 .inputs = {x, rate},
                                 .attributes = {{"seed", std::int64_t{0}}},
                                 .outputs = 2,
                                 .key = {1, 2, 3},
                                 .hash = 4});
    const float keep = static_cast<float>(T(static_cast<float>(1 / 0.7)));
    for (std::size_t i = 0; i < 3001; ++i) {
      const float mask = static_cast<float>(out[1].template values<T>()[i]);
      ASSERT_TRUE(mask == 0 || mask == keep) << mask;
      ASSERT_EQ(out[0].template values<T>()[i].bits, T(static_cast<float>(x.values<T>()[i]) * mask).bits);
    }
  };
  check(Half{});
  check(BFloat16{});
}

}  // namespace
}  // namespace troupe::testing
