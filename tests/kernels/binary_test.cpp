// Broadcasting kernels: arithmetic, comparisons, Select, AddN.
#include "tests/kernels/kernel_fixture.hpp"

namespace troupe::testing {
namespace {

// The element of `t` that broadcasting to `out` puts at flat index i.
std::size_t source_index(const Shape& t, const Shape& out, std::int64_t i) {
  std::int64_t index = 0, step = 1;
  for (int d = out.rank() - 1; d >= 0; i /= out.dim(d), --d) {
    const int own = d - (out.rank() - t.rank());
    if (own < 0) continue;
    if (t.dim(own) != 1) index += i % out.dim(d) * step;
    step *= t.dim(own);
  }
  return static_cast<std::size_t>(index);
}

const std::vector<std::pair<Shape, Shape>>& shape_pairs() {
  static const std::vector<std::pair<Shape, Shape>> all{{{7}, {7}},
                                                        {{}, {}},
                                                        {{5, 3}, {}},
                                                        {{}, {5, 3}},
                                                        {{4, 37}, {37}},
                                                        {{37}, {4, 37}},
                                                        {{4, 37}, {4, 1}},
                                                        {{4, 1}, {1, 37}},
                                                        {{2, 3, 5}, {3, 1}},
                                                        {{2, 1, 5}, {3, 1}},
                                                        {{1, 1}, {1}},
                                                        {{0}, {1}},
                                                        {{3, 0}, {3, 1}},
                                                        {{2, 3, 4, 5}, {2, 1, 4, 1}},
                                                        {{1, 3, 1, 5}, {2, 1, 4, 1}},
                                                        {{200, 100}, {100}},
                                                        {{20000}, {20000}},
                                                        {{20001}, {1}}};
  return all;
}

class BinaryTest : public KernelTest {
 protected:
  template <class T>
  void expect_binary(const std::string& op, double (*exact)(double, double), double low, double high) {
    for (const auto& [sa, sb] : shape_pairs()) {
      SCOPED_TRACE(::testing::Message() << op << ' ' << name(dtype_of<T>) << ' ' << sa.to_string() << ' '
                                        << sb.to_string());
      const Tensor a = random<T>(sa, low, high), b = random<T>(sb, low, high);
      const Tensor out = run1(op, {a, b});
      const Shape shape = broadcast(sa, sb);
      ASSERT_EQ(out.shape(), shape);
      const auto x = doubles(a), y = doubles(b), z = doubles(out);
      for (std::int64_t i = 0; i < shape.num_elements(); ++i) {
        const double want = exact(x[source_index(sa, shape, i)], y[source_index(sb, shape, i)]);
        const double got = z[static_cast<std::size_t>(i)];
        if (std::is_same_v<T, float> && out.dtype() == DType::f32)
          ASSERT_LE(ulps(static_cast<float>(got), want), 2)
              << op << ' ' << sa.to_string() << ' ' << sb.to_string() << ' ' << i;
        else
          ASSERT_EQ(got, want) << op << ' ' << sa.to_string() << ' ' << sb.to_string() << ' ' << i;
      }
      EXPECT_TRUE(bitwise_equal(out, run1(op, {unaligned(a), unaligned(b)})));
      EXPECT_TRUE(bitwise_equal(out, run_on_three_threads(op, {a, b})));
      EXPECT_TRUE(bitwise_equal(out, run1(op, {a.clone(), b.clone()})));  // in place
      EXPECT_TRUE(bitwise_equal(out, run1(op, {a, b.clone()})));
    }
  }
  template <class T>
  void expect_arithmetic() {
    expect_binary<T>(
        "Add", [](double a, double b) { return a + b; }, 0, 10);
    expect_binary<T>(
        "Mul", [](double a, double b) { return a * b; }, 0, 10);
    expect_binary<T>(
        "Sub", [](double a, double b) { return a - b; }, std::is_same_v<T, std::uint8_t> ? 0 : -10, 1);
    expect_binary<T>(
        "Maximum", [](double a, double b) { return std::max(a, b); }, 0, 10);
    expect_binary<T>(
        "Minimum", [](double a, double b) { return std::min(a, b); }, 0, 10);
    expect_binary<T>(
        "SquaredDifference", [](double a, double b) { return (a - b) * (a - b); }, 0, 10);
    expect_binary<T>(
        "Div", [](double a, double b) { return std::is_integral_v<T> ? std::trunc(a / b) : a / b; }, 1, 10);
    expect_binary<T>(
        "Equal", [](double a, double b) -> double { return a == b; }, 0, 3);
    expect_binary<T>(
        "NotEqual", [](double a, double b) -> double { return a != b; }, 0, 3);
    expect_binary<T>(
        "Less", [](double a, double b) -> double { return a < b; }, 0, 3);
    expect_binary<T>(
        "LessEqual", [](double a, double b) -> double { return a <= b; }, 0, 3);
    expect_binary<T>(
        "Greater", [](double a, double b) -> double { return a > b; }, 0, 3);
    expect_binary<T>(
        "GreaterEqual", [](double a, double b) -> double { return a >= b; }, 0, 3);
  }
};

TEST_F(BinaryTest, F32MatchesTheReference) {
  // Subtracting floats cancels: the reference is given the same floats, so the result is its rounding.
  expect_arithmetic<float>();
  expect_binary<float>(
      "Pow", [](double a, double b) { return std::pow(a, b); }, 0.1, 5);
}
TEST_F(BinaryTest, F64MatchesTheReference) { expect_arithmetic<double>(); }
TEST_F(BinaryTest, I8MatchesTheReference) { expect_arithmetic<std::int8_t>(); }
TEST_F(BinaryTest, U8MatchesTheReference) { expect_arithmetic<std::uint8_t>(); }
TEST_F(BinaryTest, I16MatchesTheReference) { expect_arithmetic<std::int16_t>(); }
TEST_F(BinaryTest, I32MatchesTheReference) {
  expect_arithmetic<std::int32_t>();
  expect_binary<std::int32_t>(
      "Pow", [](double a, double b) { return std::pow(a, b); }, 0, 5);
}
TEST_F(BinaryTest, I64MatchesTheReference) { expect_arithmetic<std::int64_t>(); }

TEST_F(BinaryTest, HalfPrecisionRoundsOnce) {
  const Tensor a = random<Half>({100}), b = random<Half>({100});
  const Tensor sum = run1("Add", {a, b});
  for (std::size_t i = 0; i < 100; ++i)
    EXPECT_EQ(sum.values<Half>()[i],
              Half(static_cast<float>(a.values<Half>()[i]) + static_cast<float>(b.values<Half>()[i])))
        << i;
  EXPECT_EQ(doubles(run1("Mul", {Tensor::scalar(BFloat16(3)), Tensor::scalar(BFloat16(-2))})), std::vector<double>{-6});
}

TEST_F(BinaryTest, IntegerOverflowWrapsAndDivisionByZeroIsAnError) {
  constexpr auto kLeast = std::numeric_limits<std::int32_t>::min();
  EXPECT_EQ(run1("Div", {Tensor::scalar(kLeast), Tensor::scalar(std::int32_t{-1})}).item<std::int32_t>(), kLeast);
  EXPECT_EQ(run1("Sub", {Tensor::scalar(kLeast), Tensor::scalar(std::int32_t{1})}).item<std::int32_t>(),
            std::numeric_limits<std::int32_t>::max());
  EXPECT_EQ(
      run1("Mul", {Tensor::scalar(std::int16_t{-32768}), Tensor::scalar(std::int16_t{-32768})}).item<std::int16_t>(),
      0);
  EXPECT_EQ(run1("Pow", {Tensor::scalar(std::int64_t{2}), Tensor::scalar(std::int64_t{65})}).item<std::int64_t>(), 0);
  EXPECT_NE(
      error_of("Div", {Tensor::vector<std::int32_t>({1, 2}), Tensor::vector<std::int32_t>({1, 0})}).find("divisor 1"),
      std::string::npos);
  EXPECT_EQ(error_of("Div", {Tensor(DType::i32, Shape{0}), Tensor::scalar(std::int32_t{0})}), "");
  EXPECT_NE(error_of("Pow", {Tensor::scalar(std::int32_t{2}), Tensor::scalar(std::int32_t{-1})}), "");
}

TEST_F(BinaryTest, MaximumAndMinimumPropagateNaN) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  const Tensor a = Tensor::vector<float>({kNaN, 1, kNaN}), b = Tensor::vector<float>({1, kNaN, kNaN});
  for (const char* op : {"Maximum", "Minimum"}) {
    const Tensor out = run1(op, {a, b});
    for (float v : out.values<float>()) EXPECT_TRUE(std::isnan(v)) << op;
  }
}

TEST_F(BinaryTest, ShapesThatDoNotBroadcastAreAnError) {
  EXPECT_NE(error_of("Add", {Tensor(DType::f32, Shape{2}), Tensor(DType::f32, Shape{3})}), "");
}

TEST_F(BinaryTest, LogicalOps) {
  const Tensor a = Tensor::vector<bool>({false, false, true, true}),
               b = Tensor::vector<bool>({false, true, false, true});
  EXPECT_EQ(doubles(run1("LogicalAnd", {a, b})), (std::vector<double>{0, 0, 0, 1}));
  EXPECT_EQ(doubles(run1("LogicalOr", {a, b})), (std::vector<double>{0, 1, 1, 1}));
  EXPECT_EQ(doubles(run1("Equal", {a, b})), (std::vector<double>{1, 0, 0, 1}));
}

TEST_F(BinaryTest, SelectBroadcastsAllThree) {
  const Shape sc{3, 1}, sa{4}, sb{2, 1, 1}, shape{2, 3, 4};
  const Tensor c = Tensor::of<bool>(sc, {true, false, true}), a = random<float>(sa), b = random<float>(sb);
  const Tensor out = run_as(DType::f32, "Select", {c, a, b});
  ASSERT_EQ(out.shape(), shape);
  for (std::int64_t i = 0; i < 24; ++i)
    EXPECT_EQ(out.data<float>()[i], c.data<bool>()[source_index(sc, shape, i)]
                                        ? a.data<float>()[source_index(sa, shape, i)]
                                        : b.data<float>()[source_index(sb, shape, i)])
        << i;
  const Tensor words = run_as(
      DType::string, "Select",
      {Tensor::vector<bool>({true, false}), Tensor::vector<std::string>({"a", "b"}), Tensor::scalar<std::string>("z")});
  EXPECT_TRUE(bitwise_equal(words, Tensor::vector<std::string>({"a", "z"})));
}

// Whole vectors with some elements left over, rows that no vector fits, and memory that begins anywhere.
TEST_F(BinaryTest, WidthsAndPlacesDoNotChangeResults) {
  const auto expect = [&]<class T>(T) {
    for (const auto& [sa, sb] : std::vector<std::pair<Shape, Shape>>{{{1003}, {1003}},
                                                                     {{1003}, {}},
                                                                     {{}, {70001}},
                                                                     {{9, 6}, {6}},
                                                                     {{9, 32}, {32}},
                                                                     {{9, 32}, {9, 1}},
                                                                     {{3, 1, 32}, {5, 1}}}) {
      SCOPED_TRACE(::testing::Message() << name(dtype_of<T>) << ' ' << sa.to_string() << ' ' << sb.to_string());
      const Tensor a = random<T>(sa), b = random<T>(sb);
      const Shape shape = broadcast(sa, sb);
      const Tensor c = run1("Less", {a, b});
      const std::vector<double> va = doubles(a), vb = doubles(b);
      const Tensor sum = run1("Add", {a, b}), chosen = run_as(dtype_of<T>, "Select", {c, a, b});
      for (std::int64_t i = 0; i < shape.num_elements(); ++i) {
        const auto x = source_index(sa, shape, i), y = source_index(sb, shape, i);
        ASSERT_EQ(c.data<bool>()[i], va[x] < vb[y]) << i;
        ASSERT_TRUE(chosen.data<T>()[i] == (c.data<bool>()[i] ? a.data<T>()[x] : b.data<T>()[y])) << i;
      }
      EXPECT_TRUE(bitwise_equal(run1("Add", {unaligned(a), b}), sum));
      EXPECT_TRUE(bitwise_equal(run1("Add", {a, unaligned(b)}), sum));
      EXPECT_TRUE(bitwise_equal(run1("Neg", {unaligned(a)}), run1("Neg", {a})));
      EXPECT_TRUE(bitwise_equal(run_as(dtype_of<T>, "Select", {unaligned(c), a, unaligned(b)}), chosen));
    }
  };
  expect(float{});
  expect(double{});
  expect(Half{});
  expect(std::int8_t{});
}

TEST_F(BinaryTest, AddNTakesManyTerms) {
  std::vector<Tensor> xs;
  for (int i = 0; i < 100; ++i) xs.push_back(random<Half>({203}));
  Tensor want = xs[0];
  for (int i = 1; i < 100; ++i) want = run1("Add", {want, xs[static_cast<std::size_t>(i)]});
  EXPECT_TRUE(bitwise_equal(run1("AddN", xs), want));
}

TEST_F(BinaryTest, AddNAddsFromLeftToRight) {
  std::vector<Tensor> xs;
  for (int i = 0; i < 5; ++i) xs.push_back(random<float>({40000}));
  Tensor want = xs[0];
  for (int i = 1; i < 5; ++i) want = run1("Add", {want, xs[static_cast<std::size_t>(i)]});
  EXPECT_TRUE(bitwise_equal(run1("AddN", xs), want));
  EXPECT_TRUE(bitwise_equal(run_on_three_threads("AddN", xs), want));
  EXPECT_TRUE(bitwise_equal(run1("AddN", {xs[0], xs[0]}), run1("Add", {xs[0], xs[0]})));
  std::vector<Tensor> copies;
  for (const Tensor& x : xs) copies.push_back(x.clone());
  const void* memory = copies[0].raw();
  const Tensor in_place = run1("AddN", std::move(copies));
  if (kernel_target().on_host()) {
    EXPECT_EQ(static_cast<const void*>(in_place.raw()), memory);
  }
  EXPECT_TRUE(bitwise_equal(in_place, want));
  EXPECT_TRUE(bitwise_equal(run1("AddN", {xs[1]}), xs[1]));
  EXPECT_NE(error_of("AddN", {xs[0], Tensor::scalar(1.0f)}), "");
}

}  // namespace
}  // namespace troupe::testing
