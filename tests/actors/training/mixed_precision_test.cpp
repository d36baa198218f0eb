// Scaled losses and 16-bit products in sessions and models.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/actors/training/classifying.hpp"
#include "tests/error_of.hpp"
#include "tests/graph/training/classifier_graph.hpp"
#include <troupe/actors/model/model.hpp>
#include <troupe/actors/session/session.hpp>
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/optimizers/optimizers.hpp>
#include <troupe/kernels/readers/digits.hpp>

namespace troupe {
namespace {

using testing::error_of;
using ::testing::HasSubstr;

const std::vector<Optimizer> kOptimizers = {optimizers::SGD{}, optimizers::Momentum{}, optimizers::Adagrad{},
                                            optimizers::RMSProp{.momentum = 0.5}, optimizers::Adam{}};
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Of sum(w x) and sum(row 1 of a table), whose gradients are x and sparse.
struct Scaled {
  explicit Scaled(const Optimizer& optimizer, LossScaling scaling = {}) : scale(loss_scale(graph, scaling)) {
    train = minimize_scaled(loss(), optimizer, scale);
    start();
  }
  explicit Scaled(const Optimizer& optimizer, std::nullopt_t) {
    train = minimize(loss(), optimizer);
    start();
  }

  void step(float x0) { session->run({{x, Tensor::vector<float>({x0, -2})}}, {}, {train}); }
  // Every variable but those of the scale.
  std::map<std::string, Tensor> state() {
    std::map<std::string, Tensor> out;
    for (const VariableInfo& v : variables(graph))
      if (!v.name.starts_with("loss_scale/")) out[v.name] = session->run(find_variable(graph, v.name).read());
    return out;
  }
  float scale_now() { return session->run(scale.scale).item<float>(); }
  std::int64_t skipped() { return session->run(scale.skipped).item<std::int64_t>(); }
  double good() { return session->run(scale.state.read()).values<double>()[1]; }

  Graph graph;
  Output x;
  LossScale scale;
  Output train;
  std::unique_ptr<Session> session;

