// Divisions and their remainders, rarer functions, bits, strings, activations made of other ops.
#include "tests/kernels/evaluate_graph.hpp"
#include "tests/kernels/kernel_fixture.hpp"
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/gradients/autodiff.hpp>

namespace troupe::testing {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity(), kNotANumber = std::nan("");

class SpecialTest : public KernelTest {
 protected:
  // With operands of shapes [97,3,1] and [1,4], in T.
  template <class T>
  void expect_division(const std::string& op, double (*exact)(double, double)) {
    SCOPED_TRACE(op + " " + std::string(name(dtype_of<T>)));
    const double low = std::is_unsigned_v<T> ? 0 : -100;
    const Tensor a = random<T>({97, 3, 1}, low, 100);
    Tensor b(dtype_of<T>, Shape{1, 4});
    const double divisors[] = {7, std::is_unsigned_v<T> ? 3.0 : -3, 1, std::is_unsigned_v<T> ? 1.0 : -1};
    for (int i = 0; i < 4; ++i) b.mutable_data<T>()[i] = static_cast<T>(static_cast<Compute<T>>(divisors[i]));
    const Tensor y = run1(op, {a, b});
    ASSERT_EQ(y.shape(), (Shape{97, 3, 4}));
    const std::vector<double> x = doubles(a), found = doubles(y);
    for (std::size_t i = 0; i < found.size(); ++i) {
      const double want = exact(x[i / 4], divisors[i % 4]);
      const auto rounded = static_cast<T>(static_cast<Compute<T>>(want));
      ASSERT_EQ(found[i], static_cast<double>(static_cast<Compute<T>>(rounded))) << x[i / 4] << ", " << divisors[i % 4];
    }
    EXPECT_TRUE(bitwise_equal(y, run_on_three_threads(op, {a, b})));
    if constexpr (std::is_integral_v<T>) {
      EXPECT_NE(error_of(op, {a, Tensor::scalar(T{0})}).find("divisor 0"), std::string::npos);
    }
  }
  static Tensor evaluated(Output y) { return GraphEvaluator().run(y); }
  static void expect_close(Output y, const std::vector<double>& wanted, double tolerance = 1e-12) {
    const std::vector<double> found = doubles(evaluated(y));
    ASSERT_EQ(found.size(), wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i)
      EXPECT_TRUE(found[i] == wanted[i] || std::abs(found[i] - wanted[i]) <= tolerance * (1 + std::abs(wanted[i])))
          << y.name() << ' ' << i << ": " << found[i] << ", not " << wanted[i];
  }
  Graph graph_;
};

TEST_F(SpecialTest, DivisionsRoundAsTheirNamesSay) {
  for_each_type(RealTypes{}, [&]<class T>() {
    expect_division<T>("FloorDiv", [](double a, double b) { return std::floor(a / b); });
    expect_division<T>("FloorMod", [](double a, double b) {
      const double rest = std::fmod(a, b);
      return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
    });
    expect_division<T>("TruncateMod", [](double a, double b) { return std::fmod(a, b); });
  });
}

TEST_F(SpecialTest, DivisionsOfExtremeIntegersAndFloats) {
  constexpr auto kLeast = std::numeric_limits<std::int64_t>::min();
  const Tensor least = Tensor::scalar(kLeast), one = Tensor::scalar(std::int64_t{-1});
  EXPECT_EQ(run1("FloorDiv", {least, one}).item<std::int64_t>(), kLeast);
  EXPECT_EQ(run1("FloorMod", {least, one}).item<std::int64_t>(), 0);
  EXPECT_EQ(run1("FloorMod", {Tensor::scalar(std::uint64_t{18446744073709551615u}), Tensor::scalar(std::uint64_t{10})})
                .item<std::uint64_t>(),
            5u);
  const Tensor a = Tensor::vector<double>({1, -1, 0, kInfinite, 5}),
               b = Tensor::vector<double>({-kInfinite, 3, -2, 2, 0});
  const std::vector<double> floor_mod = doubles(run1("FloorMod", {a, b}));
  EXPECT_EQ(floor_mod[0], -kInfinite);
  EXPECT_EQ(floor_mod[1], 2);
  EXPECT_TRUE(std::signbit(floor_mod[2]));
  EXPECT_TRUE(std::isnan(floor_mod[3]) && std::isnan(floor_mod[4]));
  EXPECT_EQ(run1("FloorMod", {Tensor(DType::i32, Shape{0, 2}), Tensor(DType::i32, Shape{2})}).shape(), (Shape{0, 2}));
}

TEST_F(SpecialTest, Atan2AndXlogy) {
  const Tensor y = Tensor::vector<double>({1, -1, 0, -0.0, kNotANumber}),
               x = Tensor::vector<double>({-2, -2, -1, -1, 1});
  const std::vector<double> angle = doubles(run1("Atan2", {y, x}));
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(angle[static_cast<std::size_t>(i)], std::atan2(y.data<double>()[i], x.data<double>()[i]));
  EXPECT_TRUE(std::isnan(angle[4]));
  const Tensor a = Tensor::vector<float>({0, 0, 2, 0}), b = Tensor::vector<float>({0, -1, 3, std::nanf("")});
  const std::vector<double> product = doubles(run1("Xlogy", {a, b}));
  EXPECT_EQ(product[0], 0);
  EXPECT_EQ(product[1], 0);
  EXPECT_NEAR(product[2], 2.1972246, 1e-6);
  EXPECT_TRUE(std::isnan(product[3]));
}

// Of mpmath: digamma, and polygamma(n, x).
TEST_F(SpecialTest, DigammaAndItsDerivatives) {
  const Tensor x = Tensor::vector<double>({1e-3, 0.25, 1, 12, 1e10, -0.5, -3.7});
  const double wanted[] = {-1000.5755719318101, -4.2274535333762654,  -0.57721566490153286, 2.4426616799758122,
                           23.025850929890457,  0.036489973978576521, -0.84507685887042026};
  const Tensor y = run1("Digamma", {x});
  for (std::size_t i = 0; i < 7; ++i)
    EXPECT_NEAR(y.values<double>()[i], wanted[i], 4e-15 * std::max(1.0, std::abs(wanted[i]))) << i;
  EXPECT_TRUE(std::isnan(run1("Digamma", {Tensor::scalar(-2.0)}).item<double>()));
  EXPECT_TRUE(std::isnan(run1("Digamma", {Tensor::scalar(kNotANumber)}).item<double>()));
  EXPECT_EQ(run1("Digamma", {Tensor::scalar(kInfinite)}).item<double>(), kInfinite);
  const double pi = std::numbers::pi;
  EXPECT_NEAR(run1("Polygamma", {Tensor::scalar(1.0)}, {{"n", std::int64_t{1}}}).item<double>(), pi * pi / 6, 1e-14);
  EXPECT_NEAR(run1("Polygamma", {Tensor::scalar(0.5)}, {{"n", std::int64_t{1}}}).item<double>(), pi * pi / 2, 1e-14);
  EXPECT_NEAR(run1("Polygamma", {Tensor::scalar(1.0)}, {{"n", std::int64_t{3}}}).item<double>(), std::pow(pi, 4) / 15,
              1e-13);
  EXPECT_NEAR(run1("Polygamma", {Tensor::scalar(-0.5)}, {{"n", std::int64_t{1}}}).item<double>(), pi * pi / 2 + 4,
              1e-13);
  EXPECT_TRUE(std::isnan(run1("Polygamma", {Tensor::scalar(0.0)}, {{"n", std::int64_t{1}}}).item<double>()));
}

TEST_F(SpecialTest, SoftsignAndRoundToEven) {
  EXPECT_EQ(doubles(run1("Softsign", {Tensor::vector<double>({-3, 0, 1})})), (std::vector<double>{-0.75, 0, 0.5}));
  EXPECT_EQ(doubles(run1("Round", {Tensor::vector<float>({0.5f, 1.5f, 2.5f, -0.5f, -1.5f, 8388609})})),
            (std::vector<double>{0, 2, 2, 0, -2, 8388609}));
}

TEST_F(SpecialTest, BitsOfIntegers) {
  const Tensor a = Tensor::vector<std::uint8_t>({0b1100, 255, 1}), b = Tensor::vector<std::uint8_t>({0b1010, 1, 0});
  EXPECT_EQ(doubles(run1("BitwiseAnd", {a, b})), (std::vector<double>{8, 1, 0}));
  EXPECT_EQ(doubles(run1("BitwiseOr", {a, b})), (std::vector<double>{14, 255, 1}));
  EXPECT_EQ(doubles(run1("BitwiseXor", {a, b})), (std::vector<double>{6, 254, 1}));
  EXPECT_EQ(doubles(run1("BitwiseNot", {a})), (std::vector<double>{243, 0, 254}));
  EXPECT_EQ(doubles(run1("BitwiseNot", {Tensor::vector<std::int64_t>({0, -1, 5})})), (std::vector<double>{-1, 0, -6}));
  EXPECT_EQ(doubles(run1("BitwiseXor", {Tensor::vector<std::int32_t>({5, -1}), Tensor::scalar(std::int32_t{3})})),
            (std::vector<double>{6, -4}));
}

TEST_F(SpecialTest, ShiftsMoveAllBitsOutIfTheNumberIsTooLarge) {
  const Tensor u = Tensor::vector<std::uint16_t>({1, 65535, 40000}), by = Tensor::vector<std::uint16_t>({15, 16, 3});
  EXPECT_EQ(doubles(run1("LeftShift", {u, by})), (std::vector<double>{32768, 0, 57856}));
  EXPECT_EQ(doubles(run1("RightShift", {u, by})), (std::vector<double>{0, 0, 5000}));
  const Tensor i = Tensor::vector<std::int32_t>({-9, -9, 9, 9}), bits = Tensor::vector<std::int32_t>({1, 40, 40, -1});
  EXPECT_EQ(doubles(run1("RightShift", {i, bits})), (std::vector<double>{-5, -1, 0, 0}));
  EXPECT_EQ(doubles(run1("LeftShift", {i, bits})), (std::vector<double>{-18, 0, 0, 0}));
}

TEST_F(SpecialTest, NumbersAsStrings) {
  const auto texts = [&](const Tensor& x) {
    const Tensor t = run1("AsString", {x});
    return std::vector<std::string>(t.values<std::string>().begin(), t.values<std::string>().end());
  };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(texts(Tensor::vector<float>({0.1f, 1, -2.5f, 1e-5f, 1e16f, 123456, 0.00012f, -0.0f})),
            (Texts{"0.1", "1.0", "-2.5", "1e-05", "1e+16", "123456.0", "0.00012", "-0.0"}));
  EXPECT_EQ(texts(Tensor::vector<double>({kNotANumber, kInfinite, -kInfinite, 1e300, 0.1})),
            (Texts{"NaN", "INF", "-INF", "1e+300", "0.1"}));
  EXPECT_EQ(texts(Tensor::vector<Half>({Half(0.1f), Half(3)})), (Texts{"0.1", "3.0"}));
  EXPECT_EQ(texts(Tensor::vector<std::int8_t>({-128, 7})), (Texts{"-128", "7"}));
  EXPECT_EQ(texts(Tensor::vector<bool>({true, false})), (Texts{"true", "false"}));
}

TEST_F(SpecialTest, StringsAsNumbers) {
  const Tensor t = Tensor::vector<std::string>({" 1.5 ", "-2e3", "+INF", "-inf", "NaN", "1e400", "+7"});
  const auto numbers = [&](DType dtype, const Tensor& x) { return doubles(run_as(dtype, "StringToNumber", {x})); };
  const std::vector<double> f = numbers(DType::f32, t);
  EXPECT_EQ(std::vector<double>(f.begin(), f.begin() + 4), (std::vector<double>{1.5, -2000, kInfinite, -kInfinite}));
  EXPECT_TRUE(std::isnan(f[4]));
  EXPECT_EQ(f[5], kInfinite);
  EXPECT_EQ(f[6], 7);
  const Tensor whole = Tensor::vector<std::string>({"100.5", "-300", "9", "1e9"});
  EXPECT_EQ(numbers(DType::i8, whole), (std::vector<double>{100, -128, 9, 127}));
  EXPECT_EQ(numbers(DType::boolean, Tensor::vector<std::string>({"true", "False", "0", "2"})),
            (std::vector<double>{1, 0, 0, 1}));
  for (const char* bad : {"", "1x", "one", "0x10", "+-1"}) {
    try {
      run_as(DType::f32, "StringToNumber", {Tensor::scalar<std::string>(bad)});
      ADD_FAILURE() << bad;
    } catch (const Error& error) {
      EXPECT_NE(error.message().find("not a number of dtype f32"), std::string::npos) << error.message();
    }
  }
}

TEST_F(SpecialTest, StringsAreComparedAndSelected) {
  const Tensor a = Tensor::of<std::string>(Shape{2, 1}, {"a", "b"}), b = Tensor::vector<std::string>({"b", "c", "a"});
  EXPECT_EQ(doubles(run1("Equal", {a, b})), (std::vector<double>{0, 0, 1, 1, 0, 0}));
  EXPECT_EQ(doubles(run1("NotEqual", {a, b})), (std::vector<double>{1, 1, 0, 0, 1, 1}));
}

TEST_F(SpecialTest, QuestionsAboutFloats) {
  const Output x = constant(graph_, Tensor::vector<float>({1, -std::numeric_limits<float>::infinity(), std::nanf(""),
                                                           std::numeric_limits<float>::infinity()}));
  EXPECT_EQ(doubles(evaluated(is_nan(x))), (std::vector<double>{0, 0, 1, 0}));
  EXPECT_EQ(doubles(evaluated(is_inf(x))), (std::vector<double>{0, 1, 0, 1}));
  EXPECT_EQ(doubles(evaluated(is_inf(x, {.negative = false}))), (std::vector<double>{0, 0, 0, 1}));
  EXPECT_EQ(doubles(evaluated(is_inf(x, {.positive = false}))), (std::vector<double>{0, 1, 0, 0}));
  EXPECT_EQ(doubles(evaluated(is_inf(x, {.negative = false, .positive = false}))), (std::vector<double>{0, 0, 0, 0}));
  EXPECT_EQ(doubles(evaluated(is_finite(x))), (std::vector<double>{1, 0, 0, 0}));
}

TEST_F(SpecialTest, ClipTakesEitherBound) {
  const Output x = constant<std::int32_t>(graph_, {-5, 0, 9}), low = constant(graph_, -2), high = constant(graph_, 3);
  EXPECT_EQ(doubles(evaluated(clip(x, low, high))), (std::vector<double>{-2, 0, 3}));
  EXPECT_EQ(doubles(evaluated(clip(x, {}, high))), (std::vector<double>{-5, 0, 3}));
  EXPECT_EQ(doubles(evaluated(clip(x, low, {}))), (std::vector<double>{-2, 0, 9}));
  EXPECT_EQ(doubles(evaluated(clip(x, Output(), Output()))), (std::vector<double>{-5, 0, 9}));
  EXPECT_EQ(doubles(evaluated(clip(x, high, low))), (std::vector<double>{-2, -2, -2}));
}

// Of NumPy.
TEST_F(SpecialTest, ActivationsHaveTheirFormulas) {
  const Output x = constant(graph_, Tensor::vector<double>({-30, -3, -1, -0.5, 0, 0.25, 1, 2.5, 30}));
  expect_close(elu(x, 1.5),
               {-1.49999999999986, -1.4253193974482, -0.948180838242836, -0.59020401043105, 0, 0.25, 1, 2.5, 30});
  expect_close(selu(x), {-1.75809934084721, -1.67056872876711, -1.11133073781256, -0.691758187802871, 0,
                         0.26267524683887, 1.05070098735548, 2.6267524683887, 31.5210296206644});
  expect_close(celu(x, 2),
               {-1.99999938819536, -1.55373967970314, -0.786938680574733, -0.44239843385719, 0, 0.25, 1, 2.5, 30});
  expect_close(gelu(x), {-1.47201417814463e-196, -0.00404969409489029, -0.158655253931457, -0.154268769362993, 0,
                         0.149676581420731, 0.841344746068543, 2.48447583668556, 30});
  expect_close(gelu(x, {.approximate = true}), {0, -0.00363739208177302, -0.158808009391723, -0.154285990174856, 0,
                                                0.149675350701685, 0.841191990608277, 2.48491573391, 30});
  expect_close(silu(x), {-2.80728689065179e-12, -0.1422776195327, -0.268941421369995, -0.188770334399073, 0,
                         0.14054412522145, 0.731058578630005, 2.31035454994689, 29.9999999999972});
  expect_close(mish(x), {-2.80728689065192e-12, -0.145647461275625, -0.303401461374109, -0.22074377465173, 0,
                         0.169572409663818, 0.86509838826731, 2.47139230455788, 30});
  expect_close(hard_sigmoid(x), {0, 0, 0.3, 0.4, 0.5, 0.55, 0.7, 1, 1});
  expect_close(hard_swish(x), {0, 0, -0.333333333333333, -0.208333333333333, 0, 0.135416666666667, 0.666666666666667,
                               2.29166666666667, 30});
  expect_close(softsign(x), {-0.967741935483871, -0.75, -0.5, -0.333333333333333, 0, 0.2, 0.5, 0.714285714285714,
                             0.967741935483871});
  expect_close(relu6(x), {0, 0, 0, 0, 0, 0.25, 1, 2.5, 6});
  expect_close(thresholded_relu(x), {0, 0, 0, 0, 0, 0, 0, 2.5, 30});
  expect_close(shrink(x, {.bias = 0.5, .threshold = 0.75}), {-29.5, -2.5, -0.5, 0, 0, 0, 0.5, 2, 29.5});
  expect_close(prelu(x, constant(graph_, 0.5)), {-15, -1.5, -0.5, -0.25, 0, 0.25, 1, 2.5, 30});
  expect_close(reciprocal(x + 1), {-1.0 / 29, -0.5, kInfinite, 2, 1, 0.8, 0.5, 1 / 3.5, 1.0 / 31});
  EXPECT_EQ(doubles(evaluated(shrink(constant<std::int8_t>(graph_, {-2, 0, 1}), {.bias = 1}))),
            (std::vector<double>{-1, 0, 0}));
}

TEST_F(SpecialTest, ActivationsAndTheirGradientsOverflowForNoArgument) {
  const Output x = placeholder(graph_, DType::f32, Shape{4});
  const Tensor huge = Tensor::vector<float>({-1e30f, -200, 200, 1e30f});
  for (const Output& y : {elu(x), selu(x), celu(x), silu(x), mish(x), softsign(x)}) {
    const std::vector<Gradient> found = gradients(Outputs{sum(y)}, Outputs{x});
    for (const Output& value : {y, dense(found[0], x)})
      for (const double v : doubles(GraphEvaluator().run(value, {{{x.node, x.index}, huge}})))
        EXPECT_TRUE(std::isfinite(v)) << y.name();
  }
}

}  // namespace
}  // namespace troupe::testing
