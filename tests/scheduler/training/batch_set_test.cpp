#include <gtest/gtest.h>

#include <random>
#include <set>

#include <troupe/scheduler/training/batch_set.hpp>

namespace troupe {
namespace {

TEST(BatchSet, RemembersWhatASetRemembers) {
  std::mt19937_64 random(5);
  BatchSet batches;
  std::set<std::uint64_t> expected;
  for (int i = 0; i < 2000; ++i) {
    const std::uint64_t batch = random() % 300;
    EXPECT_EQ(batches.contains(batch), expected.contains(batch)) << "batch " << batch;
    EXPECT_EQ(batches.insert(batch), expected.insert(batch).second) << "batch " << batch;
    EXPECT_TRUE(batches.contains(batch)) << "batch " << batch;
  }
  for (std::uint64_t batch = 0; batch < 300; ++batch)
    EXPECT_EQ(batches.contains(batch), expected.contains(batch)) << "batch " << batch;
}

TEST(BatchSet, NeedsOneIntervalPerGap) {
  BatchSet batches;
  for (std::uint64_t batch = 0; batch < 10000; ++batch)
    if (batch != 17 && batch != 4000) batches.insert(batch);
  EXPECT_EQ(batches.intervals(), 3u);
  batches.insert(17);
  batches.insert(4000);
  EXPECT_EQ(batches.intervals(), 1u);
}

TEST(BatchSet, KnowsWhatTouchesAMember) {
  BatchSet batches;
  EXPECT_FALSE(batches.touches(0));
  batches.insert(5);
  EXPECT_TRUE(batches.touches(4));
  EXPECT_TRUE(batches.touches(6));
  EXPECT_FALSE(batches.touches(3));
  EXPECT_FALSE(batches.touches(7));
}

}  // namespace
}  // namespace troupe
