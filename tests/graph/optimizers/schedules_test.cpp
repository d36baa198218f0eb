#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/error_of.hpp"
#include "tests/graph/messages.hpp"
#include <troupe/graph/formats/text_call.hpp>
#include <troupe/graph/optimizers/optimizers.hpp>
#include <troupe/graph/optimizers/schedules.hpp>

namespace troupe {
namespace {

using namespace schedules;
using testing::error_of;
using testing::message_of;

const std::vector<Schedule>& examples() {
  static const std::vector<Schedule> all = {
      0.25,
      Step{.rate = 1, .every = 10},
      Piecewise{.rates = {1, 0.5, 0.125}, .from = {3, 10}},
      Exponential{.rate = 2, .factor = 0.9, .every = 4},
      Cosine{.rate = 1, .end = 0.25, .steps = 100},
      Polynomial{.rate = 1, .end = 0.5, .power = 2, .steps = 10},
      Schedule(Cosine{.rate = 1, .steps = 100}).after_warm_up(7),
      Schedule(0.5).after_warm_up(2),
      Mean{.start = 10, .every = 4},
  };
  return all;
}

TEST(Schedule, OneNumberIsConstant) {
  const Schedule rate = 1e-3;
  EXPECT_TRUE(rate.is_constant());
  for (const std::int64_t t : {0, 1, 1'000'000}) EXPECT_EQ(rate.rate(t), 1e-3) << t;
  EXPECT_EQ(optimizers::Adam{}.learning_rate.rate(0), 1e-3);
  EXPECT_FALSE(Schedule(Cosine{.rate = 1, .steps = 3}).is_constant());
  EXPECT_FALSE(Schedule(1e-3).after_warm_up(1).is_constant());
}

TEST(Schedule, StepFallsAllAtOnce) {
  const Schedule rate = Step{.rate = 0.5, .factor = 0.25, .every = 10};
  EXPECT_EQ(rate.rate(0), 0.5);
  EXPECT_EQ(rate.rate(9), 0.5);
  EXPECT_EQ(rate.rate(10), 0.125);
  EXPECT_EQ(rate.rate(29), 0.03125);
}

TEST(Schedule, PiecewiseChangesFromTheGivenUpdatesOn) {
  const Schedule rate = Piecewise{.rates = {1, 0.5, 0.125}, .from = {3, 10}};
  EXPECT_EQ(rate.rate(0), 1);
  EXPECT_EQ(rate.rate(2), 1);
  EXPECT_EQ(rate.rate(3), 0.5);
  EXPECT_EQ(rate.rate(9), 0.5);
  EXPECT_EQ(rate.rate(10), 0.125);
  EXPECT_EQ(rate.rate(1'000'000'000'000), 0.125);
}

TEST(Schedule, ExponentialFallsByTheFactorEverySoManyUpdates) {
  const Schedule rate = Exponential{.rate = 2, .factor = 0.9, .every = 4};
  for (const int t : {0, 1, 4, 6, 100}) EXPECT_DOUBLE_EQ(rate.rate(t), 2 * std::exp(std::log(0.9) * t / 4)) << t;
}

TEST(Schedule, CosineAndPolynomialEndWhereTheyShould) {
  const Schedule cosine = Cosine{.rate = 1, .end = 0.25, .steps = 100};
  EXPECT_EQ(cosine.rate(0), 1);
  EXPECT_DOUBLE_EQ(cosine.rate(50), 0.625);
  EXPECT_DOUBLE_EQ(cosine.rate(25), 0.25 + 0.375 * (1 + std::sqrt(0.5)));
  for (const int t : {100, 101, 100000}) EXPECT_EQ(cosine.rate(t), 0.25) << t;
  const Schedule polynomial = Polynomial{.rate = 1, .end = 0.5, .power = 2, .steps = 10};
  EXPECT_EQ(polynomial.rate(0), 1);
  EXPECT_DOUBLE_EQ(polynomial.rate(4), 0.5 + 0.5 * 0.36);
  for (const int t : {10, 11, 100000}) EXPECT_EQ(polynomial.rate(t), 0.5) << t;
}

// Moved at these rates, an average of 2, 4, 6, ... from the fourth on is that of every third of them.
TEST(Schedule, MeanIsOneOverTheNumberOfValues) {
  const Schedule rate = Mean{.start = 3, .every = 3};
  double average = -1, sum = 0;
  int count = 0;
  for (std::int64_t t = 0; t < 100; ++t) {
    const auto value = static_cast<double>(2 * t + 2);
    average -= rate.rate(t) * (average - value);
    if (t >= 3 && t % 3 == 0) sum += value, ++count;
    EXPECT_NEAR(average, count == 0 ? -1 : sum / count, 1e-12) << t;
  }
}

TEST(Schedule, AWarmUpClimbsToTheFirstRateAndTheScheduleBeginsAfterIt) {
  const Schedule inner = Step{.rate = 1, .factor = 0.5, .every = 2};
  const Schedule rate = inner.after_warm_up(4);
  for (const int t : {0, 1, 2, 3}) EXPECT_EQ(rate.rate(t), 0.25 * (t + 1)) << t;
  for (const int t : {0, 1, 2, 3, 17}) EXPECT_EQ(rate.rate(4 + t), inner.rate(t)) << t;
}

TEST(Schedule, IsRoundedOnceToTheDtype) {
  const Schedule rate = Exponential{.rate = 0.1, .factor = 0.7};
  EXPECT_EQ(rate.rate(3, DType::f64).item<double>(), rate.rate(3));
  EXPECT_EQ(rate.rate(3, DType::f32).item<float>(), static_cast<float>(rate.rate(3)));
  EXPECT_THROW(rate.rate(3, DType::i64), Error);
}

TEST(Schedule, AttributesHoldAllOfIt) {
  for (const Schedule& schedule : examples()) {
    const Schedule again = Schedule::of(schedule.attributes());
    EXPECT_EQ(again.to_string(), schedule.to_string());
    for (std::int64_t t = 0; t < 300; ++t) EXPECT_EQ(again.rate(t), schedule.rate(t)) << schedule.to_string();
  }
}

TEST(Schedule, TextHoldsAllOfIt) {
  for (const Schedule& schedule : examples()) {
    const Schedule again = Schedule::of(schedule.to_text());
    EXPECT_EQ(again.to_string(), schedule.to_string());
    EXPECT_EQ(again.course().index(), schedule.course().index());
    for (std::int64_t t = 0; t < 300; ++t) EXPECT_EQ(again.rate(t), schedule.rate(t)) << schedule.to_string();
  }
}

TEST(Schedule, TextThatIsNoScheduleIsRefused) {
  const auto error = [](const char* text) { return error_of([&] { Schedule::of(parse_call(text)); }).to_string(); };
  EXPECT_EQ(error("sine(rate=1)"), "invalid_argument: unknown learning rate schedule 'sine'");
  EXPECT_EQ(error("cosine(rate=1, stop=2, steps=3)"), "invalid_argument: cosine has no option 'stop'");
  EXPECT_EQ(error("cosine(rate=1, steps=3.5)"), "invalid_argument: cosine: steps must be an integer, not 3.5");
  EXPECT_EQ(error("cosine(rate=1)"), "invalid_argument: learning rate: cosine: steps must be 1 or more, not 0");
  EXPECT_EQ(error_of([&] { Schedule::of("fast"); }).to_string(),
            "invalid_argument: a learning rate must be a number or a schedule, not \"fast\"");
}

TEST(Schedule, SaysWhatItIs) {
  EXPECT_EQ(Schedule(1e-3).to_string(), "0.001");
  EXPECT_EQ(examples()[1].to_string(), "step(rate=1, factor=0.1, every=10)");
  EXPECT_EQ(examples()[2].to_string(), "piecewise(rates=[1, 0.5, 0.125], from=[3, 10])");
  EXPECT_EQ(examples()[6].to_string(), "cosine(rate=1, end=0, steps=100, warm_up=7)");
  EXPECT_EQ(examples()[7].to_string(), "constant(rate=0.5, warm_up=2)");
}

TEST(Schedule, WhatMakesNoSenseIsNamed) {
  for (const Schedule& schedule : examples()) EXPECT_EQ(schedule.problem(), "") << schedule.to_string();
  EXPECT_EQ(Schedule(-1.0).problem(), "constant: rate must be 0 or more, not -1");
  EXPECT_EQ(Schedule(std::numeric_limits<double>::infinity()).problem(), "constant: rate must be 0 or more, not inf");
  EXPECT_EQ(Schedule(Step{.rate = 1}).problem(), "step: every must be 1 or more, not 0");
  EXPECT_EQ(Schedule(Step{.rate = 1, .factor = 0, .every = 1}).problem(), "step: factor must be positive, not 0");
  EXPECT_EQ(Schedule(Cosine{.rate = 1}).problem(), "cosine: steps must be 1 or more, not 0");
  EXPECT_EQ(Schedule(Polynomial{.rate = 1, .power = -1, .steps = 1}).problem(),
            "polynomial: power must be positive, not -1");
  EXPECT_EQ(Schedule(Piecewise{.rates = {1}, .from = {3}}).problem(),
            "piecewise: there must be one more rate than changes, not 1 rates and 1 changes");
  EXPECT_EQ(Schedule(Piecewise{.rates = {1, 2, 3}, .from = {3, 3}}).problem(),
            "piecewise: changes must come at increasing times, not at 3 and then 3");
  EXPECT_EQ(Schedule(Piecewise{.rates = {1, 2}, .from = {0}}).problem(), "piecewise: from must be 1 or more, not 0");
  EXPECT_EQ(Schedule(Mean{.start = -1}).problem(), "mean: start must be 0 or more, not -1");
  EXPECT_EQ(Schedule(Mean{.every = 0}).problem(), "mean: every must be 1 or more, not 0");
  EXPECT_EQ(Schedule(1.0).after_warm_up(-1).problem(), "constant: the warm-up must be 0 updates or more, not -1");
}

// They come with graphs, from anybody.
TEST(Schedule, AttributesThatAreNoneAreRefused) {
  const auto error = [](const char* key, AttrValue value) {
    Attributes attributes = Schedule(Cosine{.rate = 1, .steps = 100}).attributes();
    attributes.set(key, std::move(value));
    return message_of([&] { Schedule::of(attributes); });
  };
  EXPECT_EQ(error("schedule", std::string("sine")), "unknown learning rate schedule 'sine'");
  EXPECT_EQ(error("reals", std::vector<double>{1}), "a learning rate schedule has too few numbers");
  EXPECT_EQ(error("reals", std::vector<double>{1, 0, 0}), "a learning rate schedule has too many numbers");
  EXPECT_EQ(error("integers", std::vector<std::int64_t>{}), "a learning rate schedule has too few numbers");
  EXPECT_EQ(error("integers", std::vector<std::int64_t>{0}), "learning rate: cosine: steps must be 1 or more, not 0");
  EXPECT_EQ(error("warm_up", std::int64_t{-1}), "learning rate: cosine: the warm-up must be 0 updates or more, not -1");
}

}  // namespace
}  // namespace troupe
