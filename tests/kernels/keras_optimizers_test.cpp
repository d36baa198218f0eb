// Optimizers, averages of weights and clipping against Keras 3.15 on TensorFlow 2.21: the same float64 weights and
// gradients were given to both.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/kernels/evaluate_graph.hpp"
#include "tests/kernels/random_tensors.hpp"
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/optimizers/optimizers.hpp>
#include <troupe/graph/training/clipping.hpp>

namespace troupe {
namespace {

using testing::doubles;
using testing::GraphEvaluator;

const std::vector<double> kWeights = {0.5, -1.25, 3.0, 0.0};
const std::vector<std::vector<double>> kGradients = {{0.3, -0.7, 0.02, 1.5},
                                                     {-0.4, 0.1, 0.5, 1.0},
                                                     {0.0, 2.0, -0.25, -3.0},
                                                     {1.25, -0.125, 0.0, 0.75},
                                                     {0.6, 0.6, -0.6, 0.001}};

Tensor as_dtype(const std::vector<double>& values, DType dtype) {
  Tensor out(dtype, Shape{std::ssize(values)});
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (dtype == DType::f64) out.mutable_data<double>()[i] = values[i];
    if (dtype == DType::f32) out.mutable_data<float>()[i] = static_cast<float>(values[i]);
    if (dtype == DType::f16) out.mutable_data<Half>()[i] = Half(static_cast<float>(values[i]));
    if (dtype == DType::bf16) out.mutable_data<BFloat16>()[i] = BFloat16(static_cast<float>(values[i]));
  }
  return out;
}

// A variable "w" that is trained by gradients that are fed.
struct Trained {
  Graph graph;
  VariableRef w;
  Output gradient, train;
  GraphEvaluator evaluator;

  Trained(const Optimizer& optimizer, DType dtype) {
    w = variable(graph, {.name = "w", .initial_value = constant(graph, as_dtype(kWeights, dtype))});
    gradient = placeholder(graph, dtype, Shape{4}, "gradient");
    train = apply_gradients(graph, optimizer,
                            std::vector<GradientAndVariable>{{.gradient = {.dense = gradient}, .variable = w}});
    const Output start = initializer(graph);
    evaluator.run(graph, {}, {{start.node, 0}});
  }
  void step(const std::vector<double>& g) {
    evaluator.run(graph, {{{gradient.node, 0}, as_dtype(g, w.dtype)}}, {{train.node, 0}});
  }
  std::vector<double> value(const VariableRef& of) { return doubles(evaluator.run(of.read())); }
};

void expect_near(const std::vector<double>& got, const std::vector<double>& wanted, double tolerance) {
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], tolerance) << i;
}

struct KerasCase {
  Optimizer optimizer;
  std::vector<double> weights;  // after all gradients
};

std::vector<KerasCase> keras_cases() {
  using namespace optimizers;
  return {
      {Momentum{.learning_rate = 0.125, .momentum = 0.75, .nesterov = true, .weight_decay = {.rate = 0.0625}},
       {0.01978449348534919, -1.7293782531734903, 2.904933085561497, -0.17919385092006995}},
      {Adam{.learning_rate = 0.125, .beta1 = 0.75, .beta2 = 0.875},
       {0.2765735891353377, -1.2417248381786234, 2.790447284835811, -0.19560120363812927}},
      {AdamW{.learning_rate = 0.125, .beta1 = 0.75, .beta2 = 0.875, .weight_decay = {.rate = 0.0625}},
       {0.2605650836863124, -1.1974999276381648, 2.681763168634433, -0.18956034474464037}},
      {Adam{.learning_rate = 0.125, .beta1 = 0.75, .beta2 = 0.5, .amsgrad = true},
       {0.3070848815660464, -1.2068199211654589, 2.799457237256415, -0.20712966422988813}},
      {Adamax{.learning_rate = 0.125, .beta1 = 0.75, .beta2 = 0.875},
       {0.3295752180010622, -1.1894012853609082, 2.8081317565524686, -0.20594371443817977}},
      {Nadam{.learning_rate = 0.125, .beta1 = 0.75, .beta2 = 0.875},
       {0.23335347028139142, -1.3257084072565908, 2.897260369153199, -0.13917219989018095}},
      {Adadelta{.learning_rate = 0.5, .rho = 0.75, .epsilon = 0x1p-10},
       {0.42659357194428055, -1.2810741398932264, 3.0184641822098666, -0.029673283818633177}},
      {Ftrl{.learning_rate = 0.5,
            .l1 = 0.125,
            .l2 = 0.25,
            .l2_shrinkage = 0.0625,
            .beta = 0.25,
            .initial_accumulator = 0.25},
       {-0.3995789946344637, -0.4486429029903897, 0.0, -0.2378739683269279}},
      {Ftrl{.learning_rate = 0.5,
            .l1 = 0.125,
            .l2 = 0.25,
            .beta = 0.25,
            .learning_rate_power = -0.75,
            .initial_accumulator = 0.25},
       {-0.323522787242331, -0.47738911596978834, 0.050891692667108274, -0.28085507897813194}},
      {Lion{.learning_rate = 0.125, .beta1 = 0.75, .beta2 = 0.875, .weight_decay = {.rate = 0.0625}},
       {0.35575647045334335, -1.3307743896366446, 2.7654279427661095, -0.11920136259868741}},
      {RMSProp{.learning_rate = 0.015625, .rho = 0.75, .momentum = 0.5},
       {0.4288298876626382, -1.259821095692751, 2.934752816289494, -0.058704152657119535}},
      {RMSProp{.learning_rate = 0.015625, .rho = 0.75, .momentum = 0.5, .centered = true},
       {0.41186951428421714, -1.257136847844414, 2.9179398689792464, -0.07813019367184934}},
  };
}

