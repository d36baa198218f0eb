#include <gtest/gtest.h>

#include <bit>
#include <limits>

#include "tests/kernels/random_tensors.hpp"
#include <troupe/kernels/cpu/softmax.hpp>

namespace troupe {
namespace {

using namespace troupe::testing;

constexpr std::int64_t kWidths[] = {1, 2, 10, 15, 16, 17, 100, 1003};

const Attributes kAlongLast{{"axis", std::int64_t{-1}}};
const Attributes kLabels{
    {"axis", std::int64_t{-1}}, {"ignore_index", std::numeric_limits<std::int64_t>::min()}, {"label_smoothing", 0.0}};

double tolerance(DType dtype) { return dtype == DType::f32 ? 2e-6 : 1e-14; }

std::vector<double> softmax_of(const double* x, std::size_t n) {
  const double largest = *std::max_element(x, x + n);
  std::vector<double> out(x, x + n);
  double sum = 0;
  for (double& v : out) sum += v = std::exp(v - largest);
  for (double& v : out) v /= sum;
  return out;
}

// Calls check(row, the softmax of the row, offset of the row) for every row of x.
template <class Check>
void for_each_row(const Tensor& x, Check check) {
  const auto values = doubles(x);
  const auto width = static_cast<std::size_t>(x.shape()[-1]);
  for (std::size_t at = 0; at < values.size(); at += width)
    check(values.data() + at, softmax_of(values.data() + at, width), at);
}

TEST(Softmax, EqualsTheFormulaForAnyWidth) {
  const KernelRegistry registry = all_kernels();
  std::mt19937_64 engine(31);
  for (std::int64_t width : kWidths)
    for (DType dtype : {DType::f32, DType::f64}) {
      const Tensor x = random_tensor(dtype, {3, 11, width}, engine, -20, 20);
      const auto y = doubles(run_every_way(registry, {"Softmax", dtype, {x}, kAlongLast})[0]);
      const auto log_y = doubles(run_every_way(registry, {"LogSoftmax", dtype, {x}, kAlongLast})[0]);
      for_each_row(x, [&](const double*, const std::vector<double>& want, std::size_t at) {
        for (std::size_t j = 0; j < want.size(); ++j) {
          // x - max x, up to 40, is rounded before the exponential.
          ASSERT_NEAR(y[at + j], want[j], 3 * tolerance(dtype) * want[j] + 1e-38)
              << name(dtype) << ", width " << width << ", element " << at + j;
          ASSERT_NEAR(log_y[at + j], std::log(want[j]), tolerance(dtype) * (20 + std::fabs(std::log(want[j]))))
              << name(dtype) << ", width " << width << ", element " << at + j;
        }
      });
    }
}

// Beyond what one vector register, warp or block of threads has.
TEST(Softmax, EqualsTheFormulaForLongRows) {
  const KernelRegistry registry = all_kernels();
  std::mt19937_64 engine(33);
  for (std::int64_t width : {33, 132, 520, 1028, 4100, 4101, 16384, 16388})
    for (DType dtype : {DType::f32, DType::f64}) {
      const Tensor x = random_tensor(dtype, {2, width}, engine, -20, 20), dy = random_tensor(dtype, {2, width}, engine);
      const Tensor y = run_every_way(registry, {"Softmax", dtype, {x}, kAlongLast})[0];
      const auto log_y = doubles(run_every_way(registry, {"LogSoftmax", dtype, {x}, kAlongLast})[0]);
      const auto dx = doubles(run_every_way(registry, {"SoftmaxGrad", dtype, {dy, y}, kAlongLast})[0]);
      const auto p = doubles(y), g = doubles(dy);
      const double relative = tolerance(dtype) * (3 + static_cast<double>(width) / 200);
      for_each_row(x, [&](const double*, const std::vector<double>& want, std::size_t at) {
        double dot = 0;
        for (std::size_t j = 0; j < want.size(); ++j) dot += g[at + j] * p[at + j];
        for (std::size_t j = 0; j < want.size(); ++j) {
          ASSERT_NEAR(p[at + j], want[j], relative * want[j] + 1e-38) << width;
          ASSERT_NEAR(log_y[at + j], std::log(want[j]), relative * (20 + std::fabs(std::log(want[j])))) << width;
          ASSERT_NEAR(dx[at + j], p[at + j] * (g[at + j] - dot), relative * p[at + j] * 4 + 1e-38) << width;
        }
      });
    }
}

TEST(Softmax, GradientsEqualTheJacobiansProduct) {
  const KernelRegistry registry = all_kernels();
  std::mt19937_64 engine(32);
  for (std::int64_t width : kWidths)
    for (DType dtype : {DType::f32, DType::f64}) {
      const Tensor x = random_tensor(dtype, {20, width}, engine, -3, 3), dy = random_tensor(dtype, x.shape(), engine);
      const Tensor y = run_every_way(registry, {"Softmax", dtype, {x}, kAlongLast})[0];
      const Tensor log_y = run_every_way(registry, {"LogSoftmax", dtype, {x}, kAlongLast})[0];
      const auto dx = doubles(run_every_way(registry, {"SoftmaxGrad", dtype, {dy, y}, kAlongLast})[0]);
      const auto dx_log = doubles(run_every_way(registry, {"LogSoftmaxGrad", dtype, {dy, log_y}, kAlongLast})[0]);
      const auto g = doubles(dy);
      for_each_row(x, [&](const double*, const std::vector<double>& p, std::size_t at) {
        for (std::size_t j = 0; j < p.size(); ++j) {
          double want = 0, want_log = 0, size = 0;
          for (std::size_t i = 0; i < p.size(); ++i) {
            want += g[at + i] * p[i] * ((i == j) - p[j]);
            want_log += g[at + i] * ((i == j) - p[j]);
            size += std::fabs(g[at + i]) * ((i == j) + p[j]);
          }
          ASSERT_NEAR(dx[at + j], want, 4 * tolerance(dtype) * size)
              << name(dtype) << ", width " << width << ", element " << at + j;
          ASSERT_NEAR(dx_log[at + j], want_log, 4 * tolerance(dtype) * size)
              << name(dtype) << ", width " << width << ", element " << at + j;
        }
      });
    }
}

TEST(SparseSoftmaxCrossEntropy, EqualsTheFormula) {
  const KernelRegistry registry = all_kernels();
  std::mt19937_64 engine(33);
  for (std::int64_t classes : kWidths)
    for (DType dtype : {DType::f32, DType::f64})
      for (DType label_type : {DType::i32, DType::i64}) {
        const Tensor x = random_tensor(dtype, {37, classes}, engine, -10, 10);
        Tensor labels(label_type, {37});
        std::vector<std::size_t> label;
        for (std::int64_t i = 0; i < 37; ++i) {
          label.push_back(static_cast<std::size_t>(engine() % static_cast<std::uint64_t>(classes)));
          if (label_type == DType::i32)
            labels.mutable_data<std::int32_t>()[i] = static_cast<std::int32_t>(label.back());
          else
            labels.mutable_data<std::int64_t>()[i] = static_cast<std::int64_t>(label.back());
        }
        const auto out = run_every_way(registry, {"SparseSoftmaxCrossEntropy", dtype, {x, labels}, kLabels, 2});
        ASSERT_EQ(out[0].shape(), (Shape{37})) << name(dtype) << ", " << classes << " classes";
        const auto loss = doubles(out[0]), backprop = doubles(out[1]);
        for_each_row(x, [&](const double*, const std::vector<double>& p, std::size_t at) {
          const std::size_t row = at / p.size();
          ASSERT_NEAR(loss[row], -std::log(p[label[row]]), 30 * tolerance(dtype))
              << name(dtype) << ", " << classes << " classes, row " << row;
          for (std::size_t j = 0; j < p.size(); ++j)
            ASSERT_NEAR(backprop[at + j], p[j] - (j == label[row]), tolerance(dtype))
                << name(dtype) << ", " << classes << " classes, row " << row << ", class " << j;
        });
      }
}

TEST(SoftmaxCrossEntropy, EqualsTheFormula) {
  const KernelRegistry registry = all_kernels();
  std::mt19937_64 engine(34);
  for (std::int64_t classes : kWidths)
    for (DType dtype : {DType::f32, DType::f64}) {
      const Tensor x = random_tensor(dtype, {37, classes}, engine, -10, 10);
      const Tensor labels =
          run_every_way(registry, {"Softmax", dtype, {random_tensor(dtype, x.shape(), engine)}, kAlongLast})[0];
      const auto z = doubles(labels);
      const auto out = run_every_way(registry, {"SoftmaxCrossEntropy", dtype, {x, labels}, kAlongLast, 2});
      const auto loss = doubles(out[0]), backprop = doubles(out[1]);
      for_each_row(x, [&](const double*, const std::vector<double>& p, std::size_t at) {
        double want = 0;
        for (std::size_t j = 0; j < p.size(); ++j) {
          want -= z[at + j] * std::log(p[j]);
          ASSERT_NEAR(backprop[at + j], p[j] - z[at + j], tolerance(dtype))
              << name(dtype) << ", " << classes << " classes, element " << at + j;
        }
        ASSERT_NEAR(loss[at / p.size()], want, 30 * tolerance(dtype))
            << name(dtype) << ", " << classes << " classes, row " << at / p.size();
      });
    }
}

TEST(SigmoidCrossEntropy, EqualsTheStableFormulaAtAnySize) {
  const KernelRegistry registry = all_kernels();
  std::mt19937_64 engine(35);
  for (DType dtype : {DType::f32, DType::f64})
    for (double range : {1.0, 20.0, 1000.0}) {
      const Tensor x = random_tensor(dtype, {7, 101}, engine, -range, range),
                   z = random_tensor(dtype, x.shape(), engine, 0, 1);
      const auto out = doubles(run_every_way(registry, {"SigmoidCrossEntropy", dtype, {x, z}, {}})[0]);
      const auto xs = doubles(x), zs = doubles(z);
      for (std::size_t i = 0; i < out.size(); ++i) {
        const double size = std::max(xs[i], 0.0) + std::fabs(xs[i] * zs[i]) + std::log1p(std::exp(-std::fabs(xs[i])));
        ASSERT_NEAR(out[i], std::max(xs[i], 0.0) - xs[i] * zs[i] + std::log1p(std::exp(-std::fabs(xs[i]))),
                    tolerance(dtype) * size)
            << name(dtype) << ", range " << range << ", element " << i;
      }
    }
}

TEST(Softmax, DoesNotDependOnTheOtherRows) {
  std::mt19937_64 engine(36);
  const auto device = test_device();
  const Tensor x = random_tensor(DType::f32, {50, 33}, engine, -9, 9);
  Tensor all(DType::f32, x.shape());
  softmax(device->parallelism(), x, -1, all);
  for (std::int64_t i = 0; i < 50; i += 7) {
    Tensor one(DType::f32, {1, 33});
    softmax(device->parallelism(), x.rows(i, i + 1), -1, one);
    EXPECT_TRUE(bitwise_equal(one, all.rows(i, i + 1))) << "row " << i;
  }
}

TEST(Softmax, KeepsHugeLogitsFiniteAndPassesNaNOn) {
  const KernelRegistry registry = all_kernels();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor x = Tensor::of<float>({3, 2}, {1e30f, -1e30f, nan, 1, 1000, 1000});
  const auto y = doubles(run_every_way(registry, {"Softmax", DType::f32, {x}, kAlongLast})[0]);
  EXPECT_EQ(y[0], 1);
  EXPECT_EQ(y[1], 0);
  EXPECT_TRUE(std::isnan(y[2]) && std::isnan(y[3]));
  EXPECT_EQ(y[4], 0.5);
  const auto out = run_every_way(
      registry, {"SparseSoftmaxCrossEntropy", DType::f32, {x, Tensor::vector<std::int64_t>({0, 0, 1})}, kLabels, 2});
  EXPECT_EQ(out[0].data<float>()[0], 0);
  EXPECT_TRUE(std::isnan(out[0].data<float>()[1]));
  EXPECT_NEAR(out[0].data<float>()[2], std::log(2.0), 1e-6);
}

TEST(Softmax, OfNoRowsOrNoColumnsIsEmpty) {
  const KernelRegistry registry = all_kernels();
  for (const Shape& shape : {Shape{0, 10}, Shape{4, 0}}) {
    const Tensor x(DType::f32, shape);
    for (const char* op : {"Softmax", "LogSoftmax"})
      EXPECT_EQ(run_every_way(registry, {op, DType::f32, {x}, kAlongLast})[0].shape(), shape) << op;
    for (const char* op : {"SoftmaxGrad", "LogSoftmaxGrad", "SigmoidCrossEntropy"})
      EXPECT_EQ(run_every_way(registry, {op, DType::f32, {x, x}, kAlongLast})[0].shape(), shape) << op;
    const auto out = run_every_way(registry, {"SoftmaxCrossEntropy", DType::f32, {x, x}, kAlongLast, 2});
    EXPECT_EQ(out[0].shape(), (Shape{shape[0]}));
  }
  const auto out = run_every_way(
      registry,
      {"SparseSoftmaxCrossEntropy", DType::f32, {Tensor(DType::f32, {0, 10}), Tensor(DType::i64, {0})}, kLabels, 2});
  EXPECT_EQ(out[1].shape(), (Shape{0, 10}));
}

// Rows of few classes are computed many at a time. Which NaN it is depends on the compiler.
TEST(SparseSoftmaxCrossEntropy, HasTheBitsOfEachRowAlone) {
  const KernelRegistry registry = all_kernels();
  const auto same = [](double a, double b) {
    return (a != a && b != b) || std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
  };
  std::mt19937_64 engine(8);
  for (const std::int64_t width : {1, 2, 10, 15, 16, 17}) {
    Tensor x = random_tensor(DType::f32, {39, width}, engine, -20, 20);
    constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNaN = std::numeric_limits<float>::quiet_NaN();
    for (int i = 0; const float special : {kNaN, kInfinity, -kInfinity, 0.0f, -0.0f})
      x.mutable_data<float>()[11 * i++ % (39 * width)] = special;
    std::fill_n(x.mutable_data<float>() + 5 * width, width, -kInfinity);
    Tensor labels(DType::i32, {39});
    for (int i = 0; i < 39; ++i) labels.mutable_data<std::int32_t>()[i] = static_cast<std::int32_t>(i * 7 % width);
    const auto all =
        run_kernel(registry, *test_device(), {"SparseSoftmaxCrossEntropy", DType::f32, {x, labels}, kLabels, 2});
    for (std::int64_t row = 0; row < 39; ++row) {
      const auto one = run_kernel(
          registry, *test_device(),
          {"SparseSoftmaxCrossEntropy", DType::f32, {x.rows(row, row + 1), labels.rows(row, row + 1)}, kLabels, 2});
      for (int k = 0; k < 2; ++k) {
        const auto together = doubles(all[static_cast<std::size_t>(k)].rows(row, row + 1).clone());
        ASSERT_TRUE(std::ranges::equal(together, doubles(one[static_cast<std::size_t>(k)]), same))
            << width << " classes, row " << row << ", output " << k;
      }
    }
  }
}

TEST(SparseSoftmaxCrossEntropy, NamesALabelOutOfRange) {
  const KernelRegistry registry = all_kernels();
  const auto device = test_device();
  const auto run = [&](Tensor labels, std::int64_t classes) {
    run_kernel(registry, *device,
               {"SparseSoftmaxCrossEntropy",
                DType::f32,
                {Tensor::zeros(DType::f32, {labels.shape()[0], classes}), labels},
                kLabels,
                2});
  };
  // A GPU says where it was found before.
  EXPECT_TRUE(message_of(Code::out_of_range,
                         [&] {
                           run(Tensor::vector<std::int64_t>({0, 9, 3, 11}), 10);
                         })
                  .ends_with("SparseSoftmaxCrossEntropy: label 11 in row 3 of the batch is out of range: there are 10 "
                             "classes, 0 to 9"));
  EXPECT_TRUE(message_of(Code::out_of_range, [&] { run(Tensor::vector<std::int32_t>({-1}), 10); })
                  .ends_with("SparseSoftmaxCrossEntropy: label -1 in row 0 of the batch is out of range: there are 10 "
                             "classes, 0 to 9"));
  message_of(Code::out_of_range, [&] { run(Tensor::vector<std::int64_t>({0}), 0); });
  EXPECT_EQ(message_of(Code::invalid_argument, [&] { run(Tensor::vector<float>({0}), 10); }),
            "SparseSoftmaxCrossEntropy: labels must be i32 or i64, but are f32");
}

TEST(Softmax, RefusesShapesThatDoNotFit) {
  const KernelRegistry registry = all_kernels();
  const auto device = test_device();
  const auto run = [&](const char* op, Shape a, Shape b, std::size_t outputs) {
    return message_of(Code::invalid_argument, [&] {
      run_kernel(registry, *device,
                 {op, DType::f32, {Tensor::zeros(DType::f32, a), Tensor::zeros(DType::f32, b)}, kAlongLast, outputs});
    });
  };
  run("Softmax", {}, {}, 1);
  EXPECT_EQ(run("SoftmaxGrad", {2, 3}, {3, 2}, 1), "SoftmaxGrad: dy must be f32[3,2], but is f32[2,3]");
  run("LogSoftmaxGrad", {2, 3}, {2}, 1);
  run("SoftmaxCrossEntropy", {2, 3}, {2}, 2);
  run("SoftmaxCrossEntropy", {}, {}, 2);
  run("SigmoidCrossEntropy", {2, 3}, {3}, 1);
}

// Along any axis: the bits of the transposed tensor along its last one.
TEST(Softmax, AlongAnyAxisEqualsTheTransposed) {
  const KernelRegistry registry = all_kernels();
  std::mt19937_64 engine(37);
  const auto along = [](std::int64_t axis) { return Attributes{{"axis", axis}}; };
  // [a, w, b] to [a, b, w].
  const auto moved = [](const Tensor& x) {
    Tensor out(x.dtype(), Shape{x.shape()[0], x.shape()[2], x.shape()[1]});
    const auto size = static_cast<std::int64_t>(size_of(x.dtype()));
    for (std::int64_t i = 0; i < x.shape()[0]; ++i)
      for (std::int64_t j = 0; j < x.shape()[1]; ++j)
        for (std::int64_t k = 0; k < x.shape()[2]; ++k)
          std::copy_n(x.raw() + ((i * x.shape()[1] + j) * x.shape()[2] + k) * size, size,
                      out.mutable_raw() + ((i * x.shape()[2] + k) * x.shape()[1] + j) * size);
    return out;
  };
  for (const Shape& shape : {Shape{2, 5, 3}, Shape{3, 70, 37}, Shape{1, 1, 100}})
    for (DType dtype : kFloats) {
      const std::string where = std::string(name(dtype)) + shape.to_string();
      const Tensor x = random_tensor(dtype, shape, engine, -8, 8), dy = random_tensor(dtype, shape, engine);
      for (const char* op : {"Softmax", "LogSoftmax"}) {
        const Tensor y = run_every_way(registry, {op, dtype, {x}, along(1)})[0];
        const Tensor want = run_every_way(registry, {op, dtype, {moved(x)}, along(-1)})[0];
        EXPECT_TRUE(bitwise_equal(moved(y), want)) << op << where;
        const std::string grad = std::string(op) + "Grad";
        const Tensor dx = run_every_way(registry, {grad, dtype, {dy, y}, along(-2)})[0];
        const Tensor want_dx = run_every_way(registry, {grad, dtype, {moved(dy), want}, along(2)})[0];
        EXPECT_TRUE(bitwise_equal(moved(dx), want_dx)) << grad << where;
      }
      const auto loss = run_every_way(registry, {"SoftmaxCrossEntropy", dtype, {x, dy}, along(1), 2});
      const auto want = run_every_way(registry, {"SoftmaxCrossEntropy", dtype, {moved(x), moved(dy)}, along(2), 2});
      EXPECT_TRUE(bitwise_equal(loss[0], want[0])) << where;
      EXPECT_TRUE(bitwise_equal(moved(loss[1]), want[1])) << where;
    }
}

TEST(Softmax, SixteenBitsAreThoseOfF32RoundedOnce) {
  const KernelRegistry registry = all_kernels();
  std::mt19937_64 engine(38);
  const auto wide = [](const Tensor& t) {
    Tensor out(DType::f32, t.shape());
    const auto values = doubles(t);
    for (std::size_t i = 0; i < values.size(); ++i) out.mutable_values<float>()[i] = static_cast<float>(values[i]);
    return out;
  };
  const Attributes smoothed{{"axis", std::int64_t{-1}}, {"ignore_index", std::int64_t{3}}, {"label_smoothing", 0.1}};
  for (DType dtype : {DType::f16, DType::bf16})
    for (std::int64_t width : {33, 16, 132, 520, 4100, 16388}) {
      const Shape shape{std::max<std::int64_t>(2, 1000 / width), width};
      const Tensor x = random_tensor(dtype, shape, engine, -8, 8), z = random_tensor(dtype, shape, engine, 0, 1);
      Tensor labels(DType::i32, Shape{shape[0]});
      for (std::int64_t i = 0; i < shape[0]; ++i) labels.mutable_data<std::int32_t>()[i] = static_cast<int>(i % 9);
      const auto check = [&](const char* op, const std::vector<Tensor>& inputs, const Attributes& attributes,
                             std::size_t outputs) {
        std::vector<Tensor> as_floats;
        for (const Tensor& t : inputs) as_floats.push_back(is_floating(t.dtype()) ? wide(t) : t);
        const auto got = run_every_way(registry, {op, dtype, inputs, attributes, outputs});
        const auto want = run_every_way(registry, {op, DType::f32, as_floats, attributes, outputs});
        for (std::size_t k = 0; k < outputs; ++k) {
          const auto values = doubles(got[k]);
          for (std::size_t i = 0; i < values.size(); ++i) {
            const float exact = want[k].values<float>()[i];
            ASSERT_EQ(values[i],
                      dtype == DType::f16 ? static_cast<float>(Half(exact)) : static_cast<float>(BFloat16(exact)))
                << op << name(dtype) << ", width " << width << ", output " << k << " at " << i;
          }
        }
      };
      check("Softmax", {x}, kAlongLast, 1);
      check("LogSoftmax", {x}, kAlongLast, 1);
      check("SoftmaxGrad", {x, z}, kAlongLast, 1);
      check("LogSoftmaxGrad", {z, x}, kAlongLast, 1);
      check("SoftmaxCrossEntropy", {x, z}, kAlongLast, 2);
      check("SparseSoftmaxCrossEntropy", {x, labels}, smoothed, 2);
      check("SigmoidCrossEntropy", {x, z}, {}, 1);
    }
}

// Values computed in Python by the formula.
TEST(SparseSoftmaxCrossEntropy, IgnoresALabelAndSmoothsTheOthers) {
  const KernelRegistry registry = all_kernels();
  const Tensor x = Tensor::of<double>({3, 4}, {0.5, -1, 2, 0.25, 3, 1, -2, 0.5, 1, 1, 1, 1});
  const Tensor labels = Tensor::vector<std::int64_t>({2, 0, -100});
  const Attributes how{{"axis", std::int64_t{1}}, {"ignore_index", std::int64_t{-100}}, {"label_smoothing", 0.1}};
  const auto out = run_every_way(registry, {"SparseSoftmaxCrossEntropy", DType::f64, {x, labels}, how, 2});
  const auto loss = doubles(out[0]), grad = doubles(out[1]);
  const std::vector<double> want = {0.525528998448253, 0.439753447679352, 0};
  const std::vector<double> want_grad = {0.129234825284162,
                                         0.0094144412661202,
                                         -0.233767469258469,
                                         0.0951182027081868,
                                         -0.108112136629935,
                                         0.0855537503617392,
                                         -0.0194958528724163,
                                         0.0420542391406114,
                                         0,
                                         0,
                                         0,
                                         0};
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(loss[i], want[i], 1e-12) << i;
  for (std::size_t i = 0; i < want_grad.size(); ++i) EXPECT_NEAR(grad[i], want_grad[i], 1e-12) << i;
}

}  // namespace
}  // namespace troupe
