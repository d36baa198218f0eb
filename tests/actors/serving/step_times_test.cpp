#include "troupe/actors/serving/step_times.hpp"

#include <gtest/gtest.h>

namespace troupe::testing {
namespace {

TEST(StepTimes, OfOtherNumbersOfRowsAreMultiplesOfTheNextSmaller) {
  StepTimes times;
  EXPECT_EQ(times.usual(1), 0);
  times.add(1, 100);
  EXPECT_EQ(times.usual(0), 100);
  EXPECT_EQ(times.usual(1), 100);
  EXPECT_EQ(times.usual(3), 200);
  EXPECT_EQ(times.usual(64), 6400);
  times.add(64, 500);
  EXPECT_EQ(times.usual(100), 500);
  EXPECT_EQ(times.usual(128), 1000);
  EXPECT_EQ(times.usual(32), 3200);
  EXPECT_GT(times.usual(std::int64_t{1} << 62), 0);
}

// Most steps wait for the device ten times as long as they run.
TEST(StepTimes, WaitsDoNotCount) {
  StepTimes times;
  times.add(1, 100);
  for (int i = 0; i < 1000; ++i) times.add(1, i % 5 == 0 ? 100 : 1000);
  EXPECT_LT(times.usual(1), 250);
}

TEST(StepTimes, FollowStepsThatHaveBecomeSlower) {
  StepTimes times;
  times.add(1, 100);
  for (int i = 0; i < 300; ++i) times.add(1, 5000);
  EXPECT_EQ(times.usual(1), 5000);
  for (int i = 0; i < 100; ++i) times.add(1, 100);
  EXPECT_EQ(times.usual(1), 100);
}

}  // namespace
}  // namespace troupe::testing
