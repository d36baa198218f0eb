// A model of a program of one's own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/error_of.hpp"
#include "tests/temporary_directory.hpp"
#include <troupe/actors/model/model.hpp>
#include <troupe/graph/builder/builder.hpp>
#include <troupe/scheduler/data/tensor_dataset.hpp>

namespace troupe {
namespace {

using testing::error_of;
using ::testing::HasSubstr;

ProgramOutputs line(ProgramContext& c) {
  const Output slope = c.variable("line/slope", {.shape = {}}, initializers::zeros()).read();
  const Output y = c["x"] * slope;
  return {
      .objectives = {{.loss = mean(squared_difference(y, c["y"])), .optimizer = optimizers::SGD{.learning_rate = 0.1}}},
      .predictions = {{"y", y}, {"twice", y * 2.0}}};
}

TensorDataset points() {
  return TensorDataset({{"x", Tensor::vector<float>({1, 2, 3, -1})}, {"y", Tensor::vector<float>({2, 4, 6, -2})}});
}

TEST(ProgramModel, FitsEvaluatesAndPredicts) {
  Model model(line);
  EXPECT_EQ(error_of([&] { model.evaluate(points()); }).code(), Code::failed_precondition);
  const TrainingResult result = model.fit(points(), points(), {.epochs = 60, .batch = 4, .quiet = true});
  EXPECT_NEAR(model.parameters().at("line/slope").item<float>(), 2, 1e-3);
  EXPECT_LT(result["val_loss"], 1e-5);
  EXPECT_EQ(model.evaluate(points())["loss"], result["val_loss"]);
  const auto predicted = model.predict(points(), 3);
  EXPECT_NEAR(predicted.at("twice").data<float>()[2], 12, 1e-2);
  EXPECT_THAT(error_of([&] { model.predict(Tensor::vector<float>({1})); }).message(), HasSubstr("BatchSource"));
  EXPECT_THAT(error_of([&] { (void)model.summary(); }).message(), HasSubstr("no layers"));
  EXPECT_EQ(error_of([&] { model.compile({.loss = Loss::mean_squared_error}); }).code(), Code::invalid_argument);
}

TEST(ProgramModel, IsLoadedToPredict) {
  testing::TemporaryDirectory directory;
  Model model(line);
  model.fit(points(), {.epochs = 3, .batch = 4, .quiet = true});
  model.save(directory.file("line"));
  Model loaded = Model::load(directory.file("line"));
  EXPECT_EQ(loaded.params_sha256(), model.params_sha256());
  const TensorDataset only_x({{"x", points().tensors()[0]}});  // targets were no input of its predictions
  EXPECT_TRUE(bitwise_equal(loaded.predict(only_x).at("twice"), model.predict(points()).at("twice")));
  EXPECT_TRUE(bitwise_equal(model.predict(points()).at("y"), loaded.predict(points()).at("y")));
  EXPECT_EQ(error_of([&] { loaded.fit(points(), {}); }).code(), Code::failed_precondition);
}

TEST(ProgramModel, FittingTwiceIsFittingLonger) {
  const TrainingOptions options{.epochs = 2, .batch = 2, .quiet = true};
  TrainingOptions whole = options;
  whole.epochs = 4;
  Model once(line), twice(line);
  once.fit(points(), whole);
  twice.fit(points(), options);
  twice.fit(points(), options);
  EXPECT_EQ(twice.params_sha256(), once.params_sha256());
}

}  // namespace
}  // namespace troupe
