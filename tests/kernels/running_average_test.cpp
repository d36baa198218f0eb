// Running averages in training graphs, evaluated.
#include <gtest/gtest.h>

#include "tests/graph/training/classifier_graph.hpp"
#include "tests/kernels/evaluate_graph.hpp"
#include "tests/kernels/random_tensors.hpp"
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/optimizers/running_average.hpp>
#include <troupe/graph/passes/shard_variables.hpp>

namespace troupe {
namespace {

using testing::doubles;
using testing::Feeds;
using testing::GraphEvaluator;
using testing::message_of;

Endpoint averaged_endpoint(Output o) { return {o.node, o.index}; }

constexpr std::int64_t kExamples = 8, kFeatures = 3;

Tensor images(int slot) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < kExamples * kFeatures; ++i)
    values.push_back(static_cast<float>((i * 7 + slot * 5) % 11) / 11 + static_cast<float>(slot));
  return Tensor::of<float>(Shape{kExamples, kFeatures}, values);
}
Tensor labels() { return Tensor::vector<std::int32_t>({0, 1, 0, 1, 0, 1, 1, 0}); }

// The statistics of rows [first, last) of images(slot), by feature.
struct Statistics {
  std::vector<double> mean = std::vector<double>(kFeatures), variance = std::vector<double>(kFeatures);
  Statistics(int slot, std::int64_t first, std::int64_t last) {
    const auto x = doubles(images(slot));
    const auto n = static_cast<double>(last - first);
    for (std::size_t j = 0; j < kFeatures; ++j) {
      const auto row = [&](std::int64_t i) { return x[static_cast<std::size_t>(i * kFeatures) + j]; };
      for (std::int64_t i = first; i < last; ++i) mean[j] += row(i) / n;
      for (std::int64_t i = first; i < last; ++i) variance[j] += (row(i) - mean[j]) * (row(i) - mean[j]) / (n - 1);
    }
  }
};

struct Averaging {
  testing::ClassifierGraph t;
  GraphEvaluator evaluator;

  explicit Averaging(const TowerOptions& options,
                     const Optimizer& optimizer = optimizers::Momentum{.learning_rate = 0.1})
      : t(testing::classifier_graph(
            Sequential({layers::batch_norm(Activation::none, {.momentum = 0.75}), layers::dense(2)}), Shape{kFeatures},
            optimizer, options)) {
    evaluator.run(*t.graph, {}, {averaged_endpoint(t.initializer)});
  }
  Feeds feeds() const {
    Feeds out;
    for (std::size_t s = 0; s < t.images.size(); ++s) {
      out[averaged_endpoint(t.images[s])] = images(static_cast<int>(s));
      out[averaged_endpoint(t.labels[s])] = labels();
    }
    return out;
  }
  void step(const Feeds& feeds) { evaluator.run(*t.graph, feeds, {averaged_endpoint(t.train)}); }
  std::vector<double> value(const std::string& variable) {
    const VariableRef v = find_variable(*t.graph, variable);
    return doubles(evaluator.run(v.read()));
  }
};

void expect_close(const std::vector<double>& got, const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 2e-6 * (1 + std::fabs(want[i]))) << i;
}

TEST(RunningAverage, FollowsTheBatchByItsPartWhateverTheOptimizer) {
  for (const Optimizer& optimizer :
       {Optimizer(optimizers::SGD{}), Optimizer(optimizers::Momentum{}), Optimizer(optimizers::Adam{})}) {
    Averaging training({}, optimizer);
    const Statistics batch(0, 0, kExamples);
    std::vector<double> mean(kFeatures, 0), variance(kFeatures, 1);
    for (int step = 0; step < 3; ++step) {
      training.step(training.feeds());
      for (std::size_t j = 0; j < kFeatures; ++j) {
        mean[j] += 0.25 * (batch.mean[j] - mean[j]);
        variance[j] += 0.25 * (batch.variance[j] - variance[j]);
      }
      expect_close(training.value("batch_norm/mean"), mean);
      expect_close(training.value("batch_norm/variance"), variance);
    }
  }
}

TEST(RunningAverage, FollowsTheMeanOfAllSlotsAndOfAllMicroBatches) {
  Averaging slots({.slots = 2});
  slots.step(slots.feeds());
  const Statistics first(0, 0, kExamples), second(1, 0, kExamples);
  Averaging parts({.batch = kExamples, .micro_batches = 2});
  parts.step(parts.feeds());
  const Statistics front(0, 0, kExamples / 2), back(0, kExamples / 2, kExamples);
  std::vector<double> of_slots, of_parts, variance_of_parts;
  for (std::size_t j = 0; j < kFeatures; ++j) {
    of_slots.push_back(0.25 * (first.mean[j] + second.mean[j]) / 2);
    of_parts.push_back(0.25 * (front.mean[j] + back.mean[j]) / 2);
    variance_of_parts.push_back(0.75 + 0.25 * (front.variance[j] + back.variance[j]) / 2);
  }
  expect_close(slots.value("batch_norm/mean"), of_slots);
  expect_close(parts.value("batch_norm/mean"), of_parts);
  expect_close(parts.value("batch_norm/variance"), variance_of_parts);
}

