// Optimizers and towers, evaluated: against loops over scalars in the arithmetic of the kernels.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>

#include "tests/graph/training/classifier_graph.hpp"
#include "tests/kernels/evaluate_graph.hpp"
#include <troupe/graph/builder/builder.hpp>

namespace troupe {
namespace {

using testing::Feeds;
using testing::GraphEvaluator;

constexpr int kSteps = 5;
const std::vector<float> kStart = {0.5f, -1.25f, 3.0f};

// w after kSteps updates by the gradient of sum(w^2) / 2 * scale, which is w * scale.
std::vector<float> trained(const Optimizer& optimizer) {
  Graph graph;
  const VariableRef w =
      variable(graph, {.name = "w", .initial_value = constant(graph, Tensor::of<float>(Shape{3}, kStart))});
  const Output train = minimize(l2_loss(w.read()), optimizer);
  const Output start = initializer(graph);
  GraphEvaluator evaluator;
  evaluator.run(graph, {}, {{start.node, 0}});
  for (int i = 0; i < kSteps; ++i) evaluator.run(graph, {}, {{train.node, 0}});
  const Tensor value = evaluator.run(w.read());
  return {value.data<float>(), value.data<float>() + 3};
}

// Runs `update(w, g, t)`, which keeps its own state, on each element.
std::vector<float> looped(const std::function<std::function<void(float&, float, int)>()>& make_update) {
  std::vector<float> out = kStart;
  for (float& w : out) {
    const auto update = make_update();
    for (int t = 1; t <= kSteps; ++t) update(w, w, t);
  }
  return out;
}

void expect_close(const std::vector<float>& got, const std::vector<float>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_FLOAT_EQ(got[i], expected[i]) << i;
}

TEST(OptimizerGraph, Sgd) {
  expect_close(trained(optimizers::SGD{.learning_rate = 0.1}),
               looped([] { return [](float& w, float g, int) { w -= 0.1f * g; }; }));
}

TEST(OptimizerGraph, Momentum) {
  for (bool nesterov : {false, true})
    expect_close(trained(optimizers::Momentum{.learning_rate = 0.1, .momentum = 0.75, .nesterov = nesterov}),
                 looped([nesterov] {
                   return [nesterov, accum = 0.0f](float& w, float g, int) mutable {
                     accum = 0.75f * accum + g;
                     w -= 0.1f * (nesterov ? g + 0.75f * accum : accum);
                   };
                 }));
}

TEST(OptimizerGraph, Adagrad) {
  expect_close(trained(optimizers::Adagrad{.learning_rate = 0.1, .initial_accumulator = 0.25}), looped([] {
                 return [accum = 0.25f](float& w, float g, int) mutable {
                   accum += g * g;
                   w -= 0.1f * g / (std::sqrt(accum) + 1e-7f);
                 };
               }));
}

TEST(OptimizerGraph, RmsProp) {
  expect_close(trained(optimizers::RMSProp{.learning_rate = 0.01, .rho = 0.75, .momentum = 0.5}), looped([] {
                 return [ms = 0.0f, mom = 0.0f](float& w, float g, int) mutable {
                   ms = 0.75f * ms + 0.25f * (g * g);
                   mom = 0.5f * mom + 0.01f * g / std::sqrt(ms + 1e-7f);
                   w -= mom;
                 };
               }));
}

// Also says that all updates of one step see the same count, and that it goes up by one: the bias correction
// does.
TEST(OptimizerGraph, Adam) {
  expect_close(trained(optimizers::Adam{.learning_rate = 0.1, .beta1 = 0.75, .beta2 = 0.875}), looped([] {
                 return [m = 0.0f, v = 0.0f](float& w, float g, int t) mutable {
                   m = 0.75f * m + 0.25f * g;
                   v = 0.875f * v + 0.125f * (g * g);
                   const double alpha = 0.1f * std::sqrt(1 - std::pow(0.875, t)) / (1 - std::pow(0.75, t));
                   w -= static_cast<float>(alpha) * m / (std::sqrt(v) + 1e-7f);
                 };
               }));
}

// The first update has t = 0.
TEST(OptimizerGraph, TheRateFollowsTheNumberOfUpdatesBefore) {
  const Schedule schedule = schedules::Piecewise{.rates = {0.1, 0.02, 0.4}, .from = {2, 4}};
  const auto rate = [](int t) { return t <= 2 ? 0.1f : t <= 4 ? 0.02f : 0.4f; };
  expect_close(trained(optimizers::SGD{.learning_rate = schedule}),
               looped([&] { return [&](float& w, float g, int t) { w -= rate(t) * g; }; }));
  expect_close(trained(optimizers::Adam{.learning_rate = schedule, .beta1 = 0.75, .beta2 = 0.875}), looped([&] {
                 return [&, m = 0.0f, v = 0.0f](float& w, float g, int t) mutable {
                   m = 0.75f * m + 0.25f * g;
                   v = 0.875f * v + 0.125f * (g * g);
                   const double alpha = rate(t) * std::sqrt(1 - std::pow(0.875, t)) / (1 - std::pow(0.75, t));
                   w -= static_cast<float>(alpha) * m / (std::sqrt(v) + 1e-7f);
                 };
               }));
}

Tensor image_batch(int slot) {
  std::vector<float> values;
  for (int i = 0; i < 4 * 6; ++i) values.push_back(static_cast<float>((i * 7 + slot * 5) % 11) / 11);
  return Tensor::of<float>(Shape{4, 6}, values);
}
Tensor label_batch(int slot) {
  std::vector<std::int32_t> values;
  for (int i = 0; i < 4; ++i) values.push_back((i + slot) % 3);
  return Tensor::of<std::int32_t>(Shape{4}, values);
}
testing::ClassifierGraph towers(int slots) {
  return testing::classifier_graph(Sequential({layers::dense(5, Activation::tanh), layers::dense(3)}), Shape{6},
                                   optimizers::SGD{.learning_rate = 0.5}, {.slots = slots});
}
Endpoint endpoint(Output o) { return {o.node, o.index}; }

// A training graph whose variables have their initial values: the same for any number of slots.
struct Step {
  testing::ClassifierGraph t;
  GraphEvaluator evaluator;