 private:
  Output loss() {
    x = placeholder(graph, DType::f32, Shape{2}, "x");
    const VariableRef w = variable(graph, {.name = "w", .initial_value = constant(graph, {1.0f, 0.3f})});
    const VariableRef table = variable(graph, {.name = "table", .initial_value = random_normal(graph, Shape{3, 2})});
    return sum(w.read() * x) + sum(square(gather(table.read(), constant(graph, {std::int64_t{1}}))));
  }
  void start() {
    const Output init = initializer(graph);
    session = std::make_unique<Session>(graph);
    session->run_targets({init});
  }
};

void expect_equal(const std::map<std::string, Tensor>& a, const std::map<std::string, Tensor>& b,
                  const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (const auto& [name, value] : a) EXPECT_TRUE(bitwise_equal(value, b.at(name))) << what << ": " << name;
}

TEST(LossScaling, GoodStepsHaveTheBitsOfStepsWithoutIt) {
  for (const Optimizer& optimizer : kOptimizers) {
    Scaled scaled(optimizer, {.initial = 1024, .growth_interval = 2}), plain(optimizer, std::nullopt);
    for (float x : {0.7f, -1.3f, 1e-3f, 5.5f}) {
      scaled.step(x);
      plain.step(x);
    }
    expect_equal(plain.state(), scaled.state(), name(optimizer));
    EXPECT_EQ(scaled.scale_now(), 4096) << name(optimizer);
  }
}

TEST(LossScaling, AStepWithAGradientThatIsNotFiniteChangesNothing) {
  for (const Optimizer& optimizer : kOptimizers) {
    Scaled s(optimizer, {.initial = 1024});
    s.step(1);
    const auto before = s.state();
    for (float bad : {kInfinity, -kInfinity, std::nanf("")}) {
      s.step(bad);
      expect_equal(before, s.state(), fmt::format("{} after {}", name(optimizer), bad));
    }
    EXPECT_EQ(s.skipped(), 3) << name(optimizer);
    // It goes on as if they had not been.
    s.step(3);
    Scaled other(optimizer, std::nullopt);
    other.step(1);
    other.step(3);
    expect_equal(other.state(), s.state(), name(optimizer));
  }
}

// 2e38 is finite, and so is the loss; what is not is its scaled gradient.
TEST(LossScaling, AnOverflowOfTheScaleIsOneOfTheStep) {
  Scaled s(optimizers::SGD{}, {.initial = 16});
  const auto before = s.state();
  s.step(2e38f);
  expect_equal(before, s.state(), "scale 16");
  EXPECT_EQ(s.scale_now(), 8);
}

TEST(LossScaling, TheScaleHalvesAndDoubles) {
  Scaled s(optimizers::SGD{}, {.initial = 4, .growth_interval = 3});
  std::vector<float> scales;
  for (float x : {1.0f, 1.0f, kInfinity, 1.0f, 1.0f, 1.0f, 1.0f, kInfinity, kInfinity, kInfinity, kInfinity}) {
    s.step(x);
    scales.push_back(s.scale_now());
  }
  EXPECT_EQ(scales, (std::vector<float>{4, 4, 2, 2, 2, 4, 4, 2, 1, 1, 1}));
  EXPECT_EQ(s.skipped(), 5);
  EXPECT_EQ(s.good(), 0);
  s.step(1);
  EXPECT_EQ(s.good(), 1);
}

TEST(LossScaling, TheScaleHasALimit) {
  Scaled s(optimizers::SGD{}, {.initial = 8388608, .growth_interval = 1});
  for (int i = 0; i < 3; ++i) s.step(1);
  EXPECT_EQ(s.scale_now(), 16777216);
}

TEST(LossScaling, AStaticScaleStays) {
  Scaled s(optimizers::SGD{}, {.initial = 4, .dynamic = false, .growth_interval = 1});
  for (float x : {1.0f, 1.0f, kInfinity}) s.step(x);
  EXPECT_EQ(s.scale_now(), 4);
  EXPECT_EQ(s.skipped(), 1);
}

// One bad micro-batch of several: the step counts for none.
TEST(LossScaling, OneBadSlotSkipsTheStepOfAll) {
  Task task({.cpu_devices = 2, .threads = 1});
  const testing::ClassifierGraph t =
      testing::classifier_graph(Sequential({layers::dense(3)}), Shape{2}, optimizers::Adam{},
                                {.slots = 2,
                                 .devices = {"/job:local/task:0/device:CPU:0", "/job:local/task:0/device:CPU:1"},
                                 .loss_scaling = LossScaling{}});
  Session session(task, *t.graph);
  session.run_targets({t.initializer});
  const Tensor good = Tensor::of<float>({1, 2}, {1, 2}), bad = Tensor::of<float>({1, 2}, {1, kInfinity});
  const Tensor label = Tensor::vector<std::int32_t>({1});
  const auto step = [&](const Tensor& second) {
    session.run({{t.images[0], good}, {t.images[1], second}, {t.labels[0], label}, {t.labels[1], label}},
                std::vector<Output>{}, {t.train});
    std::vector<Tensor> out;
    for (const VariableRef& v : t.parameters) out.push_back(session.run(v.read()));
    return out;
  };
  const auto before = step(good), after = step(bad), later = step(good);
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_TRUE(bitwise_equal(before[i], after[i])) << t.parameters[i].name;
    EXPECT_FALSE(bitwise_equal(after[i], later[i])) << t.parameters[i].name;
  }
  EXPECT_EQ(session.run(t.loss_scale->skipped).item<std::int64_t>(), 1);
}

TEST(MixedPrecisionSession, ExplainsWhatItDid) {
  Graph g;
  const Output x = placeholder(g, DType::f32, Shape{4, 4}, "x");
  const Output y = matmul(x, x);
  EXPECT_THAT(Session(g, {.precision = DType::bf16}).explain({x}, {y}), HasSubstr("mixed precision bf16: "));
  EXPECT_THAT(Session(g).explain({x}, {y}), ::testing::Not(HasSubstr("mixed precision")));
  Session wrong(g, {.precision = DType::f64});
  EXPECT_EQ(error_of([&] { wrong.run({{x, Tensor::zeros(DType::f32, {4, 4})}}, y); }).code(), Code::invalid_argument);
}

// relu(x w) w, with the casts that a session in `precision` puts in, or without.
struct Products {
  explicit Products(DType by_hand = DType::f32) {
    const auto narrow = [&](Output o) { return cast(o, by_hand); };
    y = cast(matmul(relu(matmul(narrow(x), narrow(w))), narrow(w)), DType::f32);
  }
  Tensor run(Session& session) {
    std::vector<float> values(37 * 48);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = 0.01f * static_cast<float>((i * 7919) % 251);
    return session.run({{x, Tensor::of<float>({37, 48}, values)}}, {y}, {}, {.random_step = 0})[0];
  }