TEST(KerasOptimizers, HaveTheSameWeightsAfterSomeSteps) {
  for (const KerasCase& c : keras_cases())
    for (const auto& [dtype, tolerance] : {std::pair(DType::f64, 1e-12), {DType::f32, 3e-6}}) {
      SCOPED_TRACE(fmt::format("{} {}", name(dtype), to_string(c.optimizer)));
      Trained model(c.optimizer, dtype);
      for (const auto& g : kGradients) model.step(g);
      // Keras rounds Nadam's 0.96 to f32.
      const bool rounded = std::holds_alternative<optimizers::Nadam>(c.optimizer);
      expect_near(model.value(model.w), c.weights, std::max(tolerance, rounded ? 1e-8 : 0));
    }
}

// The state has the variable's dtype, as Keras's.
TEST(KerasOptimizers, TrainVariablesOf16Bits) {
  for (const KerasCase& c : keras_cases())
    for (const auto& [dtype, tolerance] : {std::pair(DType::f16, 0.02), {DType::bf16, 0.1}}) {
      SCOPED_TRACE(fmt::format("{} {}", name(dtype), name(c.optimizer)));
      Trained model(c.optimizer, dtype);
      for (const auto& g : kGradients) model.step(g);
      expect_near(model.value(model.w), c.weights, tolerance);
      for (const VariableInfo& v : variables(model.graph))
        if (v.name != "global_step") {
          EXPECT_EQ(v.dtype, dtype) << v.name;
        }
    }
}

TEST(KerasOptimizers, AnExponentialAverageIsThatOfKerasOneUpdateLater) {
  Trained model(optimizers::SGD{.learning_rate = 0.125, .average = averages::Exponential{.momentum = 0.75}},
                DType::f64);
  const std::vector<AveragedVariable> averages = weight_averages(model.graph);
  ASSERT_EQ(averages.size(), 1u);
  EXPECT_EQ(averages[0].variable.name, "w");
  EXPECT_EQ(averages[0].average.name, "w/average");
  expect_near(model.value(averages[0].average), kWeights, 0);
  for (const auto& g : kGradients) model.step(g);
  const auto last = model.value(model.w);
  model.step(kGradients[0]);
  expect_near(model.value(averages[0].average), {0.4095703125000001, -1.327490234375, 2.991591796875, -0.09719921875},
              1e-14);
  EXPECT_NE(model.value(model.w), last);
}

TEST(KerasOptimizers, AStochasticAverageIsTheMeanOfTheWeightsOfItsTimes) {
  for (const std::int64_t from : {0, 2})
    for (const std::int64_t every : {1, 2}) {
      SCOPED_TRACE(fmt::format("from {} every {}", from, every));
      Trained model(
          optimizers::Momentum{.learning_rate = 0.1, .average = averages::Stochastic{.from = from, .every = every}},
          DType::f64);
      const VariableRef average = weight_averages(model.graph).at(0).average;
      std::vector<double> sum(4, 0.0);
      int count = 0;
      for (std::int64_t t = 0; t < std::ssize(kGradients); ++t) {
        if (t >= from && (t - from) % every == 0) {
          const auto w = model.value(model.w);
          for (std::size_t i = 0; i < 4; ++i) sum[i] += w[i];
          ++count;
        }
        model.step(kGradients[static_cast<std::size_t>(t)]);
        std::vector<double> mean = kWeights;
        if (count > 0)
          for (std::size_t i = 0; i < 4; ++i) mean[i] = sum[i] / count;
        expect_near(model.value(average), mean, 1e-14);
      }
    }
}

// The quotient is 0 / 0.
TEST(KerasOptimizers, FtrlWithoutAnyGradientSoFarHasWeightsOfZero) {
  Trained model(optimizers::Ftrl{.learning_rate = 0.5, .initial_accumulator = 0}, DType::f32);
  model.step({0, 0, 0, 0});
  expect_near(model.value(model.w), {0, 0, 0, 0}, 0);
}

