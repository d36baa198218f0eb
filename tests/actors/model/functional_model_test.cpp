// Models with several inputs and outputs: losses, weights and metrics by output.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "tests/actors/training/job_tasks.hpp"
#include "tests/error_of.hpp"
#include <troupe/actors/model/model.hpp>
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/metrics/classes.hpp>
#include <troupe/graph/metrics/scores.hpp>
#include <troupe/scheduler/data/tensor_dataset.hpp>

namespace troupe {
namespace {

using testing::error_of;
using ::testing::HasSubstr;

constexpr std::int64_t kExamples = 60;

// Points with an age; their class (of 3) and risk follow from both. Examples of class 2 weigh twice.
TensorDataset people() {
  std::mt19937 random(7);
  std::vector<float> points, ages, risks, weights;
  std::vector<std::int32_t> classes;
  for (std::int64_t i = 0; i < kExamples; ++i) {
    const float a = static_cast<float>(random() % 1000) / 500 - 1, b = static_cast<float>(random() % 1000) / 500 - 1;
    const float age = static_cast<float>(random() % 100) / 100;
    points.insert(points.end(), {a, b});
    ages.push_back(age);
    risks.push_back(a + 2 * age);
    classes.push_back(a > 0.3F ? 2 : b > 0 ? 1 : 0);
    weights.push_back(classes.back() == 2 ? 2 : 1);
  }
  return TensorDataset({{"point", Tensor::of<float>(Shape{kExamples, 2}, std::span<const float>(points))},
                        {"age", Tensor::of<float>(Shape{kExamples, 1}, std::span<const float>(ages))},
                        {"class", Tensor::of<std::int32_t>(Shape{kExamples}, std::span<const std::int32_t>(classes))},
                        {"damage", Tensor::of<float>(Shape{kExamples, 1}, std::span<const float>(risks))},
                        {"weight", Tensor::of<float>(Shape{kExamples}, std::span<const float>(weights))}});
}

Network two_outputs(WeightOptions kernel = {}) {
  const Symbol point = input("point", Shape{2}), age = input("age", Shape{1});
  const Symbol both = layers::concatenate()(layers::dense(8, Activation::tanh, {.kernel = kernel})(point), age);
  return Network({point, age}, {{"class", layers::dense(3)(both)}, {"risk", layers::dense(1)(both)}});
}

ModelOptions both_learn(double weight = 0.5) {
  return {.optimizer = optimizers::Adam{.learning_rate = 0.05},
          .outputs = {{.output = "class",
                       .loss = Loss::sparse_softmax_cross_entropy,
                       .metrics = {metrics::accuracy(), metrics::confusion_matrix({.classes = 3})}},
                      {.output = "risk",
                       .loss = Loss::mean_squared_error,
                       .weight = weight,
                       .target = "damage",
                       .metrics = {metrics::root_mean_squared_error("rmse")}}}};
}

std::vector<std::string> names_of(const Figures& figures) {
  std::vector<std::string> out;
  for (const auto& [name, value] : figures) out.push_back(name);
  return out;
}

TEST(FunctionalModel, LearnsSeveralOutputsOfSeveralInputs) {
  const TensorDataset data = people();
  Model model(two_outputs());
  model.compile(both_learn());
  const TrainingResult result = model.fit(data, data, {.epochs = 40, .batch = 10, .quiet = true});
  EXPECT_THAT(names_of(result.figures),
              ::testing::ElementsAre("loss", "class_loss", "class_accuracy", "risk_loss", "risk_rmse", "val_loss",
                                     "val_class_loss", "val_class_accuracy", "val_risk_loss", "val_risk_rmse"));
  EXPECT_GT(result["val_class_accuracy"], 0.9);
  EXPECT_LT(result["val_risk_rmse"], 0.2);

  const Evaluation seen = model.evaluate(data);
  EXPECT_NEAR(seen["loss"], seen["class_loss"] + 0.5 * seen["risk_loss"], 1e-6);
  EXPECT_NEAR(seen["risk_rmse"], std::sqrt(seen["risk_loss"]), 1e-6);
  const Tensor confusion = seen.tensors.at("class_confusion_matrix");
  EXPECT_EQ(confusion.shape(), (Shape{3, 3}));
  double all = 0, right = 0;
  for (int i = 0; i < 9; ++i) {
    all += confusion.data<double>()[i];
    right += i % 4 == 0 ? confusion.data<double>()[i] : 0;
  }
  EXPECT_EQ(all, kExamples);
  EXPECT_EQ(right / all, seen["class_accuracy"]);
  EXPECT_EQ(model.evaluate(data, 7).figures[2], seen.figures[2]) << "in batches of another size";

  // Predictions need no targets.
  const TensorDataset inputs({{"age", data.tensors()[1]}, {"point", data.tensors()[0]}});
  const auto predicted = model.predict(inputs, 16);
  EXPECT_EQ(predicted.at("class").shape(), (Shape{kExamples, 3}));
  EXPECT_EQ(predicted.at("risk").shape(), (Shape{kExamples, 1}));
}

TEST(FunctionalModel, HasTheSameBitsInAllModes) {
  const TensorDataset data = people();
  const auto fit = [&](Task& task, TrainingOptions options) {
    Model model(two_outputs({.regularizer = regularizers::l2(0.01)}));
    model.compile(both_learn(), task);
    options.epochs = 2;
    options.batch = 5;
    options.quiet = true;
    return model.fit(data, options).params_sha256;
  };
  Task alone;
  const std::string local = fit(alone, {.mode = LocalMode{.slots = 2}});
  testing::JobTasks servers(2, 3), ranks(0, 2);
  EXPECT_THAT(servers.run([&](Task& task) { return fit(task, {.mode = SyncMode{.slots = 2}}); }),
              ::testing::Contains(local));
  EXPECT_THAT(ranks.run([&](Task& task) { return fit(task, {.mode = AllReduceMode{}}); }), ::testing::Each(local));
}

// Every kind of sums: counts, means, thresholds, classes, moments.
ModelOptions with_all_metrics() {
  ModelOptions options = both_learn();
  options.outputs[0].metrics = {metrics::accuracy(),
                                metrics::top_k_accuracy({.k = 2}),
                                metrics::perplexity(),
                                metrics::class_precision({.name = "precision"}),
                                metrics::f1({.average = metrics::Average::micro, .name = "f1_micro"}),
                                metrics::f1({.average = metrics::Average::macro, .name = "f1_macro"})};
  options.outputs[1].metrics = {metrics::root_mean_squared_error("rmse"), metrics::loss(Loss::mean_absolute_error),
                                metrics::r2_score(), metrics::cosine_similarity(), metrics::sum_of_outputs()};
  options.outputs.push_back(
      {.output = "heavy",
       .loss = Loss::sigmoid_cross_entropy,
       .target = "is_heavy",
       .metrics = {metrics::binary_accuracy({.from_logits = true}),
                   metrics::precision({.thresholds = {0.5}, .from_logits = true}),
                   metrics::auc({.from_logits = true, .name = "roc"}),
                   metrics::auc({.curve = metrics::Curve::pr, .from_logits = true, .name = "pr"})}});
  return options;
}

TEST(FunctionalModel, EveryMetricHasTheSameBitsOverAnyNumberOfWorkers) {
  std::vector<std::pair<std::string, Tensor>> components;
  const TensorDataset some = people();
  for (std::size_t i = 0; i < some.tensors().size(); ++i)
    components.emplace_back(some.schema()[i].name, some.tensors()[i]);
  Tensor heavy(DType::f32, Shape{kExamples, 1});
  for (std::int64_t i = 0; i < kExamples; ++i)
    heavy.mutable_data<float>()[i] = some.tensors()[4].data<float>()[i] > 1 ? 1.F : 0.F;
  components.emplace_back("is_heavy", heavy);
  const TensorDataset data(components);
  const auto fit = [&](Task& task, TrainingOptions options) {
    const Symbol point = input("point", Shape{2}), age = input("age", Shape{1});
    const Symbol both = layers::concatenate()(layers::dense(8, Activation::tanh)(point), age);
    Model model(Network(
        {point, age},
        {{"class", layers::dense(3)(both)}, {"risk", layers::dense(1)(both)}, {"heavy", layers::dense(1)(both)}}));
    model.compile(with_all_metrics(), task);
    options.epochs = 2;
    options.batch = 4;
    options.quiet = true;
    std::string figures;  // every bit
    for (const auto& [name, value] : model.fit(data, data, options).figures) {
      EXPECT_TRUE(std::isfinite(value)) << name;
      figures += fmt::format("{} {:a}\n", name, value);
    }
    return figures;
  };
  Task alone;
  const std::string expected = fit(alone, {.mode = LocalMode{.slots = 3}});
  EXPECT_EQ(std::ranges::count(expected, '\n'), 2 * (1 + 3 + 15)) << expected;
  // Two ranks add up gradients in the order of two slots.
  testing::JobTasks ranks(0, 2);
  EXPECT_THAT(ranks.run([&](Task& task) { return fit(task, {.mode = AllReduceMode{}}); }),
              ::testing::Contains(fit(alone, {.mode = LocalMode{.slots = 2}})));
  for (const int workers : {1, 2, 3}) {
    SCOPED_TRACE(workers);
    testing::JobTasks tasks(2, workers);
    EXPECT_THAT(tasks.run([&](Task& task) { return fit(task, {.mode = SyncMode{.slots = 3}}); }),
                ::testing::Contains(expected));
  }
}

// One weight w = 1 of y = w x: regularization, weights and a step of plain gradient descent are computed by hand.
double slope_after_step(ModelOptions options, WeightOptions weight,
                        const std::vector<std::pair<std::string, Tensor>>& more, double* loss = nullptr) {
  std::vector<std::pair<std::string, Tensor>> components = {{"x", Tensor::of<float>(Shape{2, 1}, {1.F, 3.F})},
                                                            {"y", Tensor::of<float>(Shape{2, 1}, {0.F, 1.F})}};
  components.insert(components.end(), more.begin(), more.end());
  weight.initializer = initializers::ones();
  Model model({layers::dense(1, Activation::none, {.use_bias = false, .kernel = weight})}, Shape{1});
  options.optimizer = optimizers::SGD{.learning_rate = 0.1};
  options.outputs = options.outputs.empty() ? std::vector<OutputTraining>(1) : options.outputs;
  options.outputs[0].loss = Loss::mean_squared_error;
  model.compile(options);
  const TrainingResult result = model.fit(TensorDataset(components), {.epochs = 1, .batch = 2, .quiet = true});
  if (loss) *loss = result["loss"];
  return model.parameters().at("dense/kernel").data<float>()[0];
}

TEST(FunctionalModel, AddsTheLossesOfRegularizers) {
  double loss = 0;
  // ((1 - 0)^2 + (3 - 1)^2) / 2, and its derivative 2 (1 * 1 + 2 * 3) / 2.
  EXPECT_NEAR(slope_after_step({}, {}, {}, &loss), 1 - 0.1 * 7, 1e-6);
  EXPECT_NEAR(loss, 2.5, 1e-6);
  EXPECT_NEAR(slope_after_step({}, {.regularizer = regularizers::l2(0.5)}, {}, &loss), 1 - 0.1 * (7 + 2 * 0.5), 1e-6);
  EXPECT_NEAR(loss, 2.5 + 0.5, 1e-6);
}

TEST(FunctionalModel, ConstrainsWeightsAfterUpdatesInAllModes) {
  // 1 - 0.1 * 7 = 0.3, and then its norm to at least 0.5, or at most 0.2; without: see above.
  EXPECT_NEAR(slope_after_step({}, {.constraint = constraints::min_max_norm(0.5, 1)}, {}), 0.5, 1e-6);
  EXPECT_NEAR(slope_after_step({}, {.constraint = constraints::max_norm(0.2)}, {}), 0.2, 1e-6);
  EXPECT_NEAR(slope_after_step({}, {.constraint = constraints::unit_norm()}, {}), 1, 1e-6);
  EXPECT_NEAR(slope_after_step({}, {.constraint = constraints::min_max_norm(0.5, 1, 0.25)}, {}),
              0.25 * 0.5 + 0.75 * 0.3, 1e-6);
  const TensorDataset data = people();
  const auto fit = [&](Task& task, TrainingOptions options, const Constraint& constraint) {
    Model model(two_outputs({.constraint = constraint}));
    model.compile(both_learn(), task);
    options.epochs = 2;
    options.batch = 5;
    options.quiet = true;
    const TrainingResult result = model.fit(data, options);
    if (std::holds_alternative<LocalMode>(options.mode)) {
      const Tensor kernel = model.parameters().at("dense/kernel");  // [2, 8]
      for (int unit = 0; unit < 8; ++unit) {
        const float a = kernel.data<float>()[unit], b = kernel.data<float>()[8 + unit];
        if (constraint.kind == Constraint::Kind::non_negative)
          EXPECT_TRUE(a >= 0 && b >= 0);
        else
          EXPECT_LE(std::hypot(a, b), 0.5 + 1e-5);
      }
    }
    return result.params_sha256;
  };
  for (const Constraint& constraint : {constraints::max_norm(0.5), constraints::non_negative()}) {
    Task alone;
    const std::string local = fit(alone, {.mode = LocalMode{.slots = 2}}, constraint);
    testing::JobTasks servers(2, 2), ranks(0, 2);
    EXPECT_THAT(servers.run([&](Task& task) { return fit(task, {.mode = SyncMode{}}, constraint); }),
                ::testing::Contains(local));
    EXPECT_THAT(ranks.run([&](Task& task) { return fit(task, {.mode = AllReduceMode{}}, constraint); }),
                ::testing::Each(local));
  }
}

TEST(FunctionalModel, WeighsExamples) {
  const std::vector<std::pair<std::string, Tensor>> weights = {{"w", Tensor::vector<float>({3, 0.5})}};
  // (3 * 1 + 0.5 * 4) / 2, and 2 (3 * 1 * 1 + 0.5 * 2 * 3) / 2.
  double loss = 0;
  EXPECT_NEAR(slope_after_step({.outputs = {{.target = "y", .sample_weights = "w"}}}, {}, weights, &loss), 1 - 0.1 * 6,
              1e-6);
  EXPECT_NEAR(loss, 2.5, 1e-6);
}

TEST(FunctionalModel, WeighsClasses) {
  const Tensor x = Tensor::of<float>(Shape{2, 1}, {1.F, 1.F});
  const TensorDataset data({{"x", x}, {"y", Tensor::vector<std::int32_t>({0, 1})}});
  const auto fit = [&](std::vector<double> class_weights) {
    Model model({layers::dense(2, Activation::none, {.kernel = {.initializer = initializers::zeros()}})}, Shape{1});
    model.compile({.optimizer = optimizers::SGD{.learning_rate = 1},
                   .outputs = {{.loss = Loss::sparse_softmax_cross_entropy,
                                .class_weights = std::move(class_weights),
                                .metrics = {metrics::accuracy()},
                                .weighted_metrics = {metrics::accuracy("weighted")}}}});
    model.fit(data, {.epochs = 1, .batch = 2, .quiet = true});
    const Evaluation seen = model.evaluate(data);
    EXPECT_EQ(seen["accuracy"], 0.5);
    return std::pair(model.parameters().at("dense/bias").data<float>()[1], seen["weighted"]);
  };
  // Each example's gradient of logit 1 is (1/2 - [class is 1]) weight / 2.
  const auto [bias, accuracy] = fit({1, 3});
  EXPECT_NEAR(bias, -(0.5 * 1 / 2 - 0.5 * 3 / 2), 1e-6);
  EXPECT_NEAR(accuracy, 0.75, 1e-12);
  EXPECT_THAT(error_of([&] { fit({1}); }).message(), HasSubstr("index 1 (element 0) is not in [0, 1)"));
}

TEST(FunctionalModel, TrainsWhatItIsToldTo) {
  const TensorDataset data = people();
  Model model(two_outputs());
  ModelOptions options = both_learn();
  options.train = {"dense_1/*", "*/bias"};
  model.compile(options);
  model.fit(data, {.epochs = 1, .batch = 10, .quiet = true});
  const Parameters first = model.parameters();
  model.fit(data, {.epochs = 1, .batch = 10, .quiet = true});
  for (const auto& [name, value] : model.parameters())
    EXPECT_EQ(bitwise_equal(value, first.at(name)), name == "dense/kernel" || name == "dense_2/kernel") << name;
}

TEST(FunctionalModel, SaysWhatDoesNotFit) {
  const TensorDataset data = people();
  const auto said = [&](const ModelOptions& options, const BatchSource& source) {
    Model model(two_outputs());
    return error_of([&] {
             model.compile(options);
             model.fit(source, {.epochs = 1, .batch = 10, .quiet = true});
           })
        .message();
  };
  ModelOptions options = both_learn();
  options.outputs[0].output = "klass";
  EXPECT_EQ(said(options, data), "the model has no output 'klass'; it has 'class', 'risk'");
  options = both_learn();
  options.outputs[1].target = "";
  EXPECT_THAT(said(options, data), HasSubstr("output 'risk' has no target in batches of point f32[2], age f32[1]"));
  const TensorDataset part({{"point", data.tensors()[0]}, {"class", data.tensors()[2]}});
  EXPECT_THAT(said(both_learn(), part), HasSubstr("input 'age' of the model has no component in batches of point"));
  const TensorDataset wrong({{"point", data.tensors()[1]}, {"age", data.tensors()[1]}});
  EXPECT_EQ(said(both_learn(), wrong), "input 'point' takes f32[2] of each example, but component 'point' is f32[1]");
  EXPECT_THAT(said({.outputs = {{.output = "class", .target = "class"}}}, data),
              HasSubstr("no output of the model has a loss"));
  EXPECT_THAT(said({.loss = Loss::mean_squared_error}, data), HasSubstr("the model has no output ''"));
  options = both_learn();
  options.loss = Loss::mean_squared_error;
  EXPECT_THAT(said(options, data), HasSubstr("set one or the other"));
}

}  // namespace
}  // namespace troupe
