// Local training against a plain loop. What clusters come to is in cluster_test.cpp.
#include <gtest/gtest.h>

#include "tests/actors/training/classifying.hpp"
#include "tests/apps/training_oracle.hpp"
#include <troupe/actors/model/model.hpp>
#include <troupe/kernels/readers/digits.hpp>

namespace troupe {
namespace {

using testing::OracleOptions;
using testing::trained_by_hand;

Sequential mlp() {
  return Sequential(
      {layers::rescaling(1 / 255.0), layers::flatten(), layers::dense(128, Activation::relu), layers::dense(10)});
}

std::string trained_by_model(const DataSplits& data, const OracleOptions& options, int devices = 1, int threads = 1,
                             const Schedule& rate = 1e-3) {
  Task task({.cpu_devices = devices, .threads = threads});
  Model model(mlp(), Shape{28, 28, 1}, DType::u8);
  model.compile(testing::classifying(optimizers::Adam{.learning_rate = rate},
                                     {.precision = options.precision, .clipping = {.global_norm = options.clip_norm}}),
                task);
  return model
      .fit(data, {.mode = LocalMode{.slots = options.slots},
                  .epochs = options.epochs,
                  .batch = options.batch,
                  .micro_batches = options.micro_batches,
                  .seed = options.seed})
      .params_sha256;
}

class Oracle : public ::testing::TestWithParam<int> {};

TEST_P(Oracle, LocalTrainingIsThePlainLoopBitByBit) {
  const DataSplits data = draw_digits({.train = 600, .test = 100});
  const OracleOptions options{.slots = GetParam()};
  const std::string expected = params_sha256(trained_by_hand(data.train, options));
  EXPECT_EQ(trained_by_model(data, options), expected);
  EXPECT_EQ(trained_by_model(data, options, GetParam(), 2), expected) << "with a device for each slot";
}
INSTANTIATE_TEST_SUITE_P(Slots, Oracle, ::testing::Values(1, 2, 3));

// 1 / batch is no power of two, and the last examples of an epoch do not fill a step.
TEST(OracleOfOtherSizes, AnUnevenBatchAndAnotherSeed) {
  const DataSplits data = draw_digits({.train = 100, .test = 10});
  const OracleOptions options{.slots = 2, .batch = 7, .epochs = 3, .seed = 0x123456789abcdef};
  EXPECT_EQ(trained_by_model(data, options), params_sha256(trained_by_hand(data.train, options)));
}

TEST(OracleOfMixedPrecision, ProductsInSixteenBitsAndTheRestInF32) {
  const DataSplits data = draw_digits({.train = 200, .test = 20});
  for (const DType precision : {DType::bf16, DType::f16})
    for (const int slots : {1, 2}) {
      const OracleOptions options{.slots = slots, .precision = precision};
      const std::string expected = params_sha256(trained_by_hand(data.train, options));
      EXPECT_EQ(trained_by_model(data, options), expected) << name(precision) << ", slots " << slots;
      EXPECT_EQ(trained_by_model(data, options, slots, 2), expected) << "on more threads and devices";
    }
}

TEST(OracleOfSchedules, TheRateFollowsTheNumberOfTheUpdate) {
  const DataSplits data = draw_digits({.train = 600, .test = 20});
  const auto falls_after_warm_up = [](std::int64_t t) {
    return t < 4     ? 2e-3 * static_cast<double>(t + 1) / 4
           : t >= 12 ? 5e-4
                     : 5e-4 + 1.5e-3 * (1 - static_cast<double>(t - 4) / 8);
  };
  const Schedule schedule = Schedule(schedules::Polynomial{.rate = 2e-3, .end = 5e-4, .steps = 8}).after_warm_up(4);
  for (const int slots : {1, 2}) {
    const OracleOptions options{.slots = slots, .learning_rate = falls_after_warm_up};
    const std::string expected = params_sha256(trained_by_hand(data.train, options));
    EXPECT_EQ(trained_by_model(data, options, 1, 1, schedule), expected) << slots;
    EXPECT_EQ(trained_by_model(data, options, slots, 2, schedule), expected) << "on more threads and devices";
  }
}

TEST(OracleOfMicroBatches, GradientsAreAddedFromTheFirstOnAndDividedOnce) {
  const DataSplits data = draw_digits({.train = 300, .test = 20});
  for (const int parts : {2, 3})
    for (const int slots : {1, 2}) {
      const OracleOptions options{
          .slots = slots, .batch = 24, .micro_batches = parts, .clip_norm = slots == 2 ? 0.5 : 0};
      const std::string expected = params_sha256(trained_by_hand(data.train, options));
      EXPECT_EQ(trained_by_model(data, options), expected) << parts << " parts, slots " << slots;
      EXPECT_EQ(trained_by_model(data, options, slots, 2), expected) << "on more threads and devices";
    }
}

TEST(OracleOfClipping, EachSlotIsClippedByItself) {
  const DataSplits data = draw_digits({.train = 200, .test = 20});
  const std::string unclipped = trained_by_model(data, {.slots = 2});
  for (const DType precision : {DType::f32, DType::f16})
    for (const int slots : {1, 2}) {
      const OracleOptions options{.slots = slots, .clip_norm = 0.5, .precision = precision};
      const std::string expected = params_sha256(trained_by_hand(data.train, options));
      EXPECT_NE(expected, unclipped) << name(precision) << ", slots " << slots;
      EXPECT_EQ(trained_by_model(data, options), expected) << name(precision) << ", slots " << slots;
      EXPECT_EQ(trained_by_model(data, options, slots, 2), expected) << "on more threads and devices";
    }
  const OracleOptions loose{.slots = 2, .clip_norm = 1e9};
  EXPECT_EQ(trained_by_model(data, loose), unclipped);
}

}  // namespace
}  // namespace troupe
