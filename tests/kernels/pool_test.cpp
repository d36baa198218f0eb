#include <gtest/gtest.h>

#include <limits>

#include "tests/kernels/random_tensors.hpp"
#include <troupe/kernels/cpu/pool.hpp>

namespace troupe {
namespace {

using namespace troupe::testing;

struct PoolCase {
  Shape x;
  std::array<std::int64_t, 2> size, strides;
  const char* padding;
};

std::vector<PoolCase> pool_cases() {
  std::vector<PoolCase> out;
  for (const char* padding : {"SAME", "VALID"}) {
    out.push_back({{1, 1, 1, 1}, {1, 1}, {1, 1}, padding});
    out.push_back({{2, 6, 8, 3}, {2, 2}, {2, 2}, padding});
    out.push_back({{3, 7, 5, 17}, {3, 2}, {2, 1}, padding});
    out.push_back({{4, 9, 9, 32}, {3, 3}, {1, 1}, padding});
    out.push_back({{9, 26, 26, 32}, {2, 2}, {2, 2}, padding});
    out.push_back({{2, 5, 6, 2}, {2, 2}, {3, 3}, padding});
    out.push_back({{2, 8, 10, 24}, {3, 3}, {2, 2}, padding});  // windows overlap, and are padded at one end
    out.push_back({{0, 4, 4, 3}, {2, 2}, {2, 2}, padding});
  }
  return out;
}

Attributes attributes_of(const PoolCase& c) {
  return {{"ksize", std::vector<std::int64_t>{c.size[0], c.size[1]}},
          {"strides", std::vector<std::int64_t>{c.strides[0], c.strides[1]}},
          {"padding", std::string(c.padding)}};
}

// The positions in x of the window of each position in y, from the definition of SAME and VALID.
std::vector<std::vector<std::size_t>> windows(const PoolCase& c, const Shape& y) {
  const bool same = std::string(c.padding) == "SAME";
  const auto padding = [&](int axis) {
    const auto i = static_cast<std::size_t>(axis - 1);
    return same ? std::max<std::int64_t>(0, (y[axis] - 1) * c.strides[i] + c.size[i] - c.x[axis]) / 2 : 0;
  };
  const std::int64_t top = padding(1), left = padding(2);
  std::vector<std::vector<std::size_t>> out;
  for (std::int64_t b = 0; b < y[0]; ++b)
    for (std::int64_t oy = 0; oy < y[1]; ++oy)
      for (std::int64_t ox = 0; ox < y[2]; ++ox)
        for (std::int64_t ch = 0; ch < y[3]; ++ch) {
          auto& window = out.emplace_back();
          for (std::int64_t ky = 0; ky < c.size[0]; ++ky)
            for (std::int64_t kx = 0; kx < c.size[1]; ++kx) {
              const std::int64_t iy = oy * c.strides[0] - top + ky, ix = ox * c.strides[1] - left + kx;
              if (iy >= 0 && iy < c.x[1] && ix >= 0 && ix < c.x[2])
                window.push_back(static_cast<std::size_t>(((b * c.x[1] + iy) * c.x[2] + ix) * c.x[3] + ch));
            }
        }
  return out;
}

TEST(MaxPool, GivesTheMaximumAndItsGradientToTheFirst) {
  const KernelRegistry registry = all_kernels();
  std::mt19937_64 engine(21);
  for (const PoolCase& c : pool_cases())
    for (DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
      // Few distinct values: ties are common.
      Tensor x = random_tensor(dtype, c.x, engine, -3, 3);
      const auto round_all = [&]<class T>(T) {
        for (T& v : x.mutable_values<T>()) v = T(std::round(static_cast<float>(v)));
      };
      if (dtype == DType::f32) round_all(float{});
      if (dtype == DType::f64) round_all(double{});
      if (dtype == DType::f16) round_all(Half{});
      if (dtype == DType::bf16) round_all(BFloat16{});
      const Tensor y = run_every_way(registry, {"MaxPool", dtype, {x}, attributes_of(c)})[0];
      const Tensor dy = random_tensor(dtype, y.shape(), engine);
      const Tensor dx = run_every_way(registry, {"MaxPoolGrad", dtype, {x, y, dy}, attributes_of(c)})[0];
      const auto xs = doubles(x), ys = doubles(y), gs = doubles(dy);
      const auto all = windows(c, y.shape());
      ASSERT_EQ(all.size(), ys.size()) << name(dtype) << ' ' << c.x.to_string();
      Sums want(x.num_elements());
      for (std::size_t o = 0; o < all.size(); ++o) {
        std::size_t first = all[o].at(0);
        for (std::size_t i : all[o])
          if (xs[i] > xs[first]) first = i;
        ASSERT_EQ(ys[o], xs[first]) << name(dtype) << ' ' << c.x.to_string() << ' ' << o;
        want.add(static_cast<std::int64_t>(first), gs[o]);
      }
      expect_close(dx, want, c.x.to_string());
    }
}

TEST(AvgPool, DividesByTheElementsThatExist) {
  const KernelRegistry registry = all_kernels();
  std::mt19937_64 engine(22);
  for (const PoolCase& c : pool_cases())
    for (DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
      const Tensor x = random_tensor(dtype, c.x, engine);
      const Tensor y = run_every_way(registry, {"AvgPool", dtype, {x}, attributes_of(c)})[0];
      const Tensor dy = random_tensor(dtype, y.shape(), engine);
      const Tensor dx = run_every_way(registry, {"AvgPoolGrad", dtype, {x, dy}, attributes_of(c)})[0];
      const auto xs = doubles(x), gs = doubles(dy);
      const auto all = windows(c, y.shape());
      Sums want_y(y.num_elements()), want_dx(x.num_elements());
      for (std::size_t o = 0; o < all.size(); ++o)
        for (std::size_t i : all[o]) {
          const auto count = static_cast<double>(all[o].size());
          want_y.add(static_cast<std::int64_t>(o), xs[i] / count);
          want_dx.add(static_cast<std::int64_t>(i), gs[o] / count);
        }
      expect_close(y, want_y, c.x.to_string());
      expect_close(dx, want_dx, c.x.to_string());
    }
}

TEST(MaxPool, PassesNaNOnAndSendsItsGradientBack) {
  const KernelRegistry registry = all_kernels();
  const auto device = test_device();
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  const PoolCase c{{1, 2, 4, 1}, {2, 2}, {2, 2}, "VALID"};
  const Tensor x = Tensor::of<float>(c.x, {1, 5, -infinity, -infinity, nan, 2, -infinity, -infinity});
  const Tensor y = run_kernel(registry, *device, {"MaxPool", DType::f32, {x}, attributes_of(c)})[0];
  EXPECT_TRUE(std::isnan(y.data<float>()[0]));
  EXPECT_EQ(y.data<float>()[1], -infinity);
  const Tensor dx =
      run_kernel(registry, *device,
                 {"MaxPoolGrad", DType::f32, {x, y, Tensor::of<float>(y.shape(), {3, 4})}, attributes_of(c)})[0];
  EXPECT_TRUE(bitwise_equal(dx, Tensor::of<float>(c.x, {0, 0, 4, 0, 3, 0, 0, 0}))) << dx.to_string();
}

TEST(Pooling, SaysWhatDoesNotFit) {
  const KernelRegistry registry = all_kernels();
  const auto device = test_device();
  const PoolCase c{{1, 3, 3, 1}, {4, 2}, {1, 1}, "VALID"};
  for (const char* op : {"MaxPool", "AvgPool"})
    EXPECT_EQ(message_of(
                  Code::invalid_argument,
                  [&] {
                    run_kernel(registry, *device, {op, DType::f32, {Tensor::zeros(DType::f32, c.x)}, attributes_of(c)});
                  }),
              "height: a window of 4 is larger than the input's 3; use padding SAME or a smaller window")
        << op;
  const PoolCase fits{{1, 4, 4, 1}, {2, 2}, {2, 2}, "VALID"};
  const Tensor x = Tensor::zeros(DType::f32, fits.x), wrong = Tensor::zeros(DType::f32, {1, 2, 3, 1});
  EXPECT_EQ(
      message_of(Code::invalid_argument,
                 [&] {
                   run_kernel(registry, *device, {"MaxPoolGrad", DType::f32, {x, wrong, wrong}, attributes_of(fits)});
                 }),
      "MaxPoolGrad: y must be f32[1,2,2,1], but is f32[1,2,3,1]");
  EXPECT_EQ(message_of(Code::invalid_argument,
                       [&] {
                         run_kernel(registry, *device, {"AvgPoolGrad", DType::f32, {x, wrong}, attributes_of(fits)});
                       }),
            "AvgPoolGrad: dy must be f32[1,2,2,1], but is f32[1,2,3,1]");
}

}  // namespace
}  // namespace troupe
