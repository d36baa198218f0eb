// BatchNorm and LayerNorm with their gradients, against formulas in double precision.
#include <gtest/gtest.h>

#include "tests/kernels/random_tensors.hpp"

namespace troupe {
namespace {

using namespace troupe::testing;

struct NormCase {
  Shape shape;
  double low = -2, high = 2;  // of x
};

// Odd numbers of channels, one row, one channel, channels of several tiles, rows of several blocks, and numbers that
// are all alike but for their last digits.
const std::vector<NormCase> kCases{{{1, 5}},
                                   {{7, 3}},
                                   {{2, 3, 4, 5}},
                                   {{1000, 1}},
                                   {{300, 8}},
                                   {{1100, 65}},
                                   {{40, 2056}},
                                   {{5000, 16}},
                                   {{70, 24}, -1e-3, 1e-3},
                                   {{700, 8}, 999, 1001},
                                   {{40, 7}, 5e4, 5.01e4}};

const std::vector<DType> kTypes{DType::f32, DType::f64, DType::f16, DType::bf16};

DType own_type(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }
double precision(DType own) { return own == DType::f64 ? 1e-14 : 1e-6; }
double rounding(DType dtype) {
  return dtype == DType::f16 ? 0x1p-11 : dtype == DType::bf16 ? 0x1p-8 : dtype == DType::f32 ? 0x1p-23 : 0x1p-51;
}
double smallest(DType dtype) { return dtype == DType::f16 ? 0x1p-24 : 1e-37; }
bool fits(DType dtype, const NormCase& c) { return dtype != DType::f16 || c.high < 6e4; }

struct Inputs {
  Tensor x, dy, scale, offset;
  std::size_t width, rows;
  Inputs(DType dtype, const NormCase& c, std::mt19937_64& engine)
      : x(random_tensor(dtype, c.shape, engine, c.low, c.high)),
        dy(random_tensor(dtype, c.shape, engine)),
        scale(random_tensor(own_type(dtype), {c.shape[-1]}, engine, 0.5, 2)),
        offset(random_tensor(own_type(dtype), {c.shape[-1]}, engine)),
        width(static_cast<std::size_t>(c.shape[-1])),
        rows(static_cast<std::size_t>(c.shape.num_elements()) / width) {}
};

Attributes attributes(double epsilon, bool relu = false) {
  return {{"epsilon", epsilon}, {"activation", std::string(relu ? "relu" : "none")}};
}

// Mean and mean squared distance of x[begin], x[begin + step], ...; `count` of them.
struct ExactMoments {
  double mean = 0, distance = 0;
  ExactMoments(const std::vector<double>& x, std::size_t begin, std::size_t step, std::size_t count) {
    long double sum = 0, squares = 0;
    for (std::size_t i = 0; i < count; ++i) sum += static_cast<long double>(x[begin + i * step]);
    const long double middle = sum / static_cast<long double>(count);
    for (std::size_t i = 0; i < count; ++i) squares += (x[begin + i * step] - middle) * (x[begin + i * step] - middle);
    mean = static_cast<double>(middle);
    distance = static_cast<double>(squares / static_cast<long double>(count));
  }
};

void expect_near(double got, double want, double tolerance, const char* what, DType dtype, const Shape& shape) {
  ASSERT_LE(std::fabs(got - want), tolerance)
      << what << " of " << name(dtype) << shape.to_string() << ": " << got << ", not " << want;
}

TEST(BatchNorm, EqualsTheFormula) {
  const KernelRegistry registry = all_kernels();
  std::mt19937_64 engine(41);
  for (const DType dtype : kTypes)
    for (const NormCase& c : kCases) {
      if (!fits(dtype, c)) continue;
      const Inputs in(dtype, c, engine);
      constexpr double kEpsilon = 1e-5;
      const auto out =
          run_every_way(registry, {"BatchNorm", dtype, {in.x, in.scale, in.offset}, attributes(kEpsilon), 4});
      ASSERT_EQ(out[1].dtype(), own_type(dtype)) << name(dtype) << ' ' << c.shape.to_string();
      const auto x = doubles(in.x), y = doubles(out[0]), mean = doubles(out[1]), variance = doubles(out[2]),
                 inverse = doubles(out[3]);
      const auto scale = doubles(in.scale), offset = doubles(in.offset);
      const double e = precision(own_type(dtype));
      for (std::size_t j = 0; j < in.width; ++j) {
        const ExactMoments m(x, j, in.width, in.rows);
        const double unbiased =
            in.rows > 1 ? m.distance * static_cast<double>(in.rows) / static_cast<double>(in.rows - 1) : m.distance;
        expect_near(mean[j], m.mean, e * std::fabs(m.mean) + e * std::sqrt(m.distance), "mean", dtype, c.shape);
        expect_near(variance[j], unbiased, 10 * e * unbiased + 1e-12, "variance", dtype, c.shape);
        const double by = 1 / std::sqrt(m.distance + kEpsilon);
        expect_near(inverse[j], by, 10 * e * by, "inverse deviation", dtype, c.shape);
        for (std::size_t i = j; i < x.size(); i += in.width) {
          const double want = (x[i] - m.mean) * by * scale[j] + offset[j];
          const double terms =
              (std::fabs(x[i] - m.mean) * 20 + std::fabs(m.mean)) * by * scale[j] + std::fabs(offset[j]);
          expect_near(y[i], want,
                      e * terms * (1 + rounding(dtype)) + rounding(dtype) * std::fabs(want) + smallest(dtype), "y",
                      dtype, c.shape);
        }
      }
    }
}

TEST(BatchNorm, ReluInItHasTheBitsOfReluAfterIt) {
  const KernelRegistry registry = all_kernels();
  std::mt19937_64 engine(42);
  for (const DType dtype : kTypes)
    for (const NormCase& c : kCases) {
      if (!fits(dtype, c)) continue;
      const Inputs in(dtype, c, engine);
      const std::vector<Tensor> inputs{in.x, in.scale, in.offset};
      const auto apart = run_every_way(registry, {"BatchNorm", dtype, inputs, attributes(1e-3), 4});
      const auto fused = run_every_way(registry, {"BatchNorm", dtype, inputs, attributes(1e-3, true), 4});
      const Tensor r = run_every_way(registry, {"Relu", dtype, {apart[0]}, {}})[0];
      ASSERT_TRUE(bitwise_equal(fused[0], r)) << name(dtype) << c.shape.to_string();
      for (std::size_t i = 1; i < 4; ++i)
        ASSERT_TRUE(bitwise_equal(fused[i], apart[i])) << name(dtype) << ' ' << c.shape.to_string() << ' ' << i;
      // Back: dy counts where y was above 0, which the gradient finds out again.
      const Tensor masked = run_every_way(registry, {"ReluGrad", dtype, {in.dy, r}, {}})[0];
      const auto back = [&](const Tensor& dy, bool relu) {
        return run_every_way(registry, {"BatchNormGrad",
                                        dtype,
                                        {dy, in.x, in.scale, in.offset, apart[1], apart[3]},
                                        {{"activation", std::string(relu ? "relu" : "none")}},
                                        3});
      };
      const auto expected = back(masked, false), got = back(in.dy, true);
      for (std::size_t i = 0; i < 3; ++i)
        ASSERT_TRUE(bitwise_equal(got[i], expected[i])) << name(dtype) << c.shape.to_string() << ' ' << i;
    }
}

// What is above 0 only before it is rounded to f16 is not.
TEST(BatchNorm, ReluInItSeesWhatIsRounded) {
  const KernelRegistry registry = all_kernels();
  const Tensor x = Tensor::zeros(DType::f16, {4, 2}), one = Tensor::vector<float>({1, 1}),
               tiny = Tensor::vector<float>({1e-9f, 1e-3f});
  Tensor dy(DType::f16, {4, 2});
  for (Half& v : dy.mutable_values<Half>()) v = Half(1.0f);
  const Tensor none = Tensor::zeros(DType::f32, {2});
  const auto out = run_every_way(
      registry, {"BatchNormGrad", DType::f16, {dy, x, one, tiny, none, one}, {{"activation", std::string("relu")}}, 3});
  EXPECT_EQ(doubles(out[2]), (std::vector<double>{0, 4}));
}

TEST(BatchNorm, GradientEqualsTheFormula) {
  const KernelRegistry registry = all_kernels();
  std::mt19937_64 engine(43);
  for (const DType dtype : kTypes)
    for (const NormCase& c : kCases) {
      if (!fits(dtype, c)) continue;
      const Inputs in(dtype, c, engine);
      const auto forward =
          run_every_way(registry, {"BatchNorm", dtype, {in.x, in.scale, in.offset}, attributes(1e-5), 4});
      const auto out = run_every_way(registry, {"BatchNormGrad",
                                                dtype,
                                                {in.dy, in.x, in.scale, in.offset, forward[1], forward[3]},
                                                {{"activation", std::string("none")}},
                                                3});
      const auto x = doubles(in.x), dy = doubles(in.dy), scale = doubles(in.scale), mean = doubles(forward[1]),
                 inverse = doubles(forward[3]);
      const auto dx = doubles(out[0]), dscale = doubles(out[1]), doffset = doubles(out[2]);
      const double e = 10 * precision(own_type(dtype)), n = static_cast<double>(in.rows);
      for (std::size_t j = 0; j < in.width; ++j) {
        double sum = 0, products = 0, size = 0, products_size = 0;
        for (std::size_t i = j; i < x.size(); i += in.width) {
          const double hat = (x[i] - mean[j]) * inverse[j];
          sum += dy[i];
          size += std::fabs(dy[i]);
          products += dy[i] * hat;
          products_size += std::fabs(dy[i] * hat);
        }
        expect_near(doffset[j], sum, e * size, "doffset", dtype, c.shape);
        expect_near(dscale[j], products, e * products_size, "dscale", dtype, c.shape);
        for (std::size_t i = j; i < x.size(); i += in.width) {
          const double hat = (x[i] - mean[j]) * inverse[j], by = scale[j] * inverse[j];
          const double want = by * (dy[i] - sum / n - hat * products / n);
          const double terms = by * (std::fabs(dy[i]) + size / n + std::fabs(hat) * products_size / n);
          expect_near(dx[i], want, e * terms + rounding(dtype) * std::fabs(want) + smallest(dtype), "dx", dtype,
                      c.shape);
        }
      }
    }
}

TEST(BatchNorm, InferenceEqualsTheFormula) {
  const KernelRegistry registry = all_kernels();
  std::mt19937_64 engine(44);
  for (const DType dtype : kTypes)
    for (const NormCase& c : kCases) {
      if (!fits(dtype, c)) continue;
      const Inputs in(dtype, c, engine);
      const Tensor means = random_tensor(own_type(dtype), {c.shape[-1]}, engine, c.low, c.high);
      const Tensor variances = random_tensor(own_type(dtype), {c.shape[-1]}, engine, 0, 2);
      const std::vector<Tensor> inputs{in.x, in.scale, in.offset, means, variances};
      const Tensor apart = run_every_way(registry, {"BatchNormInference", dtype, inputs, attributes(0.01)})[0];
      const Tensor fused = run_every_way(registry, {"BatchNormInference", dtype, inputs, attributes(0.01, true)})[0];
      EXPECT_TRUE(bitwise_equal(fused, run_every_way(registry, {"Relu", dtype, {apart}, {}})[0]))
          << name(dtype) << ' ' << c.shape.to_string();
      const auto x = doubles(in.x), y = doubles(apart), scale = doubles(in.scale), offset = doubles(in.offset),
                 mean = doubles(means), variance = doubles(variances);
      for (std::size_t i = 0; i < x.size(); ++i) {
        const std::size_t j = i % in.width;
        const double by = scale[j] / std::sqrt(variance[j] + 0.01), want = (x[i] - mean[j]) * by + offset[j];
        const double terms = (std::fabs(x[i]) + std::fabs(mean[j])) * by + std::fabs(offset[j]);
        expect_near(y[i], want,
                    precision(own_type(dtype)) * terms + rounding(dtype) * std::fabs(want) + smallest(dtype), "y",
                    dtype, c.shape);
      }
    }
}

// A column's numbers are those of the column alone, whatever stands beside it, as long as the grid is the same.
TEST(BatchNorm, PassesNaNOnInItsColumn) {
  const KernelRegistry registry = all_kernels();
  Tensor x = Tensor::zeros(DType::f32, {100, 8});
  for (std::int64_t i = 0; i < x.num_elements(); ++i) x.mutable_data<float>()[i] = static_cast<float>(i % 13);
  x.mutable_data<float>()[50 * 8 + 3] = std::numeric_limits<float>::quiet_NaN();
  const Tensor one = Tensor::vector<float>({1, 1, 1, 1, 1, 1, 1, 1}), none = Tensor::zeros(DType::f32, {8});
  for (const bool relu : {false, true}) {
    const auto out = run_every_way(registry, {"BatchNorm", DType::f32, {x, one, none}, attributes(1e-5, relu), 4});
    for (std::size_t i = 0; i < 800; ++i)
      ASSERT_EQ(std::isnan(doubles(out[0])[i]), i % 8 == 3) << "relu " << relu << ", " << i;
    for (std::size_t i = 1; i < 4; ++i)
      for (std::size_t j = 0; j < 8; ++j)
        EXPECT_EQ(std::isnan(doubles(out[i])[j]), j == 3) << "relu " << relu << ", output " << i << ", feature " << j;
  }
}

TEST(BatchNorm, OfAConstantIsTheOffset) {
  const KernelRegistry registry = all_kernels();
  Tensor x(DType::f32, {1000, 3});
  for (float& v : x.mutable_values<float>()) v = 0.1f;
  const Tensor scale = Tensor::vector<float>({1, 2, 3}), offset = Tensor::vector<float>({4, 5, 6});
  const auto out = run_every_way(registry, {"BatchNorm", DType::f32, {x, scale, offset}, attributes(1e-5), 4});
  for (std::int64_t i = 0; i < 3000; ++i)
    ASSERT_NEAR(out[0].data<float>()[i], static_cast<float>(4 + i % 3), 1e-4) << i;
  for (std::size_t j = 0; j < 3; ++j) EXPECT_NEAR(doubles(out[2])[j], 0, 1e-12) << j;
}

TEST(BatchNorm, NothingHasNoMean) {
  const KernelRegistry registry = all_kernels();
  const Tensor three = Tensor::zeros(DType::f32, {3}), no_channels = Tensor::zeros(DType::f32, {0}),
               no_rows = Tensor(DType::f32, {0, 3});
  const auto device = test_device();
  EXPECT_EQ(
      message_of(Code::invalid_argument,
                 [&] {
                   run_kernel(registry, *device, {"BatchNorm", DType::f32, {no_rows, three, three}, attributes(1), 4});
                 }),
      "BatchNorm: x [0,3] has no rows, so it has no mean");
  const auto out = run_every_way(
      registry, {"BatchNorm", DType::f32, {Tensor(DType::f32, {2, 0}), no_channels, no_channels}, attributes(1), 4});
  EXPECT_EQ(out[0].shape(), (Shape{2, 0}));
  EXPECT_EQ(out[3].shape(), (Shape{0}));
  const auto inference =
      run_every_way(registry, {"BatchNormInference", DType::f32, {no_rows, three, three, three, three}, attributes(1)});
  EXPECT_EQ(inference[0].shape(), (Shape{0, 3}));
  const auto grad = run_every_way(registry, {"BatchNormGrad",
                                             DType::f32,
                                             {no_rows, no_rows, three, three, three, three},
                                             {{"activation", std::string("relu")}},
                                             3});
  EXPECT_EQ(doubles(grad[1]), std::vector<double>(3));
  EXPECT_EQ(doubles(grad[2]), std::vector<double>(3));
}

TEST(BatchNorm, RefusesWhatDoesNotFit) {
  const KernelRegistry registry = all_kernels();
  const auto device = test_device();
  const auto run = [&](const char* op, std::vector<Tensor> inputs, std::size_t outputs) {
    return message_of(Code::invalid_argument, [&] {
      run_kernel(registry, *device, {op, inputs.at(0).dtype(), inputs, attributes(1), outputs});
    });
  };
  const auto f32 = [](const Shape& shape) { return Tensor::zeros(DType::f32, shape); };
  EXPECT_EQ(run("BatchNorm", {f32({2, 3}), f32({2}), f32({3})}, 4), "BatchNorm: scale must be f32[3], but is f32[2]");
  EXPECT_EQ(run("BatchNorm", {Tensor::zeros(DType::bf16, {2, 3}), f32({3}), Tensor::zeros(DType::bf16, {3})}, 4),
            "BatchNorm: offset must be f32[3], but is bf16[3]");
  EXPECT_EQ(run("BatchNormInference", {f32({2, 3}), f32({3}), f32({3}), f32({3}), f32({1})}, 1),
            "BatchNormInference: variance must be f32[3], but is f32[1]");
  EXPECT_EQ(run("BatchNormGrad", {f32({3, 3}), f32({2, 3}), f32({3}), f32({3}), f32({3}), f32({3})}, 3),
            "BatchNormGrad: dy must be f32[2,3], but is f32[3,3]");
  run("BatchNorm", {f32({}), f32({}), f32({})}, 4);
}

TEST(LayerNorm, EqualsTheFormulaAndItsGradient) {
  const KernelRegistry registry = all_kernels();
  std::mt19937_64 engine(45);
  for (const DType dtype : kTypes)
    for (const NormCase& c : kCases) {
      if (!fits(dtype, c)) continue;
      const Inputs in(dtype, c, engine);
      constexpr double kEpsilon = 1e-3;
      const auto forward =
          run_every_way(registry, {"LayerNorm", dtype, {in.x, in.scale, in.offset}, {{"epsilon", kEpsilon}}, 3});
      const auto back =
          run_every_way(registry, {"LayerNormGrad", dtype, {in.dy, in.x, in.scale, forward[1], forward[2]}, {}, 3});
      ASSERT_EQ(forward[1].shape(), c.shape.sub(0, c.shape.rank() - 1)) << name(dtype) << ' ' << c.shape.to_string();
      const auto x = doubles(in.x), dy = doubles(in.dy), scale = doubles(in.scale), offset = doubles(in.offset);
      const auto y = doubles(forward[0]), mean = doubles(forward[1]), inverse = doubles(forward[2]);
      const auto dx = doubles(back[0]), dscale = doubles(back[1]), doffset = doubles(back[2]);
      const double e = 10 * precision(own_type(dtype)), n = static_cast<double>(in.width);
      std::vector<double> sums(in.width), sizes(in.width), products(in.width), product_sizes(in.width);
      for (std::size_t i = 0; i < in.rows; ++i) {
        const ExactMoments m(x, i * in.width, 1, in.width);
        const double by = 1 / std::sqrt(m.distance + kEpsilon);
        expect_near(mean[i], m.mean, e * (std::fabs(m.mean) / 5 + std::sqrt(m.distance)), "mean", dtype, c.shape);
        expect_near(inverse[i], by, e * by, "inverse deviation", dtype, c.shape);
        double sum = 0, along = 0, size = 0, along_size = 0;
        for (std::size_t j = 0; j < in.width; ++j) {
          const std::size_t at = i * in.width + j;
          const double hat = (x[at] - mean[i]) * inverse[i], want = (x[at] - m.mean) * by * scale[j] + offset[j];
          const double terms =
              (std::fabs(x[at] - m.mean) * 2 + std::fabs(m.mean)) * by * scale[j] + std::fabs(offset[j]);
          expect_near(y[at], want, e * terms + rounding(dtype) * std::fabs(want) + smallest(dtype), "y", dtype,
                      c.shape);
          sum += dy[at] * scale[j];
          size += std::fabs(dy[at] * scale[j]);
          along += dy[at] * scale[j] * hat;
          along_size += std::fabs(dy[at] * scale[j] * hat);
          sums[j] += dy[at];
          sizes[j] += std::fabs(dy[at]);
          products[j] += dy[at] * hat;
          product_sizes[j] += std::fabs(dy[at] * hat);
        }
        for (std::size_t j = 0; j < in.width; ++j) {
          const std::size_t at = i * in.width + j;
          const double hat = (x[at] - mean[i]) * inverse[i],
                       want = inverse[i] * (dy[at] * scale[j] - sum / n - hat * along / n);
          const double terms = inverse[i] * (std::fabs(dy[at] * scale[j]) + size / n + std::fabs(hat) * along_size / n);
          expect_near(dx[at], want, e * terms + rounding(dtype) * std::fabs(want) + smallest(dtype), "dx", dtype,
                      c.shape);
        }
      }
      for (std::size_t j = 0; j < in.width; ++j) {
        expect_near(doffset[j], sums[j], e * sizes[j], "doffset", dtype, c.shape);
        expect_near(dscale[j], products[j], e * product_sizes[j], "dscale", dtype, c.shape);
      }
    }
}

TEST(LayerNorm, OfNothingIsEmpty) {
  const KernelRegistry registry = all_kernels();
  const Tensor three = Tensor::zeros(DType::f32, {3}), none = Tensor::zeros(DType::f32, {0});
  const Tensor no_rows(DType::f32, {0, 3}), no_columns(DType::f32, {4, 0});
  auto out = run_every_way(registry, {"LayerNorm", DType::f32, {no_rows, three, three}, {{"epsilon", 1.0}}, 3});
  EXPECT_EQ(out[1].shape(), (Shape{0}));
  out = run_every_way(registry, {"LayerNormGrad", DType::f32, {no_rows, no_rows, three, none, none}, {}, 3});
  EXPECT_EQ(doubles(out[1]), std::vector<double>(3));
  out = run_every_way(registry, {"LayerNorm", DType::f32, {no_columns, none, none}, {{"epsilon", 1.0}}, 3});
  EXPECT_EQ(out[0].shape(), (Shape{4, 0}));
  for (const double mean : doubles(out[1])) EXPECT_TRUE(std::isnan(mean));
}

TEST(LayerNorm, RefusesWhatDoesNotFit) {
  const KernelRegistry registry = all_kernels();
  const auto device = test_device();
  const auto f32 = [](const Shape& shape) { return Tensor::zeros(DType::f32, shape); };
  EXPECT_EQ(message_of(Code::invalid_argument,
                       [&] {
                         run_kernel(
                             registry, *device,
                             {"LayerNorm", DType::f32, {f32({2, 3}), f32({3}), f32({2})}, {{"epsilon", 1.0}}, 3});
                       }),
            "LayerNorm: offset must be f32[3], but is f32[2]");
  EXPECT_EQ(
      message_of(Code::invalid_argument,
                 [&] {
                   run_kernel(
                       registry, *device,
                       {"LayerNormGrad", DType::f32, {f32({2, 3}), f32({2, 3}), f32({3}), f32({2}), f32({3})}, {}, 3});
                 }),
      "LayerNormGrad: inverse_deviation must be f32[2], but is f32[3]");
}

}  // namespace
}  // namespace troupe
