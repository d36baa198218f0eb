// Pools with dilations, pads, in one to three dimensions and both data formats; places of maxima.
#include <gtest/gtest.h>

#include <limits>

#include "tests/kernels/random_tensors.hpp"
#include <troupe/kernels/common/pool_geometry.hpp>

namespace troupe {
namespace {

using namespace troupe::testing;
using Integers = std::vector<std::int64_t>;

struct PoolVariant {
  Shape x;  // channels last
  Integers size, strides, dilations, pads;
  const char* padding;
  bool ceil;
};

std::vector<PoolVariant> variants() {
  return {
      {{2, 9, 3}, {3}, {2}, {}, {}, "SAME_LOWER", false},
      {{2, 9, 17}, {2}, {3}, {2}, {1, 0}, "EXPLICIT", true},
      {{1, 7, 8, 5}, {3, 2}, {2, 2}, {}, {1, 0, 1, 1}, "EXPLICIT", false},
      {{1, 7, 6, 4}, {3, 3}, {2, 2}, {}, {}, "EXPLICIT", true},
      {{2, 6, 9, 3}, {2, 3}, {1, 1}, {3, 2}, {}, "SAME", false},
      {{1, 4, 5, 6, 3}, {2, 3, 2}, {1, 2, 2}, {}, {}, "SAME", false},
      {{1, 5, 4, 7, 2}, {2, 2, 3}, {2, 1, 3}, {2, 1, 1}, {1, 0, 2, 1, 1, 0}, "EXPLICIT", true},
      {{1, 1, 1, 2}, {2, 1}, {1, 1}, {2, 1}, {1, 0, 1, 0}, "EXPLICIT", false},  // a window of padding only
  };
}

Attributes attributes_of(const PoolVariant& v, bool first, const char* divisor) {
  return {{"ksize", v.size},
          {"strides", v.strides},
          {"dilations", v.dilations},
          {"pads", v.pads},
          {"padding", std::string(v.padding)},
          {"ceil_mode", v.ceil},
          {"divisor", std::string(divisor)},
          {"data_format", std::string(first ? "channels_first" : "channels_last")}};
}

Shape shape_of(const PoolVariant& v, bool first) {
  if (!first) return v.x;
  Integers dims{v.x[0], v.x[-1]};
  for (int i = 1; i + 1 < v.x.rank(); ++i) dims.push_back(v.x[i]);
  return Shape(dims);
}

struct Window {
  std::vector<std::size_t> elements;  // of x
  double padded = 1;                  // positions in the padded image
};

// The windows of the results in row-major order.
std::vector<Window> windows_of(const PoolGeometry& g) {
  std::vector<Window> out;
  const WindowAxis* axes[] = {&g.depth, &g.rows, &g.columns};
  for (std::int64_t b = 0; b < g.batch; ++b)
    for (std::int64_t o = 0; o < g.windows(); ++o)
      for (std::int64_t c = 0; c < g.channels; ++c) {
        Window& window = out.emplace_back();
        const std::int64_t at[] = {o / (g.columns.output * g.rows.output), o / g.columns.output % g.rows.output,
                                   o % g.columns.output};
        for (int a = 0; a < 3; ++a) {
          std::int64_t count = 0;
          for (std::int64_t k = 0; k < axes[a]->kernel; ++k)
            count += axes[a]->position(at[a], k) < axes[a]->input + axes[a]->after ? 1 : 0;
          window.padded *= static_cast<double>(count);
        }
        for (std::int64_t kz = 0; kz < g.depth.kernel; ++kz)
          for (std::int64_t ky = 0; ky < g.rows.kernel; ++ky)
            for (std::int64_t kx = 0; kx < g.columns.kernel; ++kx) {
              const std::int64_t z = g.depth.position(at[0], kz), y = g.rows.position(at[1], ky),
                                 x = g.columns.position(at[2], kx);
              if (z < 0 || y < 0 || x < 0 || z >= g.depth.input || y >= g.rows.input || x >= g.columns.input) continue;
              window.elements.push_back(static_cast<std::size_t>(b * g.image_size() + g.pixel(z, y, x) + c));
            }
      }
  return out;
}

class PoolVariants : public ::testing::TestWithParam<bool> {};

TEST_P(PoolVariants, TakeTheMaximumAndKnowItsPlace) {
  const KernelRegistry registry = all_kernels();
  std::mt19937_64 engine(41);
  for (const PoolVariant& v : variants())
    for (DType dtype : kFloats) {
      const Attributes attributes = attributes_of(v, GetParam(), "existing");
      Tensor x = random_tensor(dtype, shape_of(v, GetParam()), engine, -2, 2);
      const auto all = windows_of(pool_geometry(x.shape(), pool_attributes(attributes)));
      const Tensor y = run_every_way(registry, {"MaxPool", dtype, {x}, attributes})[0];
      const auto both = run_every_way(
          registry, {"MaxPoolWithIndices", dtype, {x}, attributes, 2, {}, {}, 0, "test", {dtype, DType::i64}});
      EXPECT_TRUE(bitwise_equal(both[0], y));
      const Tensor dy = random_tensor(dtype, y.shape(), engine);
      const Tensor dx = run_every_way(registry, {"MaxPoolGrad", dtype, {x, y, dy}, attributes})[0];
      const Tensor scattered =
          run_every_way(registry, {"MaxPoolWithIndicesGrad", dtype, {x, both[1], dy}, Attributes{}})[0];
      const auto xs = doubles(x), ys = doubles(y), gs = doubles(dy);
      ASSERT_EQ(all.size(), ys.size()) << v.x.to_string();
      Sums want(x.num_elements());
      for (std::size_t o = 0; o < all.size(); ++o) {
        if (all[o].elements.empty()) {
          EXPECT_EQ(ys[o], -std::numeric_limits<double>::infinity());
          EXPECT_EQ(both[1].data<std::int64_t>()[o], -1);
          continue;
        }
        std::size_t best = all[o].elements[0];
        for (std::size_t i : all[o].elements)
          if (xs[i] > xs[best]) best = i;
        ASSERT_EQ(ys[o], xs[best]) << v.x.to_string();
        ASSERT_EQ(both[1].data<std::int64_t>()[o], static_cast<std::int64_t>(best)) << v.x.to_string();
        want.add(static_cast<std::int64_t>(best), gs[o]);
      }
      expect_close(dx, want, v.x.to_string());
      expect_close(scattered, want, v.x.to_string() + " by indices");
    }
}

TEST_P(PoolVariants, DivideByWhatIsAsked) {
  const KernelRegistry registry = all_kernels();
  std::mt19937_64 engine(42);
  for (const PoolVariant& v : variants())
    for (const char* divisor : {"existing", "padded", "one"})
      for (DType dtype : kFloats) {
        const Attributes attributes = attributes_of(v, GetParam(), divisor);
        const Tensor x = random_tensor(dtype, shape_of(v, GetParam()), engine);
        const auto all = windows_of(pool_geometry(x.shape(), pool_attributes(attributes)));
        const Tensor y = run_every_way(registry, {"AvgPool", dtype, {x}, attributes})[0];
        const Tensor dy = random_tensor(dtype, y.shape(), engine);
        const Tensor dx = run_every_way(registry, {"AvgPoolGrad", dtype, {x, dy}, attributes})[0];
        const auto xs = doubles(x), gs = doubles(dy);
        Sums want_y(y.num_elements()), want_dx(x.num_elements());
        for (std::size_t o = 0; o < all.size(); ++o)
          for (std::size_t i : all[o].elements) {
            const double count = *divisor == 'o'   ? 1
                                 : *divisor == 'p' ? all[o].padded
                                                   : static_cast<double>(all[o].elements.size());
            want_y.add(static_cast<std::int64_t>(o), xs[i] / count);
            want_dx.add(static_cast<std::int64_t>(i), gs[o] / count);
          }
        expect_close(y, want_y, v.x.to_string() + divisor);
        expect_close(dx, want_dx, v.x.to_string() + divisor);
      }
}

INSTANTIATE_TEST_SUITE_P(Formats, PoolVariants, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "ChannelsFirst" : "ChannelsLast"; });

TEST(MaxPool, TakesBytes) {
  const KernelRegistry registry = all_kernels();
  const auto device = test_device();
  const Attributes attributes{{"ksize", Integers{2}}, {"strides", Integers{2}}, {"padding", std::string("VALID")}};
  const Tensor x = Tensor::of<std::uint8_t>({1, 4, 1}, {3, 255, 0, 0});
  const Tensor y = run_kernel(registry, *device, {"MaxPool", DType::u8, {x}, attributes})[0];
  EXPECT_TRUE(bitwise_equal(y, Tensor::of<std::uint8_t>({1, 2, 1}, {255, 0})));
  const Tensor low = Tensor::of<std::int8_t>({1, 4, 1}, {-3, -128, -128, -128});
  const Tensor z = run_kernel(registry, *device, {"MaxPool", DType::i8, {low}, attributes})[0];
  EXPECT_TRUE(bitwise_equal(z, Tensor::of<std::int8_t>({1, 2, 1}, {-3, -128})));
}

TEST(MaxPoolWithIndices, FindsTheFirstNaN) {
  const KernelRegistry registry = all_kernels();
  const auto device = test_device();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Attributes attributes{{"ksize", Integers{4}}, {"strides", Integers{4}}, {"padding", std::string("VALID")}};
  const auto out = run_kernel(registry, *device,
                              {"MaxPoolWithIndices",
                               DType::f32,
                               {Tensor::of<float>({1, 4, 1}, {7, nan, 9, nan})},
                               attributes,
                               2,
                               {},
                               {},
                               0,
                               "test",
                               {DType::f32, DType::i64}});
  EXPECT_TRUE(std::isnan(out[0].data<float>()[0]));
  EXPECT_EQ(out[1].data<std::int64_t>()[0], 1);
}

TEST(MaxUnpool, PutsElementsAtTheirPlaces) {
  const KernelRegistry registry = all_kernels();
  const auto device = test_device();
  const auto run = [&](std::initializer_list<std::int64_t> indices) {
    return run_kernel(
        registry, *device,
        {"MaxUnpool",
         DType::f32,
         {Tensor::of<float>({2}, {1, 2}), Tensor::vector<std::int64_t>(indices), Tensor::vector<std::int64_t>({2, 2})},
         {}})[0];
  };
  EXPECT_TRUE(bitwise_equal(run({3, 0}), Tensor::of<float>({2, 2}, {2, 0, 0, 1})));
  EXPECT_TRUE(bitwise_equal(run({1, -1}), Tensor::of<float>({2, 2}, {0, 1, 0, 0})));
  EXPECT_EQ(message_of(Code::invalid_argument, [&] { run({0, 4}); }), "MaxUnpool: index 1 is 4, not in [0, 4)");
}

}  // namespace
}  // namespace troupe
