// Elementwise kernels of one operand, and gradients.
#include "tests/kernels/kernel_fixture.hpp"

namespace troupe::testing {
namespace {

struct MathFunction {
  const char* op;
  long double (*exact)(long double);
};

long double sigmoid(long double x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }
long double softplus(long double x) { return std::max(x, 0.0L) + std::log1p(std::exp(-std::abs(x))); }

const std::vector<MathFunction>& functions() {
  static const std::vector<MathFunction> all{
      {"Exp", [](long double x) { return std::exp(x); }},
      {"Log", [](long double x) { return std::log(x); }},
      {"Log1p", [](long double x) { return std::log1p(x); }},
      {"Sqrt", [](long double x) { return std::sqrt(x); }},
      {"Rsqrt", [](long double x) { return 1 / std::sqrt(x); }},
      {"Tanh", [](long double x) { return std::tanh(x); }},
      {"Sigmoid", [](long double x) { return std::isnan(x) ? x : sigmoid(x); }},
      {"Softplus", [](long double x) { return std::isnan(x) ? x : softplus(x); }},
      {"Floor", [](long double x) { return std::floor(x); }},
      {"Ceil", [](long double x) { return std::ceil(x); }},
      {"Round", [](long double x) { return std::nearbyint(x); }},
      {"Sin", [](long double x) { return std::sin(x); }},
      {"Cos", [](long double x) { return std::cos(x); }},
      {"Tan", [](long double x) { return std::tan(x); }},
      {"Asin", [](long double x) { return std::asin(x); }},
      {"Acos", [](long double x) { return std::acos(x); }},
      {"Atan", [](long double x) { return std::atan(x); }},
      {"Sinh", [](long double x) { return std::sinh(x); }},
      {"Cosh", [](long double x) { return std::cosh(x); }},
      {"Asinh", [](long double x) { return std::asinh(x); }},
      {"Acosh", [](long double x) { return std::acosh(x); }},
      {"Atanh", [](long double x) { return std::atanh(x); }},
      {"Expm1", [](long double x) { return std::expm1(x); }},
      {"Erfc", [](long double x) { return std::erfc(x); }},
      {"Lgamma", [](long double x) { return std::lgamma(x); }},
      {"Erf", [](long double x) { return std::erf(x); }},
      {"Neg", [](long double x) { return -x; }},
      {"Abs", [](long double x) { return std::abs(x); }},
      {"Square", [](long double x) { return x * x; }},
  };
  return all;
}

// In the range where other functions need none: large arguments of sin and others, and the edges of their branches.
template <class T>
void add_turns(std::vector<T>& values) {
  for (const double x : {1e8, 1.0001e8, 3.1415926, 1.5707964, -1.5707963, 102943.705, 1e22, 2.4142135, 0.41421355, 0.5,
                         0.50000006, 89.4, 89.416, 89.42, 1073741824.0, 1e30})
    values.insert(values.end(), {static_cast<T>(x), static_cast<T>(-x)});
}

// Every kind of float: special values, random bits, and the range where functions bend.
template <class T>
Tensor sweep(std::mt19937_64& engine, std::int64_t count) {
  using Limits = std::numeric_limits<T>;
  std::vector<T> values{0,
                        -T{0},
                        1,
                        -1,
                        Limits::min(),
                        -Limits::min(),
                        Limits::max(),
                        Limits::lowest(),
                        Limits::infinity(),
                        -Limits::infinity(),
                        Limits::quiet_NaN(),
                        Limits::denorm_min(),
                        T(0.5),
                        T(-0.5),
                        T(0.625),
                        T(-0.625),
                        T(88.7228),
                        T(88.73),
                        T(-87.4),
                        T(-103.9),
                        T(-104.5),
                        4,
                        -4,
                        Limits::epsilon(),
                        -Limits::epsilon(),
                        T(0.70710677),
                        T(1.4142135),
                        std::nextafter(T{1}, T{0})};
  add_turns(values);
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  while (static_cast<std::int64_t>(values.size()) < count) {
    values.push_back(std::bit_cast<T>(static_cast<Bits>(engine())));
    values.push_back(std::uniform_real_distribution<T>(-2, 2)(engine));
    values.push_back(std::uniform_real_distribution<T>(-110, 110)(engine));
  }
  return Tensor::of<T>(Shape{static_cast<std::int64_t>(values.size())}, std::span<const T>(values));
}

class MathTest : public KernelTest {
 protected:
  template <class T>
  void expect_accurate(const MathFunction& f, const Tensor& x) {
    const Tensor y = run1(f.op, {x.clone()});
    double worst = 0;
    T at = 0;
    for (std::size_t i = 0; i < x.values<T>().size(); ++i) {
      const double error = ulps(y.values<T>()[i], f.exact(x.values<T>()[i]));
      if (error > worst) worst = error, at = x.values<T>()[i];
    }
    EXPECT_LE(worst, 4) << f.op << " of " << name(dtype_of<T>) << " at " << at << ": "
                        << run1(f.op, {Tensor::scalar(at)}).to_string() << ", not " << static_cast<T>(f.exact(at));
  }
};

TEST_F(MathTest, FunctionsAreWithinFourUlpOfExact) {
  const Tensor x32 = sweep<float>(engine_, 200'000), x64 = sweep<double>(engine_, 20'000);
  for (const MathFunction& f : functions()) {
    expect_accurate<float>(f, x32);
    expect_accurate<double>(f, x64);
  }
}

TEST_F(MathTest, HalfPrecisionRoundsTheFloatResult) {
  const Tensor x = random<Half>({1000}), b = random<BFloat16>({1000});
  for (const MathFunction& f : functions()) {
    const Tensor y = run1(f.op, {x}), z = run1(f.op, {b});
    for (std::size_t i = 0; i < 1000; ++i) {
      const auto exact = static_cast<float>(f.exact(static_cast<float>(x.values<Half>()[i])));
      if (std::isfinite(exact)) {
        EXPECT_NEAR(static_cast<float>(y.values<Half>()[i]), exact, std::abs(exact) * 6e-4 + 1e-7) << f.op;
      }
      const auto exact_b = static_cast<float>(f.exact(static_cast<float>(b.values<BFloat16>()[i])));
      if (std::isfinite(exact_b)) {
        EXPECT_NEAR(static_cast<float>(z.values<BFloat16>()[i]), exact_b, std::abs(exact_b) * 5e-3) << f.op;
      }
    }
  }
}

TEST_F(MathTest, ResultsDependNeitherOnThePlaceOfAnElementNorOnAlignmentOrThreads) {
  const Tensor x = sweep<float>(engine_, 60'000);
  for (const MathFunction& f : functions()) {
    const Tensor whole = run1(f.op, {x});
    const auto expect_same = [&](const Tensor& other, std::int64_t begin) {
      for (std::int64_t i = 0; i < other.num_elements(); ++i) {
        const float a = other.data<float>()[i], b = whole.data<float>()[begin + i];
        ASSERT_TRUE(std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) || (a != a && b != b))
            << f.op << " of " << x.data<float>()[begin + i] << ": " << a << ", " << b;
      }
    };
    expect_same(run1(f.op, {unaligned(x)}), 0);
    expect_same(run_on_three_threads(f.op, {x}), 0);
    for (std::int64_t begin : {1, 3, 1001})
      for (std::int64_t size : {1, 2, 5, 13, 31, 100}) expect_same(run1(f.op, {x.rows(begin, begin + size)}), begin);
  }
}

TEST_F(MathTest, ReluAndSign) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  const Tensor x = Tensor::vector<float>({-2, -0.0f, 0, 3, kNaN});
  const Tensor relu = run1("Relu", {x}), sign = run1("Sign", {x});
  EXPECT_EQ(relu.values<float>()[0], 0);
  EXPECT_EQ(relu.values<float>()[3], 3);
  EXPECT_TRUE(std::isnan(relu.values<float>()[4]));
  EXPECT_EQ(sign.values<float>()[0], -1);
  EXPECT_TRUE(std::signbit(sign.values<float>()[1]));
  EXPECT_EQ(sign.values<float>()[3], 1);
  EXPECT_TRUE(std::isnan(sign.values<float>()[4]));
  EXPECT_EQ(doubles(run1("LeakyRelu", {Tensor::vector<double>({-2, 3})}, {{"alpha", 0.25}})),
            (std::vector<double>{-0.5, 3}));
  EXPECT_EQ(doubles(run1("Sign", {Tensor::vector<std::uint8_t>({0, 200})})), (std::vector<double>{0, 1}));
}

TEST_F(MathTest, IntegersWrap) {
  EXPECT_EQ(run1("Neg", {Tensor::vector<std::int8_t>({-128, 5})}).values<std::int8_t>()[0], -128);
  EXPECT_EQ(
      run1("Abs", {Tensor::vector<std::int64_t>({std::numeric_limits<std::int64_t>::min()})}).item<std::int64_t>(),
      std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(run1("Square", {Tensor::vector<std::int16_t>({-32768, 256})}).values<std::int16_t>()[0], 0);
}

TEST_F(MathTest, GradientsOfActivations) {
  const Tensor dy = Tensor::vector<double>({2, 2, 2}), y = Tensor::vector<double>({-0.5, 0, 0.25});
  EXPECT_EQ(doubles(run1("ReluGrad", {dy, y})), (std::vector<double>{0, 0, 2}));
  EXPECT_EQ(doubles(run1("LeakyReluGrad", {dy, y}, {{"alpha", 0.5}})), (std::vector<double>{1, 1, 2}));
  EXPECT_EQ(doubles(run1("SigmoidGrad", {dy, y})), (std::vector<double>{-1.5, 0, 0.375}));
  EXPECT_EQ(doubles(run1("TanhGrad", {dy, y})), (std::vector<double>{1.5, 2, 1.875}));
  EXPECT_NE(error_of("ReluGrad", {dy, Tensor::vector<double>({1})}), "");
}

TEST_F(MathTest, WorksInPlaceIfNobodyElseHoldsTheInput) {
  TROUPE_CPU_ONLY("looks at where tensors lie");
  Tensor x = Tensor::vector<float>({1, 4, 9});
  const void* memory = x.raw();
  Tensor held = run1("Sqrt", {x});  // x is held here
  EXPECT_NE(static_cast<const void*>(held.raw()), memory);
  EXPECT_EQ(doubles(x), (std::vector<double>{1, 4, 9}));
  std::vector<Tensor> inputs;
  inputs.push_back(std::move(x));
  const Tensor y = run1("Sqrt", std::move(inputs));
  EXPECT_EQ(static_cast<const void*>(y.raw()), memory);
  EXPECT_EQ(doubles(y), (std::vector<double>{1, 2, 3}));
}

TEST_F(MathTest, EmptyAndScalarTensors) {
  EXPECT_EQ(run1("Exp", {Tensor(DType::f32, Shape{3, 0})}).shape(), (Shape{3, 0}));
  EXPECT_EQ(run1("Exp", {Tensor::scalar(0.0f)}).item<float>(), 1);
  EXPECT_EQ(doubles(run1("LogicalNot", {Tensor::vector<bool>({true, false})})), (std::vector<double>{0, 1}));
}

}  // namespace
}  // namespace troupe::testing
