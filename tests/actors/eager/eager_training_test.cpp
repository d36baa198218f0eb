// Training line by line ends with the bits of the same training in a graph, with each optimizer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/actors/eager/eager_testing.hpp"
#include "tests/error_of.hpp"
#include <troupe/actors/cluster/task.hpp>
#include <troupe/actors/eager/eager.hpp>
#include <troupe/actors/session/session.hpp>
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/builder/variable.hpp>
#include <troupe/graph/gradients/autodiff.hpp>
#include <troupe/graph/gradients/tape.hpp>
#include <troupe/graph/layers/layers.hpp>
#include <troupe/graph/metrics/classes.hpp>
#include <troupe/graph/metrics/metrics.hpp>
#include <troupe/graph/optimizers/optimizers.hpp>
#include <troupe/graph/optimizers/running_average.hpp>
#include <troupe/graph/optimizers/weight_averages.hpp>

namespace troupe {
namespace {

using testing::numbers;
using testing::Weights;

using ::testing::HasSubstr;

struct OptimizerCase {
  std::string name;
  Optimizer optimizer;
};
void PrintTo(const OptimizerCase& c, std::ostream* out) { *out << c.name; }

Tensor rows_of(int step) {
  return Tensor::vector<std::int64_t>({step % 10, (3 * step + 1) % 10, step % 10, (7 * step + 2) % 10});
}

class EagerTraining : public ::testing::TestWithParam<OptimizerCase> {
 protected:
  static constexpr int kSteps = 6;
  Task task_;
};

TEST_P(EagerTraining, EndsWithTheBitsOfAGraph) {
  Graph graph;
  const Weights built(graph);
  const Output rows = placeholder(graph, DType::i64, {4}), wanted = placeholder(graph, DType::f32, {4, 4});
  const Output loss = built.loss(rows, wanted);
  const Output train = minimize(loss, GetParam().optimizer);
  Outputs state;
  for (const VariableInfo& info : variables(graph)) state.push_back(find_variable(graph, info.name).read());
  const Output first = initializer(graph);
  Session session(task_, graph);
  session.run_targets({first});

  Eager eager(task_);
  const Weights weights(eager.graph());
  EagerOptimizer optimizer(GetParam().optimizer);
  for (int step = 0; step < kSteps; ++step) {
    const Tensor target = numbers({4, 4}, 100 + step);
    const Tensor in_graph = session.run({{rows, rows_of(step)}, {wanted, target}}, {loss}, {train})[0];
    const Output at_once = optimizer.minimize(
        [&] { return weights.loss(constant(eager.graph(), rows_of(step)), constant(eager.graph(), target)); },
        weights.all);
    EXPECT_TRUE(bitwise_equal(at_once.value(), in_graph)) << "step " << step;
  }

  std::vector<VariableRef> mine = weights.all;
  for (const VariableRef& kept : optimizer.variables()) mine.push_back(kept);
  EXPECT_EQ(mine.size(), variables(graph).size());
  const std::vector<Tensor> values = session.run(state);
  std::size_t i = 0;
  for (const VariableInfo& info : variables(graph)) {
    const auto same = std::ranges::find(mine, info.name, &VariableRef::name);
    ASSERT_NE(same, mine.end()) << info.name;
    EXPECT_TRUE(bitwise_equal(same->read().value(), values[i++])) << info.name;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, EagerTraining,
    ::testing::Values(
        OptimizerCase{"SGD", optimizers::SGD{.learning_rate = 0.1}},
        OptimizerCase{"Momentum", optimizers::Momentum{.learning_rate = 0.1}},
        OptimizerCase{"Adagrad", optimizers::Adagrad{.learning_rate = 0.1}},
        OptimizerCase{"RmsProp", optimizers::RMSProp{.learning_rate = 0.01}},
        OptimizerCase{"Adam", optimizers::Adam{.learning_rate = 0.01}},
        OptimizerCase{"AdamW", optimizers::AdamW{.learning_rate = 0.01}},
        OptimizerCase{"Adamax", optimizers::Adamax{.learning_rate = 0.01}},
        OptimizerCase{"Nadam", optimizers::Nadam{.learning_rate = 0.01}},
        OptimizerCase{"Adadelta", optimizers::Adadelta{.learning_rate = 0.01}},
        OptimizerCase{"Ftrl", optimizers::Ftrl{.learning_rate = 0.01}},
        OptimizerCase{"Lion", optimizers::Lion{.learning_rate = 0.01}},
        OptimizerCase{"FallingRate", optimizers::SGD{.learning_rate = schedules::Cosine{.rate = 0.1, .steps = 5}}},
        OptimizerCase{"Averages", optimizers::Adam{.learning_rate = 0.01, .average = averages::Exponential{}}}),
    [](const auto& info) { return info.param.name; });

// Layers have their weights in a pool in either mode; running averages follow.
TEST(EagerLayers, TrainAsInAGraph) {
  const Sequential network({layers::dense(6, Activation::tanh), layers::batch_norm(), layers::dense(3)});
  const auto loss_of = [&](Graph& graph, VariablePool& pool, std::vector<RunningAverage>& averages, const Output& x,
                           const Output& labels) {
    LayerContext training{.graph = graph, .training = true, .variables = pool, .averages = &averages};
    return mean(sparse_softmax_cross_entropy(network.apply(training, x), labels));
  };
  const auto all_gradients = [](std::vector<Gradient> found, const VariablePool& pool,
                                const std::vector<RunningAverage>& averages) {
    std::vector<GradientAndVariable> out;
    for (std::size_t i = 0; i < found.size(); ++i) out.push_back({found[i], pool.trainable()[i]});
    for (const GradientAndVariable& move : moves_of(averages)) out.push_back(move);
    return out;
  };
  const Optimizer adam = optimizers::Adam{.learning_rate = 0.05};
  const Tensor labels = Tensor::vector<std::int64_t>({0, 2, 1, 1, 2});

  Task task;
  Graph graph;
  VariablePool built;
  std::vector<RunningAverage> built_averages;
  const Output fed = placeholder(graph, DType::f32, {5, 4});
  const Output loss = loss_of(graph, built, built_averages, fed, constant(graph, labels));
  Outputs reads;
  for (const VariableRef& weight : built.trainable()) reads.push_back(weight.read());
  const Output train =
      apply_gradients(graph, adam, all_gradients(gradients(Outputs{loss}, reads), built, built_averages));
  const Output initial = initializer(graph);
  Outputs state;
  for (const VariableRef& weight : built.all()) state.push_back(weight.read());
  Session session(task, graph);
  session.run_targets({initial});

  Eager eager(task);
  VariablePool pool;
  std::vector<RunningAverage> first;
  loss_of(eager.graph(), pool, first, constant(eager.graph(), numbers({5, 4}, 1)), constant(eager.graph(), labels));
  ASSERT_EQ(pool.all().size(), built.all().size());
  for (std::size_t i = 0; i < pool.all().size(); ++i)
    pool.all()[i].assign(constant(eager.graph(), session.run(state[i])));
  EagerOptimizer optimizer(adam);
  for (int step = 0; step < 4; ++step) {
    const Tensor x = numbers({5, 4}, 10 + step);
    const Tensor in_graph = session.run({{fed, x}}, {loss}, {train})[0];
    GradientTape tape;
    std::vector<RunningAverage> averages;
    const Output at_once =
        loss_of(eager.graph(), pool, averages, constant(eager.graph(), x), constant(eager.graph(), labels));
    Outputs weights;
    for (const VariableRef& weight : pool.trainable()) weights.push_back(weight.handle);
    optimizer.apply(all_gradients(tape.gradients(Outputs{at_once}, weights), pool, averages));
    EXPECT_TRUE(bitwise_equal(at_once.value(), in_graph)) << "step " << step;
  }
  for (std::size_t i = 0; i < pool.all().size(); ++i)
    EXPECT_TRUE(bitwise_equal(pool.all()[i].read().value(), session.run(state[i]))) << pool.all()[i].name;
}

// Sums of a metric, and their result.
TEST(EagerMetrics, AreThoseOfAGraph) {
  Eager eager;
  const Metric accuracy = metrics::accuracy();
  const Output outputs = constant(eager.graph(), Tensor::of<float>({3, 2}, {1, 2, 4, 3, 5, 6}));
  const Output sums = accuracy.sums(
      {.outputs = outputs, .targets = constant(eager.graph(), {std::int64_t{1}, std::int64_t{0}, std::int64_t{0}})});
  EXPECT_DOUBLE_EQ(accuracy.result(sums.value()).item<double>(), 2.0 / 3);
}

template <class F>
std::string refusal_of(F&& f) {
  return testing::error_of(f).message();
}

TEST(EagerOptimizers, SayWhatTheyNeed) {
  Eager eager;
  const Weights weights(eager.graph());
  EXPECT_THAT(refusal_of([] { EagerOptimizer wrong(optimizers::SGD{.learning_rate = -1}); }),
              HasSubstr("learning_rate"));
  EagerOptimizer optimizer(optimizers::SGD{.learning_rate = 0.1});
  EXPECT_THAT(refusal_of([&] { optimizer.apply({}); }), HasSubstr("no variables"));
  const auto apart = [&] { return sum(square(weights.w.read())); };
  EXPECT_THAT(refusal_of([&] { optimizer.minimize(apart, weights.all); }),
              HasSubstr("the loss does not depend on variable 'table'"));
  EXPECT_THAT(refusal_of([&] { optimizer.minimize([&] { return weights.w.read(); }, {weights.w}); }),
              HasSubstr("must be a scalar"));
  Graph graph;
  const VariableRef other = variable(graph, {.shape = {2}});
  const std::vector<GradientAndVariable> foreign{{.gradient = {.dense = other.read()}, .variable = other}};
  EXPECT_THAT(refusal_of([&] { optimizer.apply(foreign); }), HasSubstr("use apply_gradients"));
  const std::vector<GradientAndVariable> own{{.gradient = {.dense = weights.b.read()}, .variable = weights.b}};
  EXPECT_THAT(refusal_of([&] { apply_gradients(eager.graph(), optimizers::SGD{.learning_rate = 0.1}, own); }),
              HasSubstr("EagerOptimizer"));
}

}  // namespace
}  // namespace troupe
