#include <gtest/gtest.h>

#include <limits>

#include "tests/devices/collective/collective_testing.hpp"
#include <troupe/devices/collective/reduce.hpp>

namespace troupe {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

template <class T>
std::vector<T> combined(Reduction reduction, std::initializer_list<T> a, std::initializer_list<T> b,
                        std::uint32_t divisor = 1) {
  const auto n = static_cast<std::int64_t>(a.size());
  Tensor out(dtype_of<T>, Shape{n});
  combine(reduction, Tensor::of<T>({n}, a), Tensor::of<T>({n}, b), divisor, out);
  const auto values = out.values<T>();
  return {values.begin(), values.end()};
}

TEST(Combine, IntegersWrapAndTheirMeanTruncates) {
  constexpr auto kMost = std::numeric_limits<std::int32_t>::max(), kLeast = std::numeric_limits<std::int32_t>::min();
  EXPECT_EQ(combined<std::int32_t>(Reduction::sum, {kMost, 3}, {1, 4}), (std::vector<std::int32_t>{kLeast, 7}));
  EXPECT_EQ(combined<std::int64_t>(Reduction::mean, {-3, 3}, {0, 0}, 2), (std::vector<std::int64_t>{-1, 1}));
}

TEST(Combine, AMaximumIsNanIfAnyIs) {
  const auto max = combined<float>(Reduction::max, {kNan, 1, 1}, {1, kNan, 2});
  EXPECT_TRUE(std::isnan(max[0]) && std::isnan(max[1]));
  EXPECT_EQ(max[2], 2);
}

TEST(Combine, NarrowSumsAreRoundedOnceAndDividedBefore) {
  // 256 + 1 needs 9 bits: half way, to even. 263 / 3 = 87.67 is 87.5 of 8 bits; 263 alone would become 264, and
  // that 88.
  const auto one = [](float v) { return BFloat16(v); };
  EXPECT_EQ(static_cast<float>(combined<BFloat16>(Reduction::sum, {one(256)}, {one(1)})[0]), 256);
  EXPECT_EQ(static_cast<float>(combined<BFloat16>(Reduction::mean, {one(256)}, {one(7)}, 3)[0]), 87.5f);
  EXPECT_TRUE(std::isnan(static_cast<float>(combined<BFloat16>(Reduction::sum, {one(kNan)}, {one(1)})[0])));
}

TEST(Combine, EveryDtypeRoundsLikeItsOwnConversion) {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32, DType::i64})
    for (const Reduction reduction : {Reduction::sum, Reduction::mean, Reduction::max}) {
      const std::vector<Tensor> two = {testing::random_tensor(dtype, {1000}, 1),
                                       testing::random_tensor(dtype, {1000}, 2)};
      Tensor out(dtype, {1000});
      combine(reduction, two[0], two[1], 2, out);
      Tensor expected = testing::reduced_by_hand(two, reduction);
      // By hand the second half begins with the second rank: a sum of two is the same.
      EXPECT_TRUE(bitwise_equal(out, expected)) << name(dtype) << " " << name(reduction);
    }
}

TEST(Combine, OtherDtypesAreRefused) {
  for (const DType dtype : {DType::u8, DType::boolean, DType::string, DType::invalid})
    EXPECT_FALSE(can_reduce(dtype)) << name(dtype);
  EXPECT_THROW(parse_reduction("product"), Error);
  EXPECT_EQ(parse_reduction("mean"), Reduction::mean);
}

}  // namespace
}  // namespace troupe