  Graph g;
  Output x = placeholder(g, DType::f32, Shape{kUnknown, 48}, "x");
  Output w = random_normal(g, Shape{48, 48}, 0, 1, {.name = "w"});
  Output y;
};

TEST(MixedPrecisionSession, ComputesWhatCastsByHandDo) {
  for (const DType precision : {DType::bf16, DType::f16}) {
    Products plain, by_hand(precision);
    Session session(plain.g, {.precision = precision}), expected(by_hand.g), wide(plain.g);
    const Tensor got = plain.run(session);
    EXPECT_EQ(got.dtype(), DType::f32) << name(precision);
    EXPECT_TRUE(bitwise_equal(got, by_hand.run(expected))) << name(precision);
    EXPECT_FALSE(bitwise_equal(got, plain.run(wide))) << name(precision);
    // The order of passes and threads changes nothing.
    Task threads({.cpu_devices = 1, .threads = 3});
    Session three(threads, plain.g, {.precision = precision}),
        bare(plain.g, {.optimize = false, .precision = precision});
    EXPECT_TRUE(bitwise_equal(got, plain.run(three))) << name(precision);
    EXPECT_TRUE(bitwise_equal(got, plain.run(bare))) << name(precision);
  }
}

// The whole step: gradients come back through the casts, variables stay in f32.
TEST(MixedPrecisionSession, Trains) {
  const testing::ClassifierGraph t =
      testing::classifier_graph(Sequential({layers::dense(16, Activation::relu), layers::dense(3)}), Shape{4},
                                optimizers::Adam{.learning_rate = 0.05});
  Session session(*t.graph, {.precision = DType::bf16});
  session.run_targets({t.initializer});
  const Feeds feeds = {{t.images[0], Tensor::of<float>({3, 4}, {1, 0, 0, 1, 0, 1, 0, 1, 0, 0, 1, 1})},
                       {t.labels[0], Tensor::vector<std::int32_t>({0, 1, 2})}};
  float loss = 0;
  for (int i = 0; i < 60; ++i) loss = session.run(feeds, {t.loss_sum}, {t.train})[0].item<double>();
  EXPECT_LT(loss, 0.3f);
  EXPECT_EQ(session.run(t.parameters[0].read()).dtype(), DType::f32);
}

Model narrow_model() {
  return Model(
      {layers::rescaling(1 / 255.0), layers::flatten(), layers::dense(16, Activation::relu), layers::dense(10)},
      Shape{28, 28, 1}, DType::u8);
}

TEST(MixedPrecisionModel, RefusesWhatCannotBe) {
  Model model = narrow_model();
  EXPECT_EQ(
      error_of([&] { model.compile(testing::classifying(optimizers::Adam{}, {.precision = DType::f64})); }).code(),
      Code::invalid_argument);
}

TEST(MixedPrecisionModel, LearnsAsWellAsInF32) {
  const DataSplits data = draw_digits({.train = 600, .test = 200});
  std::map<DType, double> accuracy;
  for (const DType precision : {DType::f32, DType::bf16, DType::f16}) {
    Model model = narrow_model();
    model.compile(testing::classifying(optimizers::Adam{.learning_rate = 0.01}, {.precision = precision}));
    const TrainingResult result = model.fit(data, {.epochs = 4, .batch = 20});
    accuracy[precision] = result["val_accuracy"];
    EXPECT_EQ(model.evaluate(data.test)["accuracy"], result["val_accuracy"]) << name(precision);
    EXPECT_EQ(result.loss_scale > 0, precision == DType::f16) << name(precision);
    EXPECT_EQ(result.skipped_steps, 0u) << name(precision);
  }
  EXPECT_GT(accuracy[DType::f32], 0.6);
  EXPECT_NEAR(accuracy[DType::bf16], accuracy[DType::f32], 0.04);
  EXPECT_NEAR(accuracy[DType::f16], accuracy[DType::f32], 0.04);
}

TEST(MixedPrecisionModel, ConvolutionsTooWithTheSameBitsOnAnyThreads) {
  const DataSplits data = draw_digits({.train = 200, .test = 20});
  for (const DType precision : {DType::bf16, DType::f16}) {
    std::vector<std::string> hashes;
    std::vector<double> losses;
    for (const int threads : {1, 3}) {
      Task task({.cpu_devices = 1, .threads = threads});
      Model model({layers::rescaling(1 / 255.0), layers::conv2d(4, 3, Activation::relu), layers::max_pool(2),
                   layers::flatten(), layers::dropout(0.1), layers::dense(10)},
                  Shape{28, 28, 1}, DType::u8);
      model.compile(testing::classifying(optimizers::Adam{.learning_rate = 0.01}, {.precision = precision}), task);
      const auto keep = [&](const EpochLogs& e) { losses.push_back(e["loss"]); };
      hashes.push_back(model.fit(data, {.epochs = 2, .batch = 20, .on_epoch = keep}).params_sha256);
    }
    EXPECT_EQ(hashes[0], hashes[1]) << name(precision);
    EXPECT_LT(losses[1], losses[0]) << name(precision);
  }
}

// A scale that is too large for f16 comes down by itself.
TEST(MixedPrecisionModel, FindsAScaleThatFits) {
  const DataSplits data = draw_digits({.train = 200, .test = 20});
  Model model = narrow_model();
  model.compile(testing::classifying(optimizers::Adam{.learning_rate = 0.01},
                                     {.precision = DType::f16, .loss_scaling = {.initial = 16777216}}));
  const TrainingResult result = model.fit(data, {.epochs = 3, .batch = 10});
  EXPECT_GT(result.skipped_steps, 0u);
  EXPECT_LT(result.skipped_steps, 20u);
  EXPECT_EQ(result.loss_scale, std::ldexp(16777216, -static_cast<int>(result.skipped_steps)));
  EXPECT_GT(result["val_accuracy"], 0.3);
}

}  // namespace
}  // namespace troupe
