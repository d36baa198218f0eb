#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include <troupe/messages/error.hpp>
#include <troupe/scheduler/data/permutation.hpp>

namespace troupe {
namespace {

TEST(Permutation, HoldsEveryNumberOnce) {
  for (std::uint64_t n : {0u, 1u, 2u, 3u, 5u, 64u, 1000u}) {
    std::vector<std::uint32_t> order = permutation(7, 3, n);
    std::sort(order.begin(), order.end());
    ASSERT_EQ(order.size(), n) << n;
    for (std::uint32_t i = 0; i < n; ++i) EXPECT_EQ(order[i], i);
  }
}

// Written down once: a change would silently change every trained model.
TEST(Permutation, StaysWhatItWas) {
  EXPECT_EQ(permutation(1, 0, 8), (std::vector<std::uint32_t>{0, 4, 2, 7, 3, 5, 1, 6}));
  EXPECT_EQ(permutation(1, 1, 8), (std::vector<std::uint32_t>{1, 4, 7, 0, 6, 5, 3, 2}));
}

TEST(Permutation, DependsOnSeedAndEpoch) {
  EXPECT_NE(permutation(1, 0, 100), permutation(1, 1, 100));
  EXPECT_NE(permutation(1, 0, 100), permutation(2, 0, 100));
  EXPECT_NE(permutation(1, 2, 100), permutation(2, 1, 100));
}

TEST(Permutation, IsUniform) {
  std::map<std::vector<std::uint32_t>, int> seen;
  constexpr int kDraws = 24000;
  for (int epoch = 0; epoch < kDraws; ++epoch) ++seen[permutation(11, static_cast<std::uint64_t>(epoch), 4)];
  ASSERT_EQ(seen.size(), 24u);
  for (const auto& [order, count] : seen)
    EXPECT_NEAR(count, kDraws / 24, 160) << ::testing::PrintToString(order);  // five standard deviations
}

TEST(Permutation, RefusesMoreThanFits32Bits) { EXPECT_THROW(permutation(1, 0, std::uint64_t{1} << 32), Error); }

}  // namespace
}  // namespace troupe
