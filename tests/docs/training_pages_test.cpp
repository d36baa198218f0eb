// What the programs of docs/guide/training-anything.md and language.md learn.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <random>

#include "tests/temporary_directory.hpp"
#include <troupe/troupe.hpp>

namespace troupe {
namespace {

using ::testing::HasSubstr;

TEST(TrainingPages, RegressionExplainsNineTenthsOfTheVariance) {
  ::testing::internal::CaptureStdout();
#include <pages/any_regression.inc>
  EXPECT_THAT(::testing::internal::GetCapturedStdout(), HasSubstr("R2"));
  EXPECT_GE(model.evaluate(test)["r2_score"], 0.9);
}

TEST(TrainingPages, LabelsFollowFromWords) {
  ::testing::internal::CaptureStdout();
#include <pages/any_labels.inc>
  EXPECT_THAT(::testing::internal::GetCapturedStdout(), HasSubstr("F1"));
  EXPECT_GT(model.evaluate(test)["f1"], 0.99);
}

// The number of images that a trained classifier takes for each digit. f32 [n, 784], from 0 to 1.
std::vector<int> digits_found(const Tensor& images) {
  const DataSplits digits = draw_digits({.train = 4000, .test = 500});
  Model model({layers::rescaling(1 / 255.0), layers::flatten(), layers::dense(64, Activation::relu), layers::dense(10)},
              Shape{28, 28, 1}, DType::u8);
  model.compile({.loss = Loss::sparse_softmax_cross_entropy, .metrics = {metrics::accuracy()}});
  model.fit(digits, {.epochs = 5, .quiet = true});
  EXPECT_GT(model.evaluate(digits.test)["accuracy"], 0.9);
  Tensor bytes(DType::u8, Shape{images.shape().dim(0), 28, 28, 1});
  std::ranges::transform(images.values<float>(), bytes.mutable_data<std::uint8_t>(),
                         [](float v) { return static_cast<std::uint8_t>(std::lround(255 * v)); });
  std::vector<int> found(10);
  const Tensor logits = model.predict(bytes);
  for (const float* row = logits.data<float>(); row != logits.data<float>() + logits.num_elements(); row += 10)
    ++found[std::max_element(row, row + 10) - row];
  return found;
}

TEST(TrainingPages, AGanDrawsAllTenDigits) {
#include <pages/any_gan.inc>
  EXPECT_THAT(digits_found(images), ::testing::Each(::testing::Ge(10)));
}

TEST(TrainingPages, FineTuningLeavesFrozenBytesAsTheyWere) {
  testing::TemporaryDirectory directory;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(directory.path());
  ::testing::internal::CaptureStdout();
#include <pages/any_fine_tuning.inc>
  EXPECT_THAT(::testing::internal::GetCapturedStdout(), HasSubstr("Accuracy"));
  std::filesystem::current_path(before);
  for (const char* name : {"body/kernel", "body/bias"})
    EXPECT_TRUE(bitwise_equal(student.parameters().at(name), teacher.parameters().at(name))) << name;
  EXPECT_GT(student.evaluate(parity)["binary_accuracy"], 0.9);
}

// Tokens 0 to 9, again and again, from any one on.
TEST(TrainingPages, AGeneratorGoesOnCounting) {
  Tensor now(DType::i64, Shape{320, 12}), next(DType::i64, Shape{320, 12});
  for (std::int64_t i = 0; i < now.num_elements(); ++i) {
    now.mutable_data<std::int64_t>()[i] = (i / 12 + i % 12) % 10;
    next.mutable_data<std::int64_t>()[i] = (i / 12 + i % 12 + 1) % 10;
  }
  const TensorDataset counting({{"ids", now}, {"next", next}});
#include <pages/generate.inc>
  EXPECT_THAT(likely, ::testing::ElementsAre(6, 7, 8, 9, 0, 1, 2, 3, 4, 5));
  EXPECT_EQ(best, likely);
  EXPECT_EQ(drawn.size(), 10u);
}

}  // namespace
}  // namespace troupe
