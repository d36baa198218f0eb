#include "tests/kernels/kernel_fixture.hpp"
#include <troupe/kernels/cpu/reduce.hpp>

namespace troupe::testing {
namespace {

using AxisList = std::vector<std::int64_t>;

struct ReduceCase {
  Shape shape;
  AxisList axes;
};

const std::vector<ReduceCase>& reduce_cases() {
  static const std::vector<ReduceCase> all{
      {{}, {}},
      {{1}, {0}},
      {{15}, {}},
      {{16}, {0}},
      {{1025}, {}},
      {{200'003}, {}},
      {{5, 7}, {0}},
      {{5, 7}, {1}},
      {{5, 7}, {-2}},
      {{3, 2100}, {1}},
      {{2100, 3}, {0}},
      {{70'001, 2}, {0}},
      {{300, 700}, {0}},
      {{300, 700}, {1}},
      {{4, 5, 6}, {0, 2}},
      {{4, 5, 6}, {1}},
      {{4, 1, 6}, {1}},
      {{2, 3, 4, 5, 6}, {1, 3}},
      {{2, 3, 4, 5, 6}, {0, 2, 4}},
      {{2, 300, 4, 150}, {1, 3}},
      {{96, 512}, {0}},
      {{96, 512}, {1}},
      {{40, 24, 64}, {0, 2}},
      {{40, 24, 64}, {1}},
      {{2, 100'000}, {1}},
      {{2, 10'000, 8}, {1}},
      {{0, 3}, {1}},
      {{0}, {}},
      {{3, 0}, {1}},
      {{3, 0, 2}, {1}},
  };
  return all;
}

// Calls fn(output index, input index) for every element.
template <class Fn>
void for_each_term(const ReduceCase& c, Fn fn) {
  std::vector<bool> reduced(static_cast<std::size_t>(c.shape.rank()), c.axes.empty());
  for (std::int64_t axis : c.axes) reduced[static_cast<std::size_t>(axis < 0 ? axis + c.shape.rank() : axis)] = true;
  for (std::int64_t i = 0; i < c.shape.num_elements(); ++i) {
    std::int64_t rest = i, out = 0, step = 1;
    for (int d = c.shape.rank() - 1; d >= 0; rest /= c.shape.dim(d), --d)
      if (!reduced[static_cast<std::size_t>(d)]) {
        out += rest % c.shape.dim(d) * step;
        step *= c.shape.dim(d);
      }
    fn(static_cast<std::size_t>(out), static_cast<std::size_t>(i));
  }
}

Tensor axes_of(const AxisList& axes) { return Tensor::of<std::int64_t>(Shape{std::ssize(axes)}, axes); }
Attributes keep(bool keep_dims = false) { return {{"keep_dims", keep_dims}}; }
const Attributes kFirst{{"select_last_index", false}}, kLast{{"select_last_index", true}};

class ReduceTest : public KernelTest {
 protected:
  void expect_independent(const std::string& op, const Tensor& x, const Tensor& out, const AxisList& axes) {
    EXPECT_TRUE(bitwise_equal(out, run1(op, {unaligned(x), axes_of(axes)}, keep()))) << op << x.shape().to_string();
    EXPECT_TRUE(bitwise_equal(out, run_on_three_threads(op, {x, axes_of(axes)}, keep())))
        << op << x.shape().to_string();
  }
  Tensor reduced(const std::string& op, const Tensor& x, const AxisList& axes, bool keep_dims = false) {
    return run1(op, {x, axes_of(axes)}, keep(keep_dims));
  }
  std::string reduce_error(const std::string& op, const Tensor& x, const AxisList& axes) {
    return error_of(op, {x, axes_of(axes)}, keep());
  }
  Tensor arg(const std::string& op, const Tensor& x, std::int64_t axis, const Attributes& which = kFirst) {
    return run({.op = op,
                .dtype = x.dtype(),
                .inputs = {x, Tensor::scalar(axis)},
                .attributes = which,
                .output_types = {DType::i64}})[0];
  }

  template <class T>
  void expect_sums(double relative) {
    for (const ReduceCase& c : reduce_cases()) {
      const Tensor x = random<T>(c.shape);
      const auto terms = doubles(x);
      const Tensor sum = reduced("Sum", x, c.axes);
      std::vector<double> exact(static_cast<std::size_t>(sum.num_elements())), absolute(exact.size()),
          count(exact.size());
      for_each_term(c, [&](std::size_t o, std::size_t i) {
        exact[o] += terms[i];
        absolute[o] += std::abs(terms[i]);
        count[o] += 1;
      });
      const auto got = doubles(sum);
      for (std::size_t o = 0; o < got.size(); ++o)
        ASSERT_LE(std::abs(got[o] - exact[o]), absolute[o] * relative) << c.shape.to_string() << ' ' << o;
      expect_independent("Sum", x, sum, c.axes);
      if (x.num_elements() == 0) continue;
      const auto mean = doubles(reduced("Mean", x, c.axes));
      for (std::size_t o = 0; o < got.size(); ++o) {
        const double want = std::is_integral_v<T> ? std::trunc(exact[o] / count[o]) : exact[o] / count[o];
        ASSERT_LE(std::abs(mean[o] - want), absolute[o] / count[o] * relative) << c.shape.to_string() << ' ' << o;
      }
    }
  }

  template <class T>
  void expect_extremes() {
    for (const ReduceCase& c : reduce_cases()) {
      const Tensor x = random<T>(c.shape, 1, 100);
      bool empty = x.num_elements() == 0 && c.shape.dim(0) != 0;
      if (c.shape == Shape{0}) empty = true;
      for (const bool greatest : {true, false}) {
        const char* op = greatest ? "Max" : "Min";
        if (empty) {
          EXPECT_NE(reduce_error(op, x, c.axes), "") << c.shape.to_string();
          continue;
        }
        const Tensor out = reduced(op, x, c.axes);
        std::vector<double> exact(static_cast<std::size_t>(out.num_elements()), greatest ? -1e9 : 1e9);
        const auto terms = doubles(x);
        for_each_term(c, [&](std::size_t o, std::size_t i) {
          exact[o] = greatest ? std::max(exact[o], terms[i]) : std::min(exact[o], terms[i]);
        });
        EXPECT_EQ(doubles(out), exact) << op << c.shape.to_string();
        expect_independent(op, x, out, c.axes);
      }
    }
  }
};

TEST_F(ReduceTest, FloatSumsAndMeansAreAccurate) {
  expect_sums<float>(1e-6);
  expect_sums<double>(1e-14);
}

TEST_F(ReduceTest, NarrowSumsAndMeansAreRoundedOnce) {
  expect_sums<Half>(0x1p-11 + 1e-5);
  expect_sums<BFloat16>(0x1p-8 + 1e-5);
}

TEST_F(ReduceTest, IntegerSumsAndMeansAreExact) {
  expect_sums<std::int32_t>(0);
  expect_sums<std::int64_t>(0);
}

TEST_F(ReduceTest, LongSumsOfEqualTermsStayAccurate) {
  // The worst case for adding one after the other: every rounding error has the same sign.
  for (const Shape& shape : {Shape{4'000'000}, Shape{1'000'000, 4}, Shape{4, 1'000'000}}) {
    SCOPED_TRACE(shape.to_string());
    const Tensor x = filled<float>(shape, 0.1f);
    const double exact = 0.1f * 4e6;
    EXPECT_NEAR(reduced("Sum", x, {}).item<float>(), exact, exact * 1e-5);
    for (int axis : {0, shape.rank() - 1}) {
      const Tensor sums = reduced("Sum", x, {axis});
      const double each = exact / static_cast<double>(sums.num_elements());
      for (float sum : sums.values<float>()) EXPECT_NEAR(sum, each, each * 1e-5) << "axis " << axis;
    }
  }
}

TEST_F(ReduceTest, SmallTypes) {
  EXPECT_EQ(reduced("Sum", filled<std::int8_t>({4}, 100), {}).item<std::int8_t>(), static_cast<std::int8_t>(400));
  EXPECT_EQ(reduced("Mean", filled<std::int8_t>({4}, -100), {}).item<std::int8_t>(), -100);
  EXPECT_EQ(reduced("Mean", filled<std::uint8_t>({300}, 200), {}).item<std::uint8_t>(), 200);
  EXPECT_EQ(doubles(reduced("Sum", filled<Half>({1000}, Half(0.5f)), {})), std::vector<double>{500});
  EXPECT_EQ(doubles(reduced("Sum", filled<BFloat16>({1000}, BFloat16(2)), {})), std::vector<double>{2000});
}

TEST_F(ReduceTest, MaxAndMinMatchTheReference) {
  expect_extremes<float>();
  expect_extremes<double>();
  expect_extremes<std::uint8_t>();
  expect_extremes<std::int64_t>();
}

TEST_F(ReduceTest, NothingSumsToZeroAndHasNoMean) {
  EXPECT_EQ(doubles(reduced("Sum", Tensor(DType::f32, Shape{2, 0}), {1})), (std::vector<double>{0, 0}));
  EXPECT_EQ(reduced("Sum", Tensor(DType::i32, Shape{0}), {}).item<std::int32_t>(), 0);
  EXPECT_TRUE(std::isnan(reduced("Mean", Tensor(DType::f32, Shape{0}), {}).item<float>()));
  EXPECT_NE(reduce_error("Mean", Tensor(DType::i32, Shape{0}), {}), "");
}

TEST_F(ReduceTest, NaNAndInfinityPropagate) {
  for (std::int64_t at : {0, 5, 1023, 1500, 2999}) {
    Tensor x = random<float>({3000});
    x.mutable_values<float>()[static_cast<std::size_t>(at)] = std::numeric_limits<float>::quiet_NaN();
    for (const char* op : {"Sum", "Mean", "Max", "Min"})
      EXPECT_TRUE(std::isnan(reduced(op, x, {}).item<float>())) << op << at;
    EXPECT_TRUE(
        std::isnan(reduced("Max", x.reshaped({1500, 2}), {0}).values<float>()[static_cast<std::size_t>(at % 2)]))
        << "NaN at " << at;
  }
  const Tensor infinite = Tensor::vector<float>({1, -std::numeric_limits<float>::infinity()});
  EXPECT_EQ(reduced("Sum", infinite, {}).item<float>(), -std::numeric_limits<float>::infinity());
  EXPECT_EQ(reduced("Max", infinite, {}).item<float>(), 1);
}

TEST_F(ReduceTest, KeepDimsKeepsOnes) {
  const Tensor x = random<float>({2, 3, 4});
  EXPECT_EQ(reduced("Sum", x, {1}, true).shape(), (Shape{2, 1, 4}));
  EXPECT_EQ(reduced("Sum", x, {}, true).shape(), (Shape{1, 1, 1}));
  EXPECT_EQ(reduced("Sum", x, {0, -1}).shape(), (Shape{3}));
  EXPECT_NE(reduce_error("Sum", x, {3}), "");
  EXPECT_NE(reduce_error("Sum", x, {-4}), "");
}

TEST_F(ReduceTest, L2LossIsHalfTheSumOfSquares) {
  const Tensor x = random<float>({123, 457});
  double exact = 0;
  for (double v : doubles(x)) exact += v * v / 2;
  EXPECT_NEAR(run1("L2Loss", {x}).item<float>(), exact, exact * 1e-6);
  EXPECT_EQ(run1("L2Loss", {Tensor(DType::f64, Shape{0})}).item<double>(), 0);
}

TEST_F(ReduceTest, ArgMaxGivesTheFirstAndCountsNaNAsGreatest) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  const Tensor x = Tensor::of<float>(Shape{3, 4}, {1, 5, 5, 2, 0, kNaN, 9, kNaN, -3, -2, -1, -1});
  EXPECT_EQ(doubles(arg("ArgMax", x, 1)), (std::vector<double>{1, 1, 2}));
  EXPECT_EQ(doubles(arg("ArgMax", x, 0)), (std::vector<double>{0, 1, 1, 1}));
  EXPECT_EQ(doubles(arg("ArgMax", Tensor::vector<std::uint8_t>({3, 200, 7}), -1)), std::vector<double>{1});
  EXPECT_NE(error_of("ArgMax", {Tensor(DType::f32, Shape{3, 0}), Tensor::scalar<std::int64_t>(1)}, kFirst), "");
  EXPECT_NE(error_of("ArgMax", {x, Tensor::scalar<std::int64_t>(2)}, kFirst), "");
  const Tensor large = random<float>({70, 50, 30});
  for (std::int64_t axis : {0, 1, 2}) {
    SCOPED_TRACE(::testing::Message() << "axis " << axis);
    const Tensor out = arg("ArgMax", large, axis);
    EXPECT_TRUE(bitwise_equal(out, run_on_three_threads("ArgMax", {large, Tensor::scalar(axis)}, kFirst)));
    const Tensor best = reduced("Max", large, {axis});
    std::vector<std::int64_t> strides{1500, 30, 1};
    for (std::int64_t i = 0; i < out.num_elements(); ++i) {
      const std::int64_t inner = strides[static_cast<std::size_t>(axis)];
      const std::int64_t base = i / inner * inner * large.shape().dim(static_cast<int>(axis)) + i % inner;
      EXPECT_EQ(large.data<float>()[base + out.data<std::int64_t>()[i] * inner], best.data<float>()[i]) << i;
    }
  }
}

TEST_F(ReduceTest, ArgMinAndTheLastOfSeveral) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  const Tensor x = Tensor::of<float>(Shape{3, 4}, {1, 5, 5, 1, 0, kNaN, 9, kNaN, -3, -2, -3, -2});
  EXPECT_EQ(doubles(arg("ArgMax", x, 1, kLast)), (std::vector<double>{2, 3, 3}));
  EXPECT_EQ(doubles(arg("ArgMin", x, 1)), (std::vector<double>{0, 1, 0}));
  EXPECT_EQ(doubles(arg("ArgMin", x, 1, kLast)), (std::vector<double>{3, 3, 2}));
  EXPECT_EQ(doubles(arg("ArgMin", x, 0)), (std::vector<double>{2, 1, 2, 1}));
  EXPECT_EQ(doubles(arg("ArgMin", Tensor::vector<std::uint16_t>({40000, 7, 65535, 7}), 0, kLast)),
            std::vector<double>{3});
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(doubles(arg("ArgMin", filled<float>({3}, kInfinity), 0)), std::vector<double>{0});
  EXPECT_EQ(doubles(arg("ArgMin", filled<float>({3}, kInfinity), 0, kLast)), std::vector<double>{2});
  const Tensor large = filled<Half>({5, 700}, Half(1));  // more columns than a tile has
  for (const double index : doubles(arg("ArgMax", large, 0, kLast))) EXPECT_EQ(index, 4);
}

// Short rows are searched many at a time.
TEST_F(ReduceTest, ArgMaxOfManyShortRowsIsThatOfEachAlone) {
  std::mt19937_64 draws(4);
  for (const std::int64_t width : {1, 3, 10, 64, 65}) {
    Tensor x(DType::f32, Shape{37, width});
    constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
    for (float& value : x.mutable_values<float>())  // many equal ones
      value = draws() % 16 == 0 ? kNaN : static_cast<float>(draws() % 8) - 4;
    for (const char* op : {"ArgMax", "ArgMin"})
      for (const Attributes& which : {kFirst, kLast}) {
        const auto all = doubles(arg(op, x, 1, which));
        for (std::int64_t row = 0; row < 37; ++row)
          ASSERT_EQ(all[static_cast<std::size_t>(row)], doubles(arg(op, x.rows(row, row + 1), 1, which))[0])
              << op << ' ' << width << ", row " << row;
      }
  }
}

TEST_F(ReduceTest, AxesMayBeAScalarAndNoneIsGivenTwice) {
  const Tensor x = random<float>({2, 3});
  EXPECT_TRUE(bitwise_equal(run1("Sum", {x, Tensor::scalar<std::int64_t>(-1)}, keep()), reduced("Sum", x, {1})));
  EXPECT_EQ(reduce_error("Sum", x, {1, -1}), "axis 1 is given twice");
  EXPECT_NE(error_of("Sum", {x, Tensor(DType::i64, Shape{1, 1})}, keep()), "");
}

TEST_F(ReduceTest, UnsignedMeansUseAllBits) {
  const std::uint64_t half = std::uint64_t{1} << 63;
  EXPECT_EQ(reduced("Mean", Tensor::vector<std::uint64_t>({half + 5}), {}).item<std::uint64_t>(), half + 5);
  EXPECT_EQ(reduced("Mean", Tensor::vector<std::uint32_t>({4294967295u, 4294967293u}), {}).item<std::uint32_t>(),
            4294967294u);
}

TEST_F(ReduceTest, SumToLikeUndoesBroadcasting) {
  const Tensor x = random<double>({2, 3, 4});
  const auto sum_to = [&](const Shape& shape) { return run1("SumToLike", {x, Tensor(DType::f64, shape)}); };
  EXPECT_TRUE(bitwise_equal(sum_to({2, 3, 4}), x));
  EXPECT_TRUE(bitwise_equal(sum_to({4}), reduced("Sum", x, {0, 1})));
  EXPECT_TRUE(bitwise_equal(sum_to({3, 1}), reduced("Sum", x, {0, 2}).reshaped({3, 1})));
  EXPECT_TRUE(bitwise_equal(sum_to({1, 3, 4}), reduced("Sum", x, {0}, true)));
  EXPECT_TRUE(bitwise_equal(sum_to({}), reduced("Sum", x, {})));
  EXPECT_NE(error_of("SumToLike", {x, Tensor(DType::f64, Shape{5})}), "");
  EXPECT_NE(error_of("SumToLike", {x, Tensor(DType::f64, Shape{1, 2, 3, 4})}), "");
  // A dimension of 1 that became 0: nothing was added.
  EXPECT_EQ(doubles(run1("SumToLike", {Tensor(DType::f32, Shape{0, 2}), Tensor(DType::f32, Shape{1, 2})})),
            (std::vector<double>{0, 0}));
}

TEST_F(ReduceTest, TileGradSumsTheCopies) {
  const Tensor x = random<double>({2, 3});
  const Tensor times = Tensor::vector<std::int64_t>({2, 4});
  const Tensor tiled = run1("Tile", {x, times});
  const Tensor sum = run1("TileGrad", {tiled, x, times});
  for (std::size_t i = 0; i < 6; ++i) EXPECT_DOUBLE_EQ(sum.values<double>()[i], 8 * x.values<double>()[i]) << i;
  EXPECT_NE(error_of("TileGrad", {x, x, times}), "");
}

}  // namespace
}  // namespace troupe::testing