  explicit Step(int slots) : t(towers(slots)) { evaluator.run(*t.graph, {}, {endpoint(t.initializer)}); }

  Feeds feeds(int first_slot = 0) {
    Feeds out;
    for (std::size_t s = 0; s < t.images.size(); ++s) {
      out[endpoint(t.images[s])] = image_batch(first_slot + static_cast<int>(s));
      out[endpoint(t.labels[s])] = label_batch(first_slot + static_cast<int>(s));
    }
    return out;
  }
  Tensor gradient(const std::string& variable, const Feeds& fed) {
    const Node& apply = t.graph->get("train/" + variable);
    return evaluator.run(*t.graph, fed, {apply.inputs[2]}).front();
  }
};

TEST(TowerGraph, TheMeanGradientIsTheSumInSlotOrderDividedOnce) {
  Step all(3);
  Step one(1);
  for (const VariableRef& v : all.t.parameters) {
    const Tensor got = all.gradient(v.name, all.feeds());
    std::vector<Tensor> parts;
    for (int slot = 0; slot < 3; ++slot) parts.push_back(one.gradient(v.name, one.feeds(slot)));
    for (std::int64_t i = 0; i < got.num_elements(); ++i) {
      const auto at = [&](int slot) { return parts[static_cast<std::size_t>(slot)].data<float>()[i]; };
      EXPECT_EQ(got.data<float>()[i], ((at(0) + at(1)) + at(2)) / 3.0f) << v.name << " " << i;
    }
  }
}

// A batch of 12 in three parts has the gradients of three batches of 4, added and divided as those of slots.
TEST(TowerGraph, MicroBatchesAreComputedOneAfterTheOther) {
  const testing::ClassifierGraph whole =
      testing::classifier_graph(Sequential({layers::dense(5, Activation::tanh), layers::dense(3)}), Shape{6},
                                optimizers::SGD{.learning_rate = 0.5}, {.batch = 12, .micro_batches = 3});
  std::vector<float> images;
  std::vector<std::int32_t> labels;
  for (int part = 0; part < 3; ++part) {
    const Tensor i = image_batch(part), l = label_batch(part);
    images.insert(images.end(), i.values<float>().begin(), i.values<float>().end());
    labels.insert(labels.end(), l.values<std::int32_t>().begin(), l.values<std::int32_t>().end());
  }
  const Feeds feeds = {{endpoint(whole.images[0]), Tensor::of<float>(Shape{12, 6}, images)},
                       {endpoint(whole.labels[0]), Tensor::of<std::int32_t>(Shape{12}, labels)}};
  GraphEvaluator evaluator;
  evaluator.run(*whole.graph, {}, {endpoint(whole.initializer)});
  Step slots(3);
  for (const VariableRef& v : slots.t.parameters) {
    const Tensor got = evaluator.run(*whole.graph, feeds, {whole.graph->get("train/" + v.name).inputs[2]})[0];
    EXPECT_TRUE(bitwise_equal(got, slots.gradient(v.name, slots.feeds()))) << v.name;
  }
  const auto figures = evaluator.run(*whole.graph, feeds, {endpoint(whole.loss_sum), endpoint(whole.correct)});
  const auto expected =
      slots.evaluator.run(*slots.t.graph, slots.feeds(), {endpoint(slots.t.loss_sum), endpoint(slots.t.correct)});
  for (std::size_t i = 0; i < 2; ++i) EXPECT_TRUE(bitwise_equal(figures[i], expected[i])) << i;
}

TEST(TowerGraph, FiguresAreSumsOverSlots) {
  Step all(2);
  Step one(1);
  const auto figures = [](Step& step, const Feeds& fed) {
    return step.evaluator.run(*step.t.graph, fed, {endpoint(step.t.loss_sum), endpoint(step.t.correct)});
  };
  const auto both = figures(all, all.feeds());
  const auto first = figures(one, one.feeds(0));
  const auto second = figures(one, one.feeds(1));
  for (std::size_t i = 0; i < 2; ++i)
    EXPECT_EQ(both[i].item<double>(), first[i].item<double>() + second[i].item<double>()) << i;
}

TEST(TowerGraph, TrainingLowersTheLossThatEvaluationSees) {
  Step all(2);
  const Feeds evaluation = {{endpoint(all.t.eval_images), image_batch(0)},
                            {endpoint(all.t.eval_labels), label_batch(0)}};
  const auto loss = [&] {
    return all.evaluator.run(*all.t.graph, evaluation, {endpoint(all.t.eval_loss_sum)}).front().item<double>();
  };
  const float before = loss();
  for (int i = 0; i < 200; ++i) all.evaluator.run(*all.t.graph, all.feeds(), {endpoint(all.t.train)});
  EXPECT_LT(loss(), before / 2);
  const auto figures =
      all.evaluator.run(*all.t.graph, evaluation, {endpoint(all.t.eval_correct), endpoint(all.t.probabilities)});
  EXPECT_LE(figures[0].item<double>(), 4);
  float row = 0;
  for (int c = 0; c < 3; ++c) row += figures[1].data<float>()[c];
  EXPECT_FLOAT_EQ(row, 1);
}

}  // namespace
}  // namespace troupe
