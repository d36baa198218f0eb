#include "apps/progress.hpp"

#include <gtest/gtest.h>

namespace troupe {
namespace {

using namespace std::chrono_literals;

Progress::Time at(std::chrono::milliseconds time) { return Progress::Time(time); }

TEST(ProgressBar, GrowsAndKeepsItsWidth) {
  EXPECT_EQ(progress_bar("Epoch 1/2", 0, 100, 10), "Epoch 1/2 [>         ]   0/100");
  EXPECT_EQ(progress_bar("Epoch 1/2", 50, 100, 10), "Epoch 1/2 [=====>    ]  50/100");
  EXPECT_EQ(progress_bar("Epoch 1/2", 99, 100, 10), "Epoch 1/2 [=========>]  99/100");
  EXPECT_EQ(progress_bar("Epoch 1/2", 100, 100, 10), "Epoch 1/2 [==========] 100/100");
}

TEST(ProgressBar, OddTotalsDoNoHarm) {
  EXPECT_EQ(progress_bar("x", 0, 0, 4), "x [====] 0/0");
  EXPECT_EQ(progress_bar("x", 9, 5, 4), "x [====] 9/5");
  EXPECT_EQ(progress_bar("x", ~0ull, ~0ull, 2), "x [==] 18446744073709551615/18446744073709551615");
}

TEST(Progress, PlainLinesComeAtMostOnceASecond) {
  Progress progress(false);
  EXPECT_EQ(progress.update("Epoch 1/2", 1, 100, at(0ms)), std::nullopt);
  EXPECT_EQ(progress.update("Epoch 1/2", 2, 100, at(999ms)), std::nullopt);
  EXPECT_EQ(progress.update("Epoch 1/2", 3, 100, at(1000ms)), "Epoch 1/2: step 3 of 100\n");
  EXPECT_EQ(progress.update("Epoch 1/2", 4, 100, at(1999ms)), std::nullopt);
  EXPECT_EQ(progress.update("Epoch 2/2", 5, 100, at(2000ms)), "Epoch 2/2: step 5 of 100\n");
  EXPECT_EQ(progress.clear(), "");
}

TEST(Progress, ABarIsDrawnOverItselfTenTimesASecond) {
  Progress progress(true);
  EXPECT_EQ(progress.clear(), "");
  EXPECT_EQ(progress.update("Epoch 1/2", 0, 8, at(0ms)).value(), "\r\x1b[K" + progress_bar("Epoch 1/2", 0, 8, 30));
  EXPECT_EQ(progress.update("Epoch 1/2", 1, 8, at(99ms)), std::nullopt);
  EXPECT_TRUE(progress.update("Epoch 1/2", 2, 8, at(100ms)).has_value());
  EXPECT_EQ(progress.clear(), "\r\x1b[K");
  EXPECT_EQ(progress.clear(), "");
}

}  // namespace
}  // namespace troupe
