// Optimized graphs have the bits of the graphs they were made from.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/graph/training/classifier_graph.hpp"
#include "tests/kernels/evaluate_graph.hpp"
#include <troupe/graph/passes/callable.hpp>
#include <troupe/graph/passes/optimize.hpp>

namespace troupe {
namespace {

using testing::Feeds;
using testing::GraphEvaluator;

// A call of a graph, compiled by `passes`; runs like a session, with variables of its own.
class Call {
 public:
  Call(const Graph& graph, Signature signature, std::set<std::string> switched_off) : signature_(signature) {
    OptimizeOptions options;
    options.switched_off = std::move(switched_off);
    options.report = [this](const PassReport& r) { notes.insert(notes.end(), r.notes.begin(), r.notes.end()); };
    compiled = optimize(make_callable_graph(graph, signature), options);
  }

  std::vector<Tensor> run(GraphEvaluator& evaluator, const std::vector<Tensor>& fed) {
    Feeds feeds;
    std::vector<Endpoint> wanted(signature_.fetches.size());
    for (int id = 0; id < compiled->size(); ++id) {
      const Node& node = compiled->node(id);
      if (node.op->name == "Feed") feeds[{id, 0}] = fed[static_cast<std::size_t>(node.attributes.integer("index"))];
      if (node.op->name == "Fetch") wanted[static_cast<std::size_t>(node.attributes.integer("index"))] = node.inputs[0];
    }
    for (const std::string& target : signature_.targets) wanted.push_back({compiled->get(target).id, 0});
    std::vector<Tensor> out = evaluator.run(*compiled, feeds, wanted);
    out.resize(signature_.fetches.size());
    return out;
  }

  std::unique_ptr<Graph> compiled;
  PassNotes notes;

 private:
  Signature signature_;
};

std::set<std::string> all_fusions() {
  std::set<std::string> out;
  for (const Pass& pass : optimizations({}))
    if (!pass.name.starts_with("prune")) out.insert(pass.name);
  return out;
}

template <class T, class Draw>
Tensor drawn(const Shape& shape, Draw draw) {
  Tensor t(dtype_of<T>, shape);
  for (T& value : t.mutable_values<T>()) value = static_cast<T>(draw());
  return t;
}

std::vector<Tensor> batches(int slots, std::uint32_t seed) {
  std::mt19937 engine(seed);
  std::vector<Tensor> out;
  for (int i = 0; i < slots; ++i)
    out.push_back(drawn<float>({6, 8, 8, 1}, [&] { return std::uniform_real_distribution<float>(0, 1)(engine); }));
  for (int i = 0; i < slots; ++i) out.push_back(drawn<std::int32_t>({6}, [&] { return engine() % 5; }));
  return out;
}

struct Training {
  testing::ClassifierGraph t;
  Signature signature;

  Training(const Optimizer& optimizer, int slots)
      : t(testing::classifier_graph(
            Sequential({layers::conv2d(3, 3, Activation::relu), layers::max_pool(2), layers::flatten(),
                        layers::dropout(0.25), layers::dense(7, Activation::tanh), layers::dense(6, Activation::relu),
                        layers::dense(5, Activation::softplus), layers::dense(5)}),
            Shape{8, 8, 1}, optimizer, {.slots = slots})) {
    for (const Output& o : t.images) signature.feeds.push_back(o.name());
    for (const Output& o : t.labels) signature.feeds.push_back(o.name());
    signature.fetches = {t.loss_sum.name(), t.correct.name()};
    signature.targets = {t.train.name()};
  }

  // The figures of each step, and the variables at the end.
  std::vector<Tensor> run(std::set<std::string> switched_off, PassNotes& notes) {
    GraphEvaluator evaluator(2);
    evaluator.run(*t.graph, {}, {{t.initializer.node, 0}});
    Call call(*t.graph, signature, std::move(switched_off));
    notes = call.notes;
    std::vector<Tensor> out;
    for (std::uint32_t step = 0; step < 4; ++step) {
      evaluator.random_key.step = step;
      for (Tensor& figure : call.run(evaluator, batches(static_cast<int>(t.images.size()), step)))
        out.push_back(std::move(figure));
    }
    for (const VariableInfo& v : variables(*t.graph))
      out.push_back(evaluator.run(find_variable(*t.graph, v.name).read()));
    return out;
  }
};

void expect_same(const std::vector<Tensor>& got, const std::vector<Tensor>& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (testing::kernel_target().on_host() || got[i].dtype() != DType::f32) {
      EXPECT_TRUE(bitwise_equal(got[i], wanted[i])) << i;
      continue;
    }
    // A library may add the terms of a fused product in another order.
    ASSERT_EQ(got[i].shape(), wanted[i].shape()) << i;
    for (std::int64_t k = 0; k < got[i].num_elements(); ++k)
      EXPECT_NEAR(got[i].data<float>()[k], wanted[i].data<float>()[k], 1e-3) << i;
  }
}

bool has_note(const PassNotes& notes, const std::string& note) {
  return std::ranges::any_of(notes, [&](const std::string& n) { return n.find(note) != std::string::npos; });
}

TEST(Fusion, TrainingHasTheSameBitsWithEveryOptimizer) {
  const std::vector<std::pair<Optimizer, std::string>> optimizers = {
      {optimizers::SGD{.learning_rate = 0.3}, "ApplySGDMany"},
      {optimizers::Momentum{.learning_rate = 0.1, .nesterov = true}, "ApplyMomentumMany"},
      {optimizers::Adagrad{.learning_rate = 0.1}, "ApplyAdagradMany"},
      {optimizers::RMSProp{.learning_rate = 0.01, .momentum = 0.5}, "ApplyRMSPropMany"},
      {optimizers::Adam{.learning_rate = 0.01}, "ApplyAdamMany"},
      {optimizers::AdamW{.learning_rate = 0.01, .amsgrad = true, .weight_decay = {.rate = 0.1, .except = {"*bias"}}},
       "ApplyAMSGradMany"},
      {optimizers::Adadelta{.learning_rate = 0.1, .average = averages::Exponential{}}, "ApplyAdadeltaMany"},
      {optimizers::Ftrl{.learning_rate = 0.1, .l1 = 0.01}, "ApplyFtrlMany"},
      {optimizers::Lion{.learning_rate = 0.001, .weight_decay = {.rate = 0.1}}, "ApplyLionMany"},
      {optimizers::RMSProp{.learning_rate = 0.01, .centered = true}, "ApplyCenteredRMSPropMany"},
      {optimizers::Adamax{.learning_rate = 0.01}, "ApplyAdamaxMany"},
      {optimizers::Nadam{.learning_rate = 0.01}, "ApplyNadamMany"}};
  for (const auto& [optimizer, op] : optimizers)
    for (int slots : {1, 2}) {
      SCOPED_TRACE(fmt::format("{} {}", name(optimizer), slots));
      Training training(optimizer, slots);
      PassNotes notes, none;
      const std::vector<Tensor> fused = training.run({}, notes);
      expect_same(fused, training.run(all_fusions(), none));
      EXPECT_EQ(none, PassNotes());
      EXPECT_TRUE(has_note(notes, "-> " + op + " 'train/"));
      EXPECT_TRUE(has_note(notes, "fused conv2d/Conv + conv2d/BiasAdd + conv2d/Relu -> FusedConv 'conv2d/Relu'"));
      EXPECT_TRUE(has_note(notes, "fused dense_2/MatMul + dense_2/BiasAdd -> FusedMatMul 'dense_2/BiasAdd'"));
    }
}

}  // namespace
}  // namespace troupe
