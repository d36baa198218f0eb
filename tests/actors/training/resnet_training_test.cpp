// A small residual network learns, on one process and on several, in f32 and with products of 16 bits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/actors/training/classifying.hpp"
#include "tests/actors/training/few_digits.hpp"
#include "tests/actors/training/job_tasks.hpp"
#include "tests/error_of.hpp"
#include "tests/graph/training/classifier_graph.hpp"
#include "tests/temporary_directory.hpp"
#include <troupe/actors/model/model.hpp>
#include <troupe/actors/session/session.hpp>
#include <troupe/graph/layers/resnet.hpp>
#include <troupe/kernels/readers/digits.hpp>

namespace troupe {
namespace {

using testing::error_of;

// Images of 32x32x3 whose class is the colour that they have most of, among noise.
struct Images {
  Tensor images, labels;
};
Images some_images(std::int64_t count) {
  Images out{Tensor(DType::f32, Shape{count, 32, 32, 3}), Tensor(DType::i32, Shape{count})};
  std::uint32_t random = 7;
  float* pixel = out.images.mutable_data<float>();
  for (std::int64_t i = 0; i < count; ++i) {
    const auto label = static_cast<std::int32_t>(i % 3);
    out.labels.mutable_data<std::int32_t>()[i] = label;
    for (int p = 0; p < 32 * 32; ++p)
      for (std::int32_t channel = 0; channel < 3; ++channel) {
        random = random * 1664525u + 1013904223u;
        *pixel++ = static_cast<float>(random >> 8) / 16777216.0f + (channel == label ? 0.3f : 0.0f);
      }
  }
  return out;
}

Sequential small() { return resnet({.blocks = {1, 1}, .width = 8, .classes = 3}); }

// The losses of some steps.
std::vector<float> train(Sequential model, const SessionOptions& options, const TowerOptions& towers = {.batch = 12}) {
  const testing::ClassifierGraph t =
      testing::classifier_graph(model, Shape{32, 32, 3}, optimizers::Momentum{.learning_rate = 0.02}, towers);
  Session session(*t.graph, options);
  session.run_targets({t.initializer});
  const Callable step = session.callable({t.images[0], t.labels[0]}, {t.loss_sum}, {t.train});
  const Images batch = some_images(12);
  std::vector<float> losses;
  for (int i = 0; i < 8; ++i)
    losses.push_back(static_cast<float>(step({batch.images, batch.labels})[0].item<double>() / 12));
  return losses;
}

void expect_fall(const std::vector<float>& losses) {
  EXPECT_NEAR(losses.front(), std::log(3.0), 0.8);
  EXPECT_LT(losses.back(), 0.5f * losses.front()) << ::testing::PrintToString(losses);
}

TEST(ResNet, LearnsInF32) { expect_fall(train(small(), {})); }

TEST(ResNet, LearnsWithLayersThatComputeIn16Bits) {
  for (const DType precision : {DType::bf16, DType::f16}) {
    Sequential model = small();
    model.set_compute(precision);
    expect_fall(train(model, {}, {.batch = 12, .loss_scaling = LossScaling{.initial = 256}}));
  }
}

TEST(ResNet, LearnsWithThePassForMixedPrecision) { expect_fall(train(small(), {.precision = DType::bf16})); }

// One step of a model on its own inputs, with the loss scaled or not; then its averages.
struct AveragedStep {
  explicit AveragedStep(const TowerOptions& options)
      : t(testing::classifier_graph(Sequential({layers::batch_norm(), layers::dense(2)}), Shape{3}, optimizers::SGD{},
                                    options)),
        session(*t.graph, {}) {
    session.run_targets({t.initializer});
  }
  void step(float first) {
    const Tensor x = Tensor::of<float>({4, 3}, {first, 2, -3, 0.1f, 0.2f, 5, 7, 1, 2, 4, 3, 9});
    session.run({{t.images[0], x}, {t.labels[0], Tensor::vector<std::int32_t>({0, 1, 1, 0})}}, {}, {t.train});
  }
  std::vector<Tensor> averages() {
    return {session.run(find_variable(*t.graph, "batch_norm/mean").read()),
            session.run(find_variable(*t.graph, "batch_norm/variance").read())};
  }
  testing::ClassifierGraph t;
  Session session;
};

// Neither the scale of the loss changes them, nor a step that counts for nothing.
TEST(RunningAverages, OfAScaledLossAreThoseOfAnother) {
  const LossScaling scaling{.initial = 1024};
  AveragedStep plain({}), scaled({.loss_scaling = scaling}), for_shards({.loss_scaling = scaling, .on_shards = true});
  for (AveragedStep* training : {&plain, &scaled, &for_shards}) training->step(1);
  const auto expected = plain.averages();
  for (AveragedStep* training : {&scaled, &for_shards})
    for (std::size_t i = 0; i < 2; ++i) EXPECT_TRUE(bitwise_equal(training->averages()[i], expected[i])) << i;
  scaled.step(std::numeric_limits<float>::infinity());
  for (std::size_t i = 0; i < 2; ++i) EXPECT_TRUE(bitwise_equal(scaled.averages()[i], expected[i])) << i;
  EXPECT_EQ(scaled.session.run(scaled.t.loss_scale->skipped).item<std::int64_t>(), 1);
}

const DataSplits& digits() {
  static const DataSplits data = draw_digits({.train = 320, .test = 60});
  return data;
}

Model normalised() {
  return Model({layers::rescaling(1 / 255.0), layers::conv2d(4, 3, Activation::none, {.use_bias = false}),
                layers::batch_norm(Activation::relu), layers::max_pool(2), layers::flatten(), layers::dense(16),
                layers::layer_norm(), layers::activation(Activation::relu), layers::dense(10)},
               Shape{28, 28, 1}, DType::u8);
}

TEST(NormalisedModel, FitsEvaluatesPredictsSavesAndLoads) {
  testing::TemporaryDirectory directory;
  Model model = normalised();
  model.compile(testing::classifying(optimizers::Adam{.learning_rate = 0.01}));
  std::vector<double> losses;
  const TrainingResult result = model.fit(
      digits(), {.epochs = 6, .batch = 16, .on_epoch = [&](const EpochLogs& e) { losses.push_back(e["loss"]); }});
  EXPECT_LT(losses.back(), losses.front());
  // Also the averages: evaluation while training saw those that evaluate() sees.
  EXPECT_EQ(model.evaluate(digits().test)["accuracy"], result["val_accuracy"]);
  EXPECT_GT(result["val_accuracy"], 0.5);
  const Tensor images = digits().test.images.rows(0, 10).clone();
  const Tensor predicted = model.predict(images);
  model.save(directory.file("m"));
  Model again = Model::load(directory.file("m"));
  EXPECT_TRUE(bitwise_equal(again.predict(images), predicted));
  EXPECT_EQ(again.params_sha256(), result.params_sha256);
}

// With two slots or two workers: the averages are a part of the hash.
TEST(NormalisedModel, HasTheSameBitsWhereverItTrains) {
  const auto fit = [](Task& task, TrainingOptions options) {
    Model model = normalised();
    model.compile(testing::classifying(optimizers::Momentum{.learning_rate = 0.02}), task);
    options.epochs = 2;
    options.batch = 16;
    return model.fit(digits(), options).params_sha256;
  };
  Task alone({.cpu_devices = 2, .threads = 1, .gpus = {.count = 0}});
  const std::string local = fit(alone, {.mode = LocalMode{.slots = 2}});
  testing::JobTasks servers(2, 2);
  EXPECT_THAT(servers.run([&](Task& task) { return fit(task, {.mode = SyncMode{}}); }), ::testing::Contains(local));
  testing::JobTasks ranks(0, 2);
  EXPECT_THAT(ranks.run([&](Task& task) { return fit(task, {.mode = AllReduceMode{}}); }), ::testing::Each(local));
}

TEST(NormalisedModel, GoesOnFromACheckpointWithItsBits) {
  testing::TemporaryDirectory directory;
  const auto fit = [&](int epochs, bool saves) {
    Model model = normalised();
    model.compile(testing::classifying(optimizers::Momentum{.learning_rate = 0.02}));
    TrainingOptions options{.epochs = epochs, .batch = 16};
    if (saves) options.checkpoint = directory.file("job");
    return model.fit(digits(), options).params_sha256;
  };
  const std::string whole = fit(2, false);
  fit(1, true);
  EXPECT_EQ(fit(2, true), whole);
}

}  // namespace
}  // namespace troupe
