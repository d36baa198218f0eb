// What kernels of GPUs work out on the host; no GPU is needed.
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include <troupe/kernels/common/conv_geometry.hpp>
#include <troupe/kernels/cuda/conv_plan.hpp>
#include <troupe/kernels/cuda/plan_cache.hpp>
#include <troupe/kernels/cuda/product_plan.hpp>

namespace troupe {
namespace {

// What cuBLASLt does, by its definition.
std::vector<double> by_columns(const ColumnMajor& p, std::int64_t terms, const std::vector<double>& first,
                               const std::vector<double>& second) {
  const auto element = [](const ColumnMajor::Matrix& matrix, bool transposed, std::int64_t row, std::int64_t column) {
    if (transposed) std::swap(row, column);
    EXPECT_LT(row, matrix.rows);
    EXPECT_LT(column, matrix.columns);
    EXPECT_GE(matrix.stride, matrix.rows);
    return static_cast<std::size_t>(row + column * matrix.stride);
  };
  std::vector<double> out(static_cast<std::size_t>(p.out.rows * p.out.columns));
  for (std::int64_t i = 0; i < p.out.rows; ++i)
    for (std::int64_t j = 0; j < p.out.columns; ++j)
      for (std::int64_t t = 0; t < terms; ++t)
        out[element(p.out, false, i, j)] +=
            first[element(p.first, p.transpose_first, i, t)] * second[element(p.second, p.transpose_second, t, j)];
  return out;
}

TEST(ProductPlan, ByColumnsIsTheProductByRows) {
  const std::int64_t m = 3, n = 5, k = 4;
  std::vector<double> a(m * k), b(k * n);
  std::iota(a.begin(), a.end(), 1.0);
  std::iota(b.begin(), b.end(), -7.0);
  for (int mask = 0; mask < 4; ++mask) {
    const bool ta = mask & 1, tb = mask & 2;
    std::vector<double> expected(m * n);
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j)
        for (std::int64_t t = 0; t < k; ++t)
          expected[static_cast<std::size_t>(i * n + j)] += a[static_cast<std::size_t>(ta ? t * m + i : i * k + t)] *
                                                           b[static_cast<std::size_t>(tb ? j * k + t : t * n + j)];
    const ColumnMajor plan = column_major({.transpose_a = ta, .transpose_b = tb, .m = m, .n = n, .k = k});
    EXPECT_EQ(by_columns(plan, k, b, a), expected) << mask;
    EXPECT_EQ(plan.out.rows, n) << "cuBLASLt's bias has an element for each row of its result";
  }
}

TEST(ProductPlan, BiasAndActivationAreDoneOnceEach) {
  for (DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16})
    for (std::int64_t k : {0, 7})
      for (bool bias : {false, true})
        for (FusedActivation activation :
             {FusedActivation::none, FusedActivation::relu, FusedActivation::sigmoid, FusedActivation::tanh}) {
          SCOPED_TRACE(::testing::Message() << name(dtype) << ", k " << k << ", bias " << bias << ", activation "
                                            << static_cast<int>(activation));
          const FusedProduct shares = share_out(dtype, k, bias, activation);
          EXPECT_EQ((shares.ending != ProductEnding::none) + shares.bias_after, bias);
          EXPECT_EQ(shares.activation_after, activation);
          EXPECT_TRUE((dtype != DType::f64 && k != 0) || shares.ending == ProductEnding::none);
        }
  EXPECT_EQ(share_out(DType::bf16, 4, true, FusedActivation::relu).ending, ProductEnding::bias);
  EXPECT_FALSE(share_out(DType::f32, 4, true, FusedActivation::none).anything_after());
  EXPECT_EQ(all_after(true, FusedActivation::relu),
            (FusedProduct{.bias_after = true, .activation_after = FusedActivation::relu}));
}

TEST(PlanCache, MakesAPlanOnceAndKeepsNoFailure) {
  PlanCache<ProductKey, std::string> plans(2);
  const ProductKey one{.dtype = DType::f32, .m = 1}, two{.dtype = DType::f32, .m = 2},
      other_type{.dtype = DType::f16, .m = 1};
  int made = 0;
  const auto plan = [&](const ProductKey& key) {
    return plans.get(key, [&] { return ++made, std::to_string(key.m); });
  };
  EXPECT_EQ(plan(one), "1");
  EXPECT_EQ(plan(one), "1");
  EXPECT_EQ(made, 1);
  EXPECT_THROW(plans.get(two, []() -> std::string { throw 1; }), int);
  EXPECT_EQ(plan(two), "2");
  EXPECT_EQ(plans.size(), 2u);
  plan(other_type);
  EXPECT_EQ(plans.size(), 1u) << "at the limit all are dropped";
  EXPECT_EQ(made, 3);
}

ConvGeometry geometry(Shape x, Shape filter, std::int64_t stride, Padding padding) {
  return conv_geometry(x, filter, {.windows = {.strides = {stride, stride}, .padding = padding}});
}

