#include "troupe/actors/model/estimators.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/error_of.hpp"
#include "tests/temporary_directory.hpp"

namespace troupe {
namespace {

using namespace feature_columns;
using testing::error_of;

constexpr std::int64_t kPeople = 120;

// Who buys (class 2), thinks about it (1) or not (0) follows from age and town; what they pay from the age.
TensorDataset buyers() {
  Tensor age(DType::f32, Shape{kPeople}), paid(DType::f32, Shape{kPeople, 1});
  Tensor town(DType::string, Shape{kPeople}), label(DType::i32, Shape{kPeople});
  for (std::int64_t i = 0; i < kPeople; ++i) {
    const auto years = static_cast<float>(i * 37 % 80);
    const bool is_ulm = i % 3 == 0;
    age.mutable_data<float>()[i] = years / 80;
    town.mutable_data<std::string>()[i] = is_ulm ? "Ulm" : "Bonn";
    label.mutable_data<std::int32_t>()[i] = years < 40 ? 0 : is_ulm ? 2 : 1;
    paid.mutable_data<float>()[i] = 2 * years / 80 + (is_ulm ? 0.5F : 0);
  }
  return TensorDataset({{"age", age}, {"town", town}, {"label", label}, {"paid", paid}});
}

TEST(Estimators, ADeepClassifierLearnsFromAgeAndTown) {
  testing::TemporaryDirectory directory;
  const TensorDataset data = buyers();
  DNNClassifier classifier({.columns = {numeric("age"), embedding(categorical_with_hash("town", 10), 4)},
                            .hidden_units = {16},
                            .classes = 3,
                            .optimizer = optimizers::Adam{.learning_rate = 0.03}});
  classifier.train(data, {.epochs = 60, .batch = 20, .quiet = true});
  EXPECT_GT(classifier.evaluate(data)["accuracy"], 0.95);
  const auto predicted = classifier.predict(data);
  EXPECT_EQ(predicted.at("class_ids").shape(), (Shape{kPeople}));
  const float* row = predicted.at("probabilities").data<float>();
  EXPECT_NEAR(row[0] + row[1] + row[2], 1, 1e-5);
  classifier.export_model(directory.file("model"));
  const auto again = Model::load(directory.file("model"))
                         .predict(TensorDataset({{"age", data.tensors()[0]}, {"town", data.tensors()[1]}}));
  EXPECT_TRUE(bitwise_equal(again.at("logits"), predicted.at("logits")));
}

TEST(Estimators, ALinearRegressorFindsTheFormula) {
  const TensorDataset data = buyers();
  LinearRegressor regressor({.columns = {numeric("age"), categorical_with_vocabulary("town", {"Bonn", "Ulm"})},
                             .label = "paid",
                             .optimizer = optimizers::Adam{.learning_rate = 0.05}});
  regressor.train(data, {.epochs = 100, .batch = 20, .quiet = true});
  const Evaluation seen = regressor.evaluate(data);
  EXPECT_GT(seen["r2_score"], 0.99);
  EXPECT_LT(seen["mean_absolute_error"], 0.1);
  EXPECT_EQ(regressor.predict(data).at("predictions").shape(), (Shape{kPeople, 1}));
}

TEST(Estimators, ALinearClassifierTakesBucketsAndCategories) {
  const TensorDataset data = buyers();
  LinearClassifier classifier(
      {.columns = {bucketized("age", {0.25, 0.5, 0.75}), categorical_with_vocabulary("town", {"Ulm"})},
       .classes = 3,
       .optimizer = optimizers::Adam{.learning_rate = 0.1}});
  classifier.train(data, {.epochs = 60, .batch = 20, .quiet = true});
  EXPECT_GT(classifier.evaluate(data)["accuracy"], 0.95);
}

TEST(Estimators, RefuseWhatMakesNoSense) {
  EXPECT_EQ(error_of([] { DNNClassifier({}); }).code(), Code::invalid_argument);
  EXPECT_EQ(error_of([] { embedding(numeric("x"), 3); }).code(), Code::invalid_argument);
  EXPECT_EQ(error_of([] { LinearRegressor({.columns = {numeric("x")}, .hidden_units = {3}}); }).code(),
            Code::invalid_argument);
  EXPECT_EQ(error_of([] { DNNClassifier({.columns = {numeric("x")}, .classes = 1}); }).code(), Code::invalid_argument);
}

}  // namespace
}  // namespace troupe
