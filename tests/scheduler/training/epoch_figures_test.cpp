#include "troupe/scheduler/training/epoch_figures.hpp"

#include <gtest/gtest.h>

namespace troupe::testing {
namespace {

constexpr std::int64_t kOneSecond = 1'000'000'000;

NamedSums sums(double loss, double examples) { return {{"loss", {loss, examples}}}; }

void step_done(EpochFigures& figures, const NamedSums& of_slot, std::uint64_t examples, std::int64_t now) {
  figures.add_figures(of_slot);
  figures.step_done(examples, now);
}

TEST(EpochFigures, AreThoseOfTheStepsOfTheEpoch) {
  EpochFigures figures(2, 3);
  figures.begin(100 * kOneSecond);
  for (int step = 0; step < 3; ++step) {
    step_done(figures, sums(5, 10), 10, (101 + step) * kOneSecond);
  }
  EXPECT_EQ(figures.at().examples, 30u);
  const EpochDone epoch = figures.end(sums(1, 2));
  EXPECT_EQ(epoch.epoch, 0u);
  EXPECT_EQ(epoch.training, sums(15, 30));
  EXPECT_EQ(epoch.evaluation, sums(1, 2));
  EXPECT_EQ(epoch.examples, 30u);
  EXPECT_EQ(epoch.examples_per_second, 10);
  EXPECT_EQ(epoch.steps, 3u);
  EXPECT_EQ(epoch.seconds, 3);
  figures.next_epoch();
  EXPECT_FALSE(figures.over());
  EXPECT_EQ(figures.at().epoch_step, 3u);
  EXPECT_EQ(figures.at().sums, NamedSums());
  figures.begin(200 * kOneSecond);  // evaluation does not count
  for (int step = 0; step < 3; ++step) step_done(figures, sums(1, 10), 10, (202 + step) * kOneSecond);
  EXPECT_EQ(figures.end({}).seconds, 3 + 4);
  EXPECT_EQ(figures.examples_per_second(), 60. / 7);
  figures.next_epoch();
  EXPECT_TRUE(figures.over());
}

TEST(EpochFigures, GoOnFromACheckpointInTheMidstOfAnEpoch) {
  EpochFigures whole(1, 4), rest(1, 4);
  whole.begin(0);
  step_done(whole, sums(3, 10), 10, kOneSecond);
  step_done(whole, sums(4, 10), 10, 2 * kOneSecond);
  rest.go_on_from(whole.at());
  rest.begin(50 * kOneSecond);
  for (EpochFigures* figures : {&whole, &rest}) {
    SCOPED_TRACE(figures == &whole ? "whole" : "rest");
    const std::int64_t begun = figures == &whole ? 2 * kOneSecond : 50 * kOneSecond;
    step_done(*figures, sums(5, 10), 10, begun + kOneSecond);
    step_done(*figures, sums(6, 10), 10, begun + 2 * kOneSecond);
    const EpochDone epoch = figures->end({});
    EXPECT_EQ(epoch.training, sums(18, 40));
    EXPECT_EQ(epoch.seconds, 4);
    EXPECT_EQ(epoch.examples_per_second, 10);
  }
}

TEST(EpochFigures, OfUnknownLengthHaveNoNumberOfSteps) {
  EpochFigures figures(1, std::nullopt);
  figures.begin(0);
  for (int step = 0; step < 3; ++step) step_done(figures, sums(3, 1), 1, step);
  EXPECT_EQ(figures.steps_per_epoch(), 0u);
}

}  // namespace
}  // namespace troupe::testing