TEST(ConvPlan, OnlyWindowsOfOnePixelAreProducts) {
  EXPECT_TRUE(is_product(geometry({2, 7, 9, 16}, {1, 1, 16, 8}, 1, Padding::same)));
  EXPECT_TRUE(is_product(geometry({2, 7, 9, 16}, {1, 1, 16, 8}, 1, Padding::valid)));
  EXPECT_FALSE(is_product(geometry({2, 7, 9, 16}, {1, 1, 16, 8}, 2, Padding::valid)));
  EXPECT_FALSE(is_product(geometry({2, 7, 9, 16}, {1, 3, 16, 8}, 1, Padding::same)));
}

TEST(ConvPlan, APaddedImageHasTheSameWindows) {
  for (std::int64_t size : {5, 6, 7, 8})
    for (std::int64_t kernel : {1, 2, 3, 5})
      for (std::int64_t stride : {1, 2, 3}) {
        SCOPED_TRACE(::testing::Message() << "size " << size << ", kernel " << kernel << ", stride " << stride);
        const ConvGeometry bare = geometry({1, size, size, 1}, {kernel, kernel, 1, 1}, stride, Padding::same),
                           full = padded(bare);
        EXPECT_TRUE(pads_evenly(full));
        EXPECT_EQ(full.rows.before + full.rows.after, 0);
        EXPECT_EQ((full.rows.input - kernel) / stride + 1, bare.rows.output)
            << "what cuDNN takes the result's size to be";
        for (std::int64_t o = 0; o < bare.rows.output; ++o) {
          // Each window begins `before` later.
          EXPECT_EQ(full.rows.begin(o), o * stride) << "window " << o;
          EXPECT_EQ(std::max<std::int64_t>(0, full.rows.begin(o) - bare.rows.before), bare.rows.begin(o))
              << "window " << o;
        }
      }
  EXPECT_FALSE(pads_evenly(geometry({1, 224, 224, 3}, {7, 7, 3, 64}, 2, Padding::same)));
  EXPECT_TRUE(pads_evenly(geometry({1, 56, 56, 64}, {3, 3, 64, 64}, 1, Padding::same)));
}

TEST(ConvPlan, LeavesToCudnnWhatItCanDo) {
  const ConvGeometry g = geometry({8, 28, 28, 1}, {3, 3, 1, 32}, 1, Padding::same);
  EXPECT_TRUE(fits_cudnn(DType::bf16, g));
  EXPECT_FALSE(fits_cudnn(DType::f64, g));
  EXPECT_FALSE(fits_cudnn(DType::f32, geometry({1 << 20, 64, 64, 1}, {64, 64, 1, 1}, 1, Padding::valid)))
      << "large images";
  EXPECT_FALSE(fits_cudnn(DType::f32, geometry({1 << 20, 32, 32, 1}, {3, 3, 1, 4}, 1, Padding::same)))
      << "large results";
  EXPECT_FALSE(fits_cudnn(DType::f32, geometry({1, 4, 4, 1 << 15}, {3, 3, 1 << 15, 1 << 13}, 1, Padding::same)))
      << "a large filter";
}

TEST(ConvPlan, KeysOfDifferentWindowsDiffer) {
  ConvKey a{.dtype = DType::f32, .geometry = geometry({2, 8, 8, 3}, {3, 3, 3, 4}, 1, Padding::same)}, b = a;
  EXPECT_EQ(a, b);
  EXPECT_EQ(std::hash<ConvKey>()(a), std::hash<ConvKey>()(b));
  b.geometry.rows.after += 1;
  EXPECT_NE(a, b);
  b = a;
  b.direction = ConvDirection::backward_input;
  EXPECT_NE(a, b);
  EXPECT_NE(std::hash<ConvKey>()(a), std::hash<ConvKey>()(b));
}

TEST(ConvPlan, UnfoldsAsManyImagesAsFitItsMemory) {
  const ConvGeometry small = geometry({100, 8, 8, 3}, {3, 3, 3, 4}, 1, Padding::same);
  EXPECT_EQ(images_at_once(small, 4), 100);
  const ConvGeometry large = geometry({100, 512, 512, 64}, {3, 3, 64, 4}, 1, Padding::same);
  EXPECT_EQ(images_at_once(large, 4), 1);
  const ConvGeometry middle = geometry({100, 64, 64, 64}, {3, 3, 64, 4}, 1, Padding::same);
  EXPECT_EQ(images_at_once(middle, 4), (std::int64_t{256} << 20) / (64 * 64 * 9 * 64 * 4));
}

TEST(ConvPlan, KnowsHowPartsOfABatchAreAligned) {
  EXPECT_EQ(alignment_after(0), kBufferAlignment);
  EXPECT_EQ(alignment_after(6), 2u);
  EXPECT_EQ(alignment_after(48), 16u);
  EXPECT_EQ(alignment_after(4096), kBufferAlignment);
}

}  // namespace
}  // namespace troupe
