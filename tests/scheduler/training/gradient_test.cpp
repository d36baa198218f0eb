#include <gtest/gtest.h>

#include <random>

#include <troupe/scheduler/training/gradient.hpp>

namespace troupe {
namespace {

TEST(MeanOf, AddsInSlotOrderAndDividesOnce) {
  std::mt19937 random(3);
  std::uniform_real_distribution<float> value(-1e3f, 1e3f);
  for (const std::int64_t size : {1, 7, 1024, 5000}) {
    std::vector<PushedGradient> gradients;
    for (int slot = 0; slot < 3; ++slot) {
      Tensor t(DType::f32, Shape{size});
      for (float& v : t.mutable_values<float>()) v = value(random);
      gradients.push_back({t, {}});
    }
    const PushedGradient mean = mean_of(gradients);  // a copy: the inputs are shared
    for (std::int64_t i = 0; i < size; ++i) {
      const auto g = [&](std::size_t slot) { return gradients[slot].values.data<float>()[i]; };
      ASSERT_EQ(mean.values.data<float>()[i], ((g(0) + g(1)) + g(2)) / 3.0f) << size << " elements, " << i;
    }
  }
}

TEST(MeanOf, LeavesASharedGradientAlone) {
  const Tensor shared = Tensor::vector<double>({1, 2});
  const PushedGradient mean = mean_of({{shared, {}}, {Tensor::vector<double>({3, 4}), {}}});
  EXPECT_TRUE(bitwise_equal(mean.values, Tensor::vector<double>({2, 3})));
  EXPECT_TRUE(bitwise_equal(shared, Tensor::vector<double>({1, 2})));
}

TEST(MeanOf, ReturnsTheOnlyOneAsItIs) {
  const Tensor only = Tensor::vector<float>({1.5f});
  EXPECT_EQ(mean_of({{only, {}}}).values.raw(), only.raw());
}

TEST(MeanOf, ConcatenatesRowsInSlotOrder) {
  const auto rows = [](std::initializer_list<std::int64_t> indices, std::initializer_list<float> values) {
    return PushedGradient{Tensor::of<float>(Shape{static_cast<std::int64_t>(indices.size()), 2}, values),
                          Tensor::vector<std::int64_t>(indices)};
  };
  const PushedGradient mean = mean_of({rows({4, 1}, {1, 2, 3, 4}), rows({}, {}), rows({1}, {5, 6})});
  EXPECT_TRUE(bitwise_equal(mean.indices, Tensor::vector<std::int64_t>({4, 1, 1})));
  EXPECT_TRUE(bitwise_equal(mean.values, Tensor::of<float>(Shape{3, 2}, {1 / 3.f, 2 / 3.f, 1, 4 / 3.f, 5 / 3.f, 2})));
}

TEST(MeanOf, MayDivideARowByTheSlotsThatHaveIt) {
  const auto rows = [](std::initializer_list<std::int64_t> indices, std::initializer_list<float> values) {
    return PushedGradient{Tensor::of<float>(Shape{static_cast<std::int64_t>(indices.size()), 2}, values),
                          Tensor::vector<std::int64_t>(indices)};
  };
  // Row 4 is in one slot, twice; row 1 in two; row 7 in all.
  const PushedGradient mean =
      mean_of({rows({4, 1, 4, 7}, {1, 2, 3, 4, 5, 6, 7, 8}), rows({7}, {9, 10}), rows({1, 7}, {11, 12, 13, 14})},
              SparseMean::touching_slots);
  EXPECT_TRUE(bitwise_equal(mean.indices, Tensor::vector<std::int64_t>({4, 1, 4, 7, 7, 1, 7})));
  EXPECT_TRUE(bitwise_equal(mean.values, Tensor::of<float>(Shape{7, 2}, {1, 2, 1.5f, 2, 5, 6, 7 / 3.f, 8 / 3.f, 3,
                                                                         10 / 3.f, 5.5f, 6, 13 / 3.f, 14 / 3.f})));
  const Tensor dense = Tensor::vector<float>({3});
  EXPECT_EQ(mean_of({{dense, {}}, {Tensor::vector<float>({0}), {}}}, SparseMean::touching_slots).values.item<float>(),
            1.5f);
  EXPECT_EQ(mean_of({rows({}, {}), rows({}, {})}, SparseMean::touching_slots).values.num_elements(), 0);
}

TEST(MeanOf, HalvesAreRoundedOnce) {
  const Tensor one = Tensor::vector<BFloat16>({BFloat16(1.0f)});
  const Tensor tiny = Tensor::vector<BFloat16>({BFloat16(0.0078125f / 2)});  // lost if each sum were rounded
  const PushedGradient mean = mean_of({{one, {}}, {tiny, {}}, {tiny, {}}, {tiny, {}}});
  EXPECT_EQ(mean.values.item<BFloat16>(), BFloat16((1.0f + 3 * 0.0078125f / 2) / 4));
}

TEST(CheckGradient, NamesWhatDoesNotFit) {
  const SliceSpec slice{7, "dense/kernel", DType::f32, Shape{4, 2}};
  const auto message = [&](const Tensor& values, const Tensor& indices = {}) {
    return check_gradient(slice, {values, indices}).message();
  };
  EXPECT_EQ(message(Tensor::zeros(DType::f32, Shape{4, 2})), "");
  EXPECT_EQ(message(Tensor::zeros(DType::f32, Shape{2, 4})),
            "gradient of slice 7 (dense/kernel): its shape is [2,4], expected [4,2]");
  EXPECT_EQ(message(Tensor::zeros(DType::f64, Shape{4, 2})),
            "gradient of slice 7 (dense/kernel): its dtype is f64, expected f32");
  EXPECT_EQ(message({}), "gradient of slice 7 (dense/kernel): no values");
  const Tensor rows = Tensor::zeros(DType::f32, Shape{2, 2});
  EXPECT_EQ(message(rows, Tensor::vector<std::int64_t>({3, 3})), "");
  EXPECT_EQ(message(rows, Tensor::vector<std::int64_t>({0, 4})), "gradient of slice 7 (dense/kernel): row 4 of 4");
  EXPECT_EQ(message(rows, Tensor::vector<std::int64_t>({-1, 0})), "gradient of slice 7 (dense/kernel): row -1 of 4");
  EXPECT_NE(message(rows, Tensor::vector<std::int64_t>({1})), "");
  EXPECT_NE(message(rows, Tensor::vector<std::int32_t>({1, 2})), "");
  EXPECT_NE(message(Tensor::zeros(DType::f32, Shape{1, 4, 2}), Tensor::of<std::int64_t>(Shape{1, 1}, {0})), "");
  EXPECT_NE(check_gradient({1, "scalar", DType::f32, Shape{}},
                           {Tensor::vector<float>({1}), Tensor::vector<std::int64_t>({0})})
                .message(),
            "");
}

}  // namespace
}  // namespace troupe
