#include <gtest/gtest.h>

#include <array>

#include "tests/error_of.hpp"
#include <troupe/kernels/readers/digits.hpp>

namespace troupe {
namespace {

using testing::error_of;

// FNV-1a, 64 bits.
std::uint64_t hash(const Tensor& tensor) {
  std::uint64_t h = 0xcbf29ce484222325ull;
  for (std::size_t i = 0; i < tensor.num_bytes(); ++i)
    h = (h ^ static_cast<std::uint8_t>(tensor.raw()[i])) * 0x100000001b3ull;
  return h;
}

TEST(Digits, AreTheSameBytesOnEveryMachine) {
  const DataSplits digits = draw_digits();
  EXPECT_EQ(digits.train.images.shape(), (Shape{12000, 28, 28, 1}));
  EXPECT_EQ(digits.test.images.shape(), (Shape{2000, 28, 28, 1}));
  EXPECT_EQ(hash(digits.train.images), 0x55178a03286aebc8ull);
  EXPECT_EQ(hash(digits.test.images), 0x904c8c0ef10e675ull);
}

TEST(Digits, AreBalancedAndLabelled) {
  const DataSplits digits = draw_digits({.train = 200, .test = 50});
  for (const auto& [dataset, per_class] : {std::pair{digits.train, 20}, std::pair{digits.test, 5}}) {
    std::array<int, 10> counts{};
    for (const std::int32_t label : dataset.labels.values<std::int32_t>()) ++counts.at(static_cast<std::size_t>(label));
    for (const int count : counts) EXPECT_EQ(count, per_class) << "digit " << (&count - counts.data());
  }
}

TEST(Digits, AnImageDependsOnSeedSplitAndIndexOnly) {
  const DataSplits few = draw_digits({.train = 20, .test = 10});
  const DataSplits more = draw_digits({.train = 40, .test = 30});
  EXPECT_TRUE(bitwise_equal(few.train.images, more.train.images.rows(0, 20)));
  EXPECT_TRUE(bitwise_equal(few.test.images, more.test.images.rows(0, 10)));
  EXPECT_FALSE(bitwise_equal(few.train.images.rows(0, 10), few.test.images));
  EXPECT_FALSE(bitwise_equal(few.train.images, draw_digits({.train = 20, .test = 10, .seed = 29}).train.images));
}

TEST(Digits, EveryImageShowsInkAndBackground) {
  const Dataset digits = draw_digits({.train = 1000, .test = 0}).train;
  for (std::int64_t i = 0; i < digits.size(); ++i) {
    const Tensor image = digits.images.rows(i, i + 1);
    int ink = 0;
    for (const std::uint8_t pixel : image.values<std::uint8_t>()) ink += pixel > 100;
    EXPECT_GT(ink, 15) << "image " << i;
    EXPECT_LT(ink, 300) << "image " << i;
  }
}

TEST(Digits, RefusesNegativeSizes) {
  EXPECT_EQ(error_of([] { draw_digits({.train = -1}); }).code(), Code::invalid_argument);
}

}  // namespace
}  // namespace troupe
