// Fourier transforms against sums in double, frames, mel weights.
#include <complex>
#include <numbers>

#include "tests/kernels/kernel_fixture.hpp"

namespace troupe::testing {
namespace {

class SignalTest : public KernelTest {
 protected:
  void SetUp() override {
    KernelTest::SetUp();
    TROUPE_CPU_ONLY("the transforms are Eigen's");
  }
};

// Line by line from the definition.
std::vector<std::complex<double>> transformed(const std::vector<std::complex<double>>& x, bool inverse) {
  const auto n = static_cast<double>(x.size());
  std::vector<std::complex<double>> out;
  for (std::size_t k = 0; k < x.size(); ++k) {
    std::complex<double> sum;
    for (std::size_t j = 0; j < x.size(); ++j)
      sum += x[j] * std::polar(1.0, (inverse ? 2 : -2) * std::numbers::pi * static_cast<double>(j * k) / n);
    out.push_back(inverse ? sum / n : sum);
  }
  return out;
}

TEST_F(SignalTest, TransformsAreSumsOfTheDefinition) {
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> values(-1, 1);
  for (const std::int64_t size : {1, 2, 5, 8, 30, 97, 103, 128})
    for (const std::int64_t channels : {1, 2})
      for (const bool inverse : {false, true})
        for (const std::int64_t length : {std::int64_t{-1}, size + 3, std::max<std::int64_t>(size / 2, 1)}) {
          SCOPED_TRACE(::testing::Message()
                       << size << " x " << channels << ", to " << length << (inverse ? " inverse" : ""));
          Tensor x(DType::f64, Shape{2, size, 3, channels});
          for (double& v : x.mutable_values<double>()) v = values(random);
          const bool onesided = !inverse && channels == 1 && length != size + 3;
          const Attributes attributes{{"axis", std::int64_t{1}}, {"inverse", inverse}, {"onesided", onesided}};
          const Tensor found = run1("DFT", {x, Tensor::scalar<std::int64_t>(length)}, attributes);
          const std::int64_t n = length < 0 ? size : length, bins = onesided ? n / 2 + 1 : n;
          ASSERT_EQ(found.shape(), (Shape{2, bins, 3, 2}));
          EXPECT_TRUE(
              bitwise_equal(found, run_on_three_threads("DFT", {x, Tensor::scalar<std::int64_t>(length)}, attributes)));
          for (std::int64_t b = 0; b < 2; ++b)
            for (std::int64_t i = 0; i < 3; ++i) {
              std::vector<std::complex<double>> line(static_cast<std::size_t>(n));
              for (std::int64_t k = 0; k < std::min(n, size); ++k) {
                const double* at = x.data<double>() + ((b * size + k) * 3 + i) * channels;
                line[static_cast<std::size_t>(k)] = {at[0], channels == 2 ? at[1] : 0};
              }
              const auto expected = transformed(line, inverse);
              for (std::int64_t k = 0; k < bins; ++k) {
                const double* at = found.data<double>() + ((b * bins + k) * 3 + i) * 2;
                ASSERT_NEAR(at[0], expected[static_cast<std::size_t>(k)].real(), 1e-11);
                ASSERT_NEAR(at[1], expected[static_cast<std::size_t>(k)].imag(), 1e-11);
              }
            }
        }
  const Attributes plain{{"axis", std::int64_t{1}}, {"inverse", false}, {"onesided", false}};
  const auto error = [&](const Shape& shape, std::int64_t length) {
    return error_of("DFT", {Tensor::zeros(DType::f32, shape), Tensor::scalar(length)}, plain);
  };
  EXPECT_NE(error({2, 3}, -1), "");
  EXPECT_NE(error({2, 3, 3}, -1), "");
  EXPECT_NE(error({2, 0, 1}, -1), "");
  EXPECT_NE(error({2, 3, 1}, std::int64_t{1} << 40), "");
}

TEST_F(SignalTest, RealNumbersComeBackFromHalfOfTheirSpectrum) {
  std::mt19937_64 random(4);
  std::uniform_real_distribution<double> values(-1, 1);
  const Attributes forward{{"axis", std::int64_t{1}}, {"inverse", false}, {"onesided", true}},
      back{{"axis", std::int64_t{1}}, {"inverse", true}, {"onesided", true}};
  for (const std::int64_t size : {1, 2, 5, 8, 30, 97}) {
    Tensor x(DType::f64, Shape{2, size, 3, 1});
    for (double& v : x.mutable_values<double>()) v = values(random);
    const Tensor length = Tensor::scalar(size);
    const Tensor spectrum = run1("DFT", {x, length}, forward), found = run1("DFT", {spectrum, length}, back);
    ASSERT_EQ(found.shape(), x.shape());
    for (std::size_t i = 0; i < x.values<double>().size(); ++i)
      ASSERT_NEAR(found.values<double>()[i], x.values<double>()[i], 1e-12) << size << ' ' << i;
    EXPECT_TRUE(bitwise_equal(found, run_on_three_threads("DFT", {spectrum, length}, back)));
    if (size == 8) EXPECT_TRUE(bitwise_equal(run1("DFT", {spectrum, Tensor::scalar<std::int64_t>(-1)}, back), found));
  }
  EXPECT_NE(error_of("DFT", {Tensor::zeros(DType::f32, {2, 3, 1}), Tensor::scalar<std::int64_t>(4)}, back), "");
  EXPECT_NE(error_of("DFT", {Tensor::zeros(DType::f32, {2, 1, 2}), Tensor::scalar<std::int64_t>(-1)}, back), "");
}

TEST_F(SignalTest, FramesOverlap) {
  const Tensor x = Tensor::of<float>(Shape{1, 7, 1}, {0, 1, 2, 3, 4, 5, 6});
  const auto number = [](std::int64_t n) { return Tensor::scalar(n); };
  const Tensor frames = run1("Frame", {x, number(3), number(2)});
  EXPECT_EQ(frames.shape(), (Shape{1, 3, 3, 1}));
  const std::vector<float> found(frames.values<float>().begin(), frames.values<float>().end());
  EXPECT_EQ(found, (std::vector<float>{0, 1, 2, 2, 3, 4, 4, 5, 6}));
  EXPECT_NE(error_of("Frame", {x, number(8), number(1)}), "");
  EXPECT_NE(error_of("Frame", {x, number(3), number(0)}), "");
}

}  // namespace
}  // namespace troupe::testing
