#include "troupe/scheduler/training/epoch_figures.hpp"

#include <gtest/gtest.h>

namespace troupe::testing {
namespace {

constexpr std::int64_t kOneSecond = 1'000'000'000;

TEST(EpochFigures, AreThoseOfTheStepsOfTheEpoch) {
  EpochFigures figures(2, 3, 10);
  figures.begin(100 * kOneSecond);
  for (int step = 0; step < 3; ++step) figures.step_done(5, 4, (101 + step) * kOneSecond);
  EXPECT_EQ(figures.at().examples, 30u);
  const EpochDone epoch = figures.end(0.5);
  EXPECT_EQ(epoch.epoch, 0u);
  EXPECT_EQ(epoch.loss, 0.5);
  EXPECT_EQ(epoch.train_accuracy, 0.4);
  EXPECT_EQ(epoch.test_accuracy, 0.5);
  EXPECT_EQ(epoch.images_per_second, 10);
  EXPECT_EQ(epoch.steps, 3u);
  EXPECT_EQ(epoch.seconds, 3);
  figures.next_epoch();
  EXPECT_FALSE(figures.over());
  EXPECT_EQ(figures.first(), 3u);
  EXPECT_EQ(figures.at().loss_sum, 0);
  figures.begin(200 * kOneSecond);  // evaluation does not count
  for (int step = 0; step < 3; ++step) figures.step_done(1, 4, (202 + step) * kOneSecond);
  EXPECT_EQ(figures.end(0).seconds, 3 + 4);
  EXPECT_EQ(figures.images_per_second(), 60. / 7);
  figures.next_epoch();
  EXPECT_TRUE(figures.over());
}

TEST(EpochFigures, GoOnFromACheckpointInTheMidstOfAnEpoch) {
  EpochFigures whole(1, 4, 10), rest(1, 4, 10);
  whole.begin(0);
  whole.step_done(3, 1, kOneSecond);
  whole.step_done(4, 2, 2 * kOneSecond);
  rest.go_on_from(whole.at());
  rest.begin(50 * kOneSecond);
  for (EpochFigures* figures : {&whole, &rest}) {
    SCOPED_TRACE(figures == &whole ? "whole" : "rest");
    const std::int64_t begun = figures == &whole ? 2 * kOneSecond : 50 * kOneSecond;
    figures->step_done(5, 3, begun + kOneSecond);
    figures->step_done(6, 4, begun + 2 * kOneSecond);
    const EpochDone epoch = figures->end(1);
    EXPECT_EQ(epoch.loss, 18. / 40);
    EXPECT_EQ(epoch.train_accuracy, 10. / 40);
    EXPECT_EQ(epoch.seconds, 4);
    EXPECT_EQ(epoch.images_per_second, 10);
  }
}

TEST(EpochFigures, OfAllRanksAreMadeOfTheirSums) {
  EpochFigures figures(1, 2, 20);
  figures.begin(0);
  figures.step_done(3, 1, 1);
  figures.step_done(4, 2, 2);
  const EpochDone epoch = figures.end(20, 8, 0);
  EXPECT_EQ(epoch.loss, 0.5);
  EXPECT_EQ(epoch.train_accuracy, 0.2);
}

}  // namespace
}  // namespace troupe::testing
