#include <gtest/gtest.h>

#include <thread>

#include "tests/kernels/random_tensors.hpp"
#include <troupe/devices/cpu/openmp.hpp>
#include <troupe/kernels/cpu/conv.hpp>

namespace troupe {
namespace {

using namespace troupe::testing;

struct ConvCase {
  Shape x, filter;
  std::array<std::int64_t, 2> strides;
  const char* padding;
};

// Unequal ones too: nothing may mistake height for width.
constexpr std::array<std::int64_t, 2> kStrides[] = {{1, 1}, {2, 2}, {1, 2}, {2, 1}};

std::vector<ConvCase> conv_cases() {
  std::vector<ConvCase> out;
  for (const char* padding : {"SAME", "VALID"})
    for (std::array<std::int64_t, 2> stride : kStrides) {
      out.push_back({{1, 1, 1, 1}, {1, 1, 1, 1}, stride, padding});
      out.push_back({{2, 7, 6, 3}, {3, 3, 3, 5}, stride, padding});
      out.push_back({{3, 9, 5, 2}, {2, 5, 2, 4}, stride, padding});
      out.push_back({{5, 12, 12, 1}, {3, 3, 1, 32}, stride, padding});
      out.push_back({{9, 13, 13, 16}, {3, 3, 16, 32}, stride, padding});
      out.push_back({{2, 4, 4, 17}, {1, 1, 17, 3}, stride, padding});
    }
  return out;
}

Attributes attributes_of(const ConvCase& c) {
  return {{"strides", std::vector<std::int64_t>{c.strides[0], c.strides[1]}}, {"padding", std::string(c.padding)}};
}
ConvAttributes options_of(const ConvCase& c) { return conv_attributes(attributes_of(c)); }

// Calls fn(index in x, index in filter, index in y) for every product of the convolution, from its
// definition.
template <class Fn>
void for_each_product(const ConvCase& c, const Shape& y, Fn fn) {
  const auto [n, h, w, in] = std::array{c.x[0], c.x[1], c.x[2], c.x[3]};
  const auto [kh, kw, out] = std::array{c.filter[0], c.filter[1], c.filter[3]};
  const bool same = std::string(c.padding) == "SAME";
  const std::int64_t top = same ? std::max<std::int64_t>(0, (y[1] - 1) * c.strides[0] + kh - h) / 2 : 0;
  const std::int64_t left = same ? std::max<std::int64_t>(0, (y[2] - 1) * c.strides[1] + kw - w) / 2 : 0;
  for (std::int64_t b = 0; b < n; ++b)
    for (std::int64_t oy = 0; oy < y[1]; ++oy)
      for (std::int64_t ox = 0; ox < y[2]; ++ox)
        for (std::int64_t ky = 0; ky < kh; ++ky)
          for (std::int64_t kx = 0; kx < kw; ++kx) {
            const std::int64_t iy = oy * c.strides[0] - top + ky, ix = ox * c.strides[1] - left + kx;
            if (iy < 0 || iy >= h || ix < 0 || ix >= w) continue;
            for (std::int64_t i = 0; i < in; ++i)
              for (std::int64_t o = 0; o < out; ++o)
                fn(((b * h + iy) * w + ix) * in + i, ((ky * kw + kx) * in + i) * out + o,
                   ((b * y[1] + oy) * y[2] + ox) * out + o);
          }
}

std::string text(const ConvCase& c) {
  return fmt::format("x {} filter {} strides {} {} {}", c.x.to_string(), c.filter.to_string(), c.strides[0],
                     c.strides[1], c.padding);
}

double at(const std::vector<double>& values, std::int64_t i) { return values[static_cast<std::size_t>(i)]; }

TEST(Conv, AndItsGradientsEqualTheDefinition) {
  const KernelRegistry registry = all_kernels();
  std::mt19937_64 engine(11);
  for (const ConvCase& c : conv_cases())
    for (DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
      const Tensor x = random_tensor(dtype, c.x, engine), filter = random_tensor(dtype, c.filter, engine);
      const Tensor y = run_every_way(registry, {"Conv", dtype, {x, filter}, attributes_of(c)})[0];
      const Tensor dy = random_tensor(dtype, y.shape(), engine);
      const Tensor dx = run_every_way(registry, {"ConvBackpropInput", dtype, {x, filter, dy}, attributes_of(c)})[0];
      const Tensor df = run_every_way(registry, {"ConvBackpropFilter", dtype, {x, filter, dy}, attributes_of(c)})[0];
      Sums want_y(y.num_elements()), want_dx(x.num_elements()), want_df(filter.num_elements());
      const auto xs = doubles(x), fs = doubles(filter), gs = doubles(dy);
      for_each_product(c, y.shape(), [&](std::int64_t i, std::int64_t f, std::int64_t o) {
        want_y.add(o, at(xs, i) * at(fs, f));
        want_dx.add(i, at(gs, o) * at(fs, f));
        want_df.add(f, at(gs, o) * at(xs, i));
      });
      expect_close(y, want_y, text(c));
      expect_close(dx, want_dx, text(c));
      expect_close(df, want_df, text(c));
    }
}

TEST(Conv, HasTheOutputSizesOfSameAndValid) {
  const Shape filter{3, 2, 4, 8};
  const auto shape = [&](std::vector<std::int64_t> strides, Padding padding) {
    return conv_shape({2, 7, 8, 4}, filter, {.windows = {.strides = std::move(strides), .padding = padding}});
  };
  EXPECT_EQ(shape({1, 1}, Padding::same), (Shape{2, 7, 8, 8}));
  EXPECT_EQ(shape({2, 3}, Padding::same), (Shape{2, 4, 3, 8}));
  EXPECT_EQ(shape({1, 1}, Padding::valid), (Shape{2, 5, 7, 8}));
  EXPECT_EQ(shape({2, 3}, Padding::valid), (Shape{2, 3, 3, 8}));
}

// Several parts, the last of another size; repeated, so that cached primitives meet other data.
TEST(Conv, OfALargeBatchDoesNotDependOnThreads) {
  const KernelRegistry registry = all_kernels();
  std::mt19937_64 engine(12);
  const ConvCase c{{33, 14, 14, 32}, {3, 3, 32, 64}, {1, 1}, "SAME"};
  for (int repeat = 0; repeat < 2; ++repeat) {
    const Tensor x = random_tensor(DType::f32, c.x, engine), filter = random_tensor(DType::f32, c.filter, engine);
    const Tensor y = run_every_way(registry, {"Conv", DType::f32, {x, filter}, attributes_of(c)})[0];
    run_every_way(registry, {"ConvBackpropInput", DType::f32, {x, filter, y}, attributes_of(c)});
    run_every_way(registry, {"ConvBackpropFilter", DType::f32, {x, filter, y}, attributes_of(c)});
  }
}

// An image is made in bands of rows, or a small one in slices of output channels, by several threads; every element has
// the same sums in each.
TEST(Conv, OfOneImageDoesNotDependOnThreads) {
  struct Case {
    Shape x, filter;
    Attributes attributes;
  };
  using List = std::vector<std::int64_t>;
  const auto attributes = [](std::int64_t stride, const char* padding, std::int64_t dilation = 1,
                             std::int64_t groups = 1) {
    return Attributes{{"strides", List{stride, stride}},
                      {"padding", std::string(padding)},
                      {"dilations", List{dilation, dilation}},
                      {"groups", groups}};
  };
  std::vector<Case> cases;
  for (const char* padding : {"SAME", "VALID"}) {
    cases.push_back({{1, 112, 112, 3}, {7, 7, 3, 64}, attributes(2, padding)});
    cases.push_back({{1, 56, 56, 64}, {1, 1, 64, 256}, attributes(1, padding)});
    cases.push_back({{1, 28, 29, 128}, {3, 3, 128, 128}, attributes(1, padding)});
    cases.push_back({{1, 29, 28, 96}, {3, 3, 96, 80}, attributes(2, padding)});
    cases.push_back({{3, 14, 14, 256}, {1, 1, 256, 512}, attributes(2, padding)});
    cases.push_back({{1, 7, 7, 512}, {3, 3, 512, 100}, attributes(1, padding)});
    cases.push_back({{1, 7, 7, 1024}, {1, 1, 1024, 250}, attributes(1, padding)});
    cases.push_back({{1, 7, 7, 256}, {3, 3, 256, 192}, attributes(1, padding)});
    cases.push_back({{1, 7, 7, 512}, {1, 1, 512, 1024}, attributes(1, padding)});
    cases.push_back({{3, 14, 13, 256}, {3, 3, 256, 320}, attributes(2, padding)});
    cases.push_back({{2, 40, 40, 32}, {3, 3, 32, 48}, attributes(1, padding, 4)});
    cases.push_back({{1, 60, 60, 256}, {5, 5, 1, 256}, attributes(1, padding, 1, 256)});
    cases.push_back({{1, 24, 33, 128}, {5, 3, 32, 128}, attributes(1, padding, 1, 4)});
  }
  std::mt19937_64 engine(21);
  const auto one = test_device(1), two = test_device(2), five = test_device(5);
  for (const Case& c : cases)
    for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
      const ConvAttributes options = conv_attributes(c.attributes);
      const Tensor x = random_tensor(dtype, c.x, engine), filter = random_tensor(dtype, c.filter, engine);
      const auto result = [&](Device& device) {
        Tensor y(dtype, conv_shape(c.x, c.filter, options));
        conv(device.parallelism(), x, filter, options, y);
        return y;
      };
      const Tensor expected = result(*one);
      EXPECT_TRUE(bitwise_equal(expected, result(*two))) << c.x.to_string() << c.filter.to_string() << name(dtype);
      EXPECT_TRUE(bitwise_equal(expected, result(*five))) << c.x.to_string() << c.filter.to_string() << name(dtype);
    }
}

// A thread of the application may let OpenMP use several threads; oneDNN would then sum the filter's gradient
// otherwise.
TEST(Conv, GivesTheSameBitsOnAThreadThatLetsOpenMpUseMany) {
  std::mt19937_64 engine(14);
  const ConvCase c{{8, 28, 28, 1}, {3, 3, 1, 32}, {1, 1}, "VALID"};
  const ConvAttributes options = options_of(c);
  const Tensor x = random_tensor(DType::f32, c.x, engine);
  const Tensor dy = random_tensor(DType::f32, conv_shape(c.x, c.filter, options), engine);
  const auto device = test_device();
  const auto gradient = [&](int threads) {
    Tensor out(DType::f32, c.filter);
    std::thread([&] {
      omp_set_num_threads(threads);
      conv_backprop_filter(device->parallelism(), x, dy, options, out);
      EXPECT_EQ(omp_get_max_threads(), threads);
    }).join();
    return out;
  };
  EXPECT_TRUE(bitwise_equal(gradient(1), gradient(4)));
}

double loss_of(Parallelism& parallelism, const Tensor& x, const Tensor& filter, const Tensor& weights,
               const ConvAttributes& options) {
  Tensor y(DType::f64, weights.shape());
  conv(parallelism, x, filter, options, y);
  double loss = 0;
  for (std::int64_t i = 0; i < y.num_elements(); ++i) loss += y.data<double>()[i] * weights.data<double>()[i];
  return loss;
}

TEST(Conv, GradientsEqualCentralDifferences) {
  const auto device = test_device();
  Parallelism& p = device->parallelism();
  std::mt19937_64 engine(13);
  for (const char* padding : {"SAME", "VALID"})
    for (std::array<std::int64_t, 2> stride : kStrides) {
      const ConvCase c{{2, 5, 4, 2}, {3, 2, 2, 3}, stride, padding};
      const ConvAttributes options = options_of(c);
      Tensor x = random_tensor(DType::f64, c.x, engine), filter = random_tensor(DType::f64, c.filter, engine);
      const Tensor dy = random_tensor(DType::f64, conv_shape(c.x, c.filter, options), engine);
      Tensor dx(DType::f64, c.x), df(DType::f64, c.filter);
      conv_backprop_input(p, filter, dy, options, dx);
      conv_backprop_filter(p, x, dy, options, df);
      const auto check = [&](Tensor& changed, const Tensor& gradient) {
        constexpr double kStep = 1e-4;
        for (std::int64_t i = 0; i < changed.num_elements(); ++i) {
          double& value = changed.mutable_data<double>()[i];
          const double before = value;
          value = before + kStep;
          const double above = loss_of(p, x, filter, dy, options);
          value = before - kStep;
          const double below = loss_of(p, x, filter, dy, options);
          value = before;
          ASSERT_NEAR(gradient.data<double>()[i], (above - below) / (2 * kStep), 1e-8) << text(c) << " at " << i;
        }
      };
      check(x, dx);
      check(filter, df);
    }
}

TEST(Conv, OfNothingIsEmptyAndItsFilterGradientZero) {
  const KernelRegistry registry = all_kernels();
  const ConvCase c{{0, 5, 5, 2}, {3, 3, 2, 4}, {1, 1}, "SAME"};
  const Tensor x(DType::f32, c.x), filter = Tensor::zeros(DType::f32, c.filter), dy(DType::f32, {0, 5, 5, 4});
  EXPECT_EQ(run_every_way(registry, {"Conv", DType::f32, {x, filter}, attributes_of(c)})[0].shape(),
            (Shape{0, 5, 5, 4}));
  EXPECT_EQ(run_every_way(registry, {"ConvBackpropInput", DType::f32, {x, filter, dy}, attributes_of(c)})[0].shape(),
            c.x);
  const Tensor df = run_every_way(registry, {"ConvBackpropFilter", DType::f32, {x, filter, dy}, attributes_of(c)})[0];
  EXPECT_TRUE(bitwise_equal(df, Tensor::zeros(DType::f32, c.filter)));
  const Tensor no_channels = run_every_way(
      registry,
      {"Conv", DType::f64, {Tensor(DType::f64, {2, 5, 5, 0}), Tensor(DType::f64, {3, 3, 0, 4})}, attributes_of(c)})[0];
  EXPECT_TRUE(bitwise_equal(no_channels, Tensor::zeros(DType::f64, {2, 5, 5, 4})));
}

TEST(Conv, SaysWhatDoesNotFit) {
  const KernelRegistry registry = all_kernels();
  const auto device = test_device();
  const auto run = [&](Shape x, Shape filter, std::vector<std::int64_t> strides, std::string padding) {
    return message_of(Code::invalid_argument, [&] {
      run_kernel(registry, *device,
                 {"Conv",
                  DType::f32,
                  {Tensor::zeros(DType::f32, x), Tensor::zeros(DType::f32, filter)},
                  {{"strides", strides}, {"padding", padding}}});
    });
  };
  EXPECT_EQ(run({1, 5, 5, 2}, {3, 3, 3, 4}, {1, 1}, "SAME"),
            "Conv: x [1,5,5,2] has 2 channels, but the filter [3,3,3,4] takes 3");
  EXPECT_EQ(run({1, 2, 5, 2}, {3, 3, 2, 4}, {1, 1}, "VALID"),
            "height: a window of 3 is larger than the input's 2; use padding SAME or a smaller window");
  EXPECT_EQ(run({5, 5, 2}, {3, 3, 2, 4}, {1, 1}, "SAME"), "attribute 'strides' must have 1 integer (width), not 2");
  EXPECT_EQ(run({1, 5, 5, 2}, {3, 3, 2, 4}, {1, 1}, "FULL"),
            "attribute 'padding' is 'FULL', not one of SAME, VALID, SAME_LOWER, EXPLICIT");
  EXPECT_EQ(run({1, 5, 5, 2}, {3, 3, 2, 4}, {1}, "SAME"),
            "attribute 'strides' must have 2 integers (height, width), not 1");
  EXPECT_NE(run({1, 5, 5, 2}, {3, 3, 2, 4}, {1, 0}, "SAME").find("has 0, which is not from 1"), std::string::npos);
  EXPECT_NE(run({1, 5, 5, 2}, {3, 3, 2, 4}, {std::int64_t{1} << 62, 1}, "SAME").find("from 1 to"), std::string::npos);
  EXPECT_NE(run({1, 5, 5, 2}, {0, 3, 2, 4}, {1, 1}, "SAME").find("a window of 0"), std::string::npos);
}

}  // namespace
}  // namespace troupe