TEST(RunningAverage, IsNotClipped) {
  Averaging training({.clipping = {.global_norm = 1e-9}});
  training.step(training.feeds());
  const Statistics batch(0, 0, kExamples);
  std::vector<double> mean;
  for (const double m : batch.mean) mean.push_back(0.25 * m);
  expect_close(training.value("batch_norm/mean"), mean);
}

TEST(RunningAverage, EvaluationTakesTheAverages) {
  Averaging training({});
  training.step(training.feeds());
  const Output y = training.t.graph->output("evaluation/batch_norm/BatchNormInference");
  const auto got = doubles(training.evaluator.run(y, {{averaged_endpoint(training.t.eval_images), images(0)}}));
  const auto x = doubles(images(0)), mean = training.value("batch_norm/mean"),
             variance = training.value("batch_norm/variance"), scale = training.value("batch_norm/scale"),
             offset = training.value("batch_norm/offset");
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t j = i % kFeatures;
    EXPECT_NEAR(got[i], (x[i] - mean[j]) * scale[j] / std::sqrt(variance[j] + 1e-5) + offset[j], 1e-5) << i;
  }
}

// On parameter servers it is a variable like others, with a rule of its own.
TEST(RunningAverage, OnAShardIsMovedByPlainGradientDescent) {
  for (const bool scaled : {false, true}) {
    SCOPED_TRACE(scaled ? "with loss scaling" : "without loss scaling");
    TowerOptions options{.on_shards = true};
    if (scaled) options.loss_scaling = LossScaling{};
    const Averaging training(options);
    const ShardMap map(updated_variables(*training.t.graph), 2);
    const ShardedGraph sharded = shard_variables(*training.t.graph, map);
    for (const char* name : {"batch_norm/mean", "batch_norm/variance"}) {
      SCOPED_TRACE(name);
      ASSERT_TRUE(map.contains(name));
      const UpdateRule& rule = sharded.rules.at(name);
      EXPECT_EQ(rule.op, "ApplySGD");
      EXPECT_EQ(rule.learning_rate.item<float>(), 0.25f);
      EXPECT_EQ(rule.guarded, scaled);
    }
    EXPECT_EQ(sharded.rules.at("batch_norm/scale").op, "ApplyMomentum");
  }
}

TEST(RunningAverage, IsNoPartOfWhatGradientsTrain) {
  const Averaging training({});
  std::vector<std::string> trained, all;
  for (const VariableInfo& v : variables(*training.t.graph))
    if (v.trainable) trained.push_back(v.name);
  for (const VariableRef& v : training.t.parameters) all.push_back(v.name);
  EXPECT_EQ(trained, (std::vector<std::string>{"batch_norm/offset", "batch_norm/scale", "dense/bias", "dense/kernel"}));
  EXPECT_EQ(all, (std::vector<std::string>{"batch_norm/scale", "batch_norm/offset", "batch_norm/mean",
                                           "batch_norm/variance", "dense/kernel", "dense/bias"}));
}

TEST(RunningAverage, RefusesWhatMakesNoSense) {
  Graph graph;
  const VariableRef v = variable(graph, {.name = "v", .shape = Shape{2}, .trainable = false});
  for (const double part : {0.0, -0.5, 1.5})
    EXPECT_EQ(message_of(Code::invalid_argument,
                         [&] {
                           moves_of(std::vector<RunningAverage>{{v, v.read(), part}});
                         }),
              fmt::format("running average 'v': the part of a new value must be in (0, 1], not {}", part));
  const Output rows = constant<std::int64_t>(graph, {0}), values = constant<float>(graph, {1.0f});
  const std::vector<GradientAndVariable> sparse{
      {.gradient = {.indices = rows, .values = values}, .variable = v, .moved_by = 0.1}};
  EXPECT_EQ(message_of(Code::invalid_argument, [&] { apply_gradients(graph, optimizers::SGD{}, sparse); }),
            "apply_gradients: the running average 'v' has a sparse gradient");
  // A layer that has averages must be able to say what they follow.
  VariablePool pool;
  LayerContext context{.graph = graph, .training = true, .variables = pool};
  const Output x = placeholder(graph, DType::f32, Shape{4, 2});
  EXPECT_EQ(message_of(Code::invalid_argument, [&] { Sequential({layers::batch_norm()}).apply(context, x); }),
            "layer 'batch_norm': training updates running averages: LayerContext::averages must not be null");
}

}  // namespace
}  // namespace troupe