// A rate of 0, at the end of a schedule, must not divide.
TEST(KerasOptimizers, ARateOfZeroChangesNoWeight) {
  for (KerasCase c : keras_cases()) {
    SCOPED_TRACE(name(c.optimizer));
    std::visit([](auto& o) { o.learning_rate = 0.0; }, c.optimizer);
    Trained model(c.optimizer, DType::f64);
    for (const auto& g : kGradients) model.step(g);
    expect_near(model.value(model.w), kWeights, 0);
  }
}

std::vector<double> joined_clipped(const Clipping& clipping, double scale = 1) {
  Graph graph;
  const std::vector<std::vector<double>> flows = {{3.0, -4.0, 0.25}, {0.1, 0.2}};
  std::vector<GradientAndVariable> gradients;
  for (std::vector<double> flow : flows) {
    for (double& x : flow) x *= scale;
    const Tensor t = as_dtype(flow, DType::f64);
    gradients.push_back({.gradient = {.dense = constant(graph, t)},
                         .variable = variable(graph, {.name = "v", .shape = t.shape(), .dtype = DType::f64})});
  }
  const LossScale loss_scaled = loss_scale(graph, {.initial = scale});
  GraphEvaluator evaluator;
  const Output start = initializer(graph);
  evaluator.run(graph, {}, {{start.node, 0}});
  std::vector<double> out;
  for (const GradientAndVariable& g : clip_gradients(gradients, clipping, scale == 1 ? nullptr : &loss_scaled))
    for (const double x : doubles(evaluator.run(g.gradient.dense))) out.push_back(x / scale);
  return out;
}

TEST(KerasClipping, HasTheSameGradients) {
  for (const double scale : {1.0, 1024.0}) {
    expect_near(joined_clipped({.value = 0.5}, scale), {0.5, -0.5, 0.25, 0.1, 0.2}, 1e-15);
    expect_near(joined_clipped({.norm = 1.25}, scale),
                {0.7490642541583834, -0.9987523388778445, 0.062422021179865284, 0.1, 0.2}, 1e-15);
    expect_near(
        joined_clipped({.global_norm = 1.25}, scale),
        {0.7483181740388338, -0.9977575653851117, 0.06235984783656948, 0.024943939134627793, 0.04988787826925559},
        1e-15);
  }
}

TEST(KerasClipping, OfSeveralKindsIsOneAfterTheOther) {
  const std::vector<double> got = joined_clipped({.value = 2, .norm = 1, .global_norm = 0.5});
  const double first = std::sqrt(4 + 4 + 0.0625), second = std::sqrt(0.05), all = std::sqrt(1 + 0.05);
  EXPECT_GT(first, 1);
  expect_near(got, {2 / first / all / 2, -2 / first / all / 2, 0.25 / first / all / 2, 0.1 / all / 2, 0.2 / all / 2},
              1e-15);
  EXPECT_LT(second, 1);
}

TEST(KerasClipping, KeepsNanAndMarksInfiniteNorms) {
  Graph graph;
  const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
  const auto clipped = [&](const Clipping& clipping) {
    std::vector<GradientAndVariable> gradients;
    for (const std::vector<double>& flow : {std::vector<double>{nan, infinity, 3}, {1, 2}}) {
      const Tensor t = as_dtype(flow, DType::f64);
      gradients.push_back({.gradient = {.dense = constant(graph, t)},
                           .variable = variable(graph, {.name = "v", .shape = t.shape(), .dtype = DType::f64})});
    }
    GraphEvaluator evaluator;
    std::vector<double> out;
    for (const GradientAndVariable& g : clip_gradients(gradients, clipping))
      for (const double x : doubles(evaluator.run(g.gradient.dense))) out.push_back(x);
    return out;
  };
  const std::vector<double> by_value = clipped({.value = 2}), by_norm = clipped({.norm = 1});
  EXPECT_TRUE(std::isnan(by_value[0]));
  EXPECT_EQ(std::vector<double>(by_value.begin() + 1, by_value.end()), (std::vector<double>{2, 2, 1, 2}));
  for (const std::size_t i : {0, 1, 2}) EXPECT_TRUE(std::isnan(by_norm[i])) << i;
  EXPECT_NEAR(by_norm[3], 1 / std::sqrt(5.0), 1e-15);
}

TEST(KerasClipping, RefusesLimitsBelowZero) {
  EXPECT_EQ(Clipping{}.problem(), "");
  EXPECT_EQ(Clipping{.value = -1}.problem(), "the value must be 0 (no clipping) or positive, not -1");
  EXPECT_EQ(Clipping{.norm = std::nan("")}.problem(), "the norm must be 0 (no clipping) or positive, not nan");
  EXPECT_EQ(Clipping{.global_norm = -2}.problem(), "the global norm must be 0 (no clipping) or positive, not -2");
}

}  // namespace
}  // namespace troupe
