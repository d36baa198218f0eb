#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "tests/graph/messages.hpp"
#include "tests/graph/training/classifier_graph.hpp"
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/passes/callable.hpp>
#include <troupe/graph/passes/shard_variables.hpp>

namespace troupe {
namespace {

using testing::message_of;
using Strings = std::vector<std::string>;

const Shape kImage{28, 28, 1};

Sequential model() {
  return Sequential({layers::conv2d(4, 3, Activation::relu), layers::max_pool(2), layers::flatten(),
                     layers::dropout(0.5), layers::dense(16, Activation::tanh), layers::dropout(0.25),
                     layers::dense(10)});
}

testing::ClassifierGraph build(TowerOptions options = {},
                               const Optimizer& optimizer = optimizers::SGD{.learning_rate = 0.5}) {
  return testing::classifier_graph(model(), kImage, optimizer, options);
}

// The parts of variables ("dense/kernel", "dense/kernel/read", ...) belong to no tower.
bool of_variable(const testing::ClassifierGraph& t, const Node& node) {
  return std::ranges::any_of(
      t.parameters, [&](const VariableRef& v) { return node.name == v.name || node.name.starts_with(v.name + "/"); });
}

std::vector<const Node*> tower(const testing::ClassifierGraph& t, int slot) {
  std::vector<const Node*> out;
  for (int id = 0; id < t.graph->size(); ++id) {
    const Node& node = t.graph->node(id);
    if (node.attributes.has("_slot") && node.attributes.integer("_slot") == slot && !of_variable(t, node))
      out.push_back(&node);
  }
  return out;
}

std::string original(const Node& node) {
  return node.attributes.has("_original_name") ? node.attributes.string("_original_name") : node.name;
}

// A node as others of its tower see it: names of its own tower without the slot.
std::string described(const Graph& graph, const Node& node) {
  std::string text = original(node) + " = " + node.op->name + "(";
  for (const Endpoint& e : node.inputs) text += fmt::format("{}:{} ", original(graph.node(e.node)), e.index);
  for (int c : node.controls) text += fmt::format("^{} ", original(graph.node(c)));
  text += ")";
  for (const auto& [key, value] : node.attributes.all())
    if (!key.starts_with('_')) text += fmt::format(" {}={}", key, to_string(value));
  for (const Shape& shape : node.output_shapes) text += fmt::format(" {}", shape.to_string());
  return text;
}

Strings described(const testing::ClassifierGraph& t, int slot) {
  Strings out;
  for (const Node* node : tower(t, slot)) out.push_back(described(*t.graph, *node));
  return out;
}

TEST(Towers, OneSlotIsAPlainTrainingGraph) {
  const testing::ClassifierGraph t = build();
  ASSERT_EQ(t.images.size(), 1u);
  EXPECT_EQ(t.images[0].name(), "images");
  EXPECT_EQ(t.images[0].shape(), (Shape{kUnknown, 28, 28, 1}));
  EXPECT_EQ(t.labels[0].name(), "labels");
  EXPECT_EQ(t.labels[0].dtype(), DType::i32);
  ASSERT_EQ(t.phases.size(), 1u);
  EXPECT_EQ(t.phases[0].name, "loss");
  EXPECT_EQ(t.phases[0].figures.at(0).dtype(), DType::f64);
  EXPECT_EQ(t.phases[0].figures.at(0).shape(), Shape{4});
  EXPECT_EQ(t.phases[0].layout.figures().at(1).first, "accuracy");
  EXPECT_TRUE(t.frozen.empty());
  EXPECT_EQ(t.train.name(), "train");
  EXPECT_EQ(t.initializer.name(), "initializer");
  EXPECT_EQ(t.probabilities.shape(), (Shape{kUnknown, 10}));
  EXPECT_EQ(t.probabilities.source().op->name, "Softmax");
  Strings names;
  for (const VariableRef& v : t.parameters) names.push_back(v.name);
  EXPECT_EQ(names,
            (Strings{"conv2d/kernel", "conv2d/bias", "dense/kernel", "dense/bias", "dense_1/kernel", "dense_1/bias"}));
}

// Otherwise every worker of a cluster would draw the randomness of slot 0.
TEST(Towers, OneSlotLeavesTheSlotToTheSession) {
  const testing::ClassifierGraph t = build();
  for (int id = 0; id < t.graph->size(); ++id) {
    EXPECT_FALSE(t.graph->node(id).attributes.has("_slot")) << t.graph->node(id).name;
    EXPECT_FALSE(t.graph->node(id).attributes.has("_original_name")) << t.graph->node(id).name;
  }
}

TEST(Towers, TowersAreAlikeNodeByNode) {
  const testing::ClassifierGraph t = build({.slots = 3});
  const Strings first = described(t, 0);
  EXPECT_GT(first.size(), 40u);
  EXPECT_EQ(described(t, 1), first);
  EXPECT_EQ(described(t, 2), first);
  for (const Node* node : tower(t, 2)) EXPECT_EQ(node->name, "slot_2/" + original(*node));
}

TEST(Towers, ATowerIsNamedLikeAGraphOfOneSlot) {
  const testing::ClassifierGraph one = build();
  const testing::ClassifierGraph three = build({.slots = 3});
  for (const Node* node : tower(three, 2)) {
    const Node* same = one.graph->find(original(*node));
    ASSERT_TRUE(same) << original(*node);
    EXPECT_EQ(described(*three.graph, *node), described(*one.graph, *same)) << node->name;
  }
  for (const VariableRef& v : three.parameters) EXPECT_TRUE(one.graph->find(v.name)) << v.name;
}

TEST(Towers, TowersShareTheVariables) {
  const testing::ClassifierGraph t = build({.slots = 4});
  std::map<std::string, int> ops;
  for (int id = 0; id < t.graph->size(); ++id) ++ops[t.graph->node(id).op->name];
  EXPECT_EQ(ops["Variable"], 6);
  EXPECT_EQ(ops["RandomUniform"], 3);
  EXPECT_EQ(ops["Dropout"], 8);  // none for evaluation
}

TEST(Towers, GradientsAreSummedInSlotOrderAndDividedOnce) {
  const testing::ClassifierGraph t = build({.slots = 3});
  const Graph& g = *t.graph;
  const Node& apply = g.get("train/dense/kernel");
  const Node& divided = g.node(apply.inputs[2].node);
  EXPECT_EQ(divided.name, "mean_gradients/dense/kernel/mean");
  EXPECT_EQ(divided.op->name, "Div");
  EXPECT_EQ(g.node(divided.inputs[1].node).attributes.tensor("value").item<float>(), 3.0f);
  const Node& sum = g.node(divided.inputs[0].node);
  EXPECT_EQ(sum.op->name, "AddN");
  ASSERT_EQ(sum.inputs.size(), 3u);
  for (std::size_t slot = 0; slot < 3; ++slot)
    EXPECT_EQ(g.node(sum.inputs[slot].node).attributes.integer("_slot"), static_cast<std::int64_t>(slot));
  // One slot: neither sum nor division.
  const testing::ClassifierGraph one = build();
  EXPECT_TRUE(one.graph->node(one.graph->get("train/dense/kernel").inputs[2].node).name.starts_with("gradients/"));
}

// Looks up rows of a table by the pixels: its gradient is sparse.
class Embedding : public Layer {
 public:
  std::string kind() const override { return "embedding"; }
  Output apply(LayerContext& context, Output x) const override {
    const Output table = context.weight("table", {.shape = Shape{256, 3}}, initializers::glorot_uniform()).read();
    const Output rows = cast(x, DType::i64);
    return gather(table, rows) + gather(table, rows);  // joined beside the variable, not in the tower
  }
};

// Otherwise all would be in memory at the same time.
TEST(Towers, AMicroBatchStartsWhenTheOneBeforeHasItsGradients) {
  const testing::ClassifierGraph t = build({.slots = 2, .batch = 12, .micro_batches = 3});
  const Graph& g = *t.graph;
  const Node& part = g.get("slot_1/micro_2/images_part");
  EXPECT_EQ(part.output_shapes[0], (Shape{4, 28, 28, 1}));
  EXPECT_EQ(g.node(part.inputs[0].node).name, "slot_1/images");
  Strings before;
  for (int c : part.controls) before.push_back(g.node(c).name);
  for (const VariableRef& v : t.parameters)
    EXPECT_EQ(std::ranges::count(before, "slot_1/micro_1/sum/" + v.name), 1) << v.name;
  EXPECT_EQ(described(t, 1), described(t, 0));
  // Each draws random numbers of its own.
  EXPECT_EQ(g.get("slot_1/micro_2/dropout/Dropout").attributes.string("_original_name"), "micro_2/dropout/Dropout");
}

TEST(Towers, SparseGradientsAreJoinedInSlotOrder) {
  const Sequential words({std::make_shared<Embedding>(), layers::flatten(), layers::dense(2)});
  const testing::ClassifierGraph t = testing::classifier_graph(words, Shape{5}, optimizers::Adagrad{}, {.slots = 2});
  const Graph& g = *t.graph;
  const Node& apply = g.get("train/embedding/table");
  EXPECT_EQ(apply.op->name, "SparseApplyAdagrad");
  const Node& indices = g.node(apply.inputs[3].node);
  const Node& values = g.node(apply.inputs[4].node);
  EXPECT_EQ(indices.op->name, "Concat");
  EXPECT_EQ(values.op->name, "Div");
  const Node& joined = g.node(values.inputs[0].node);
  EXPECT_EQ(joined.op->name, "Concat");
  for (std::size_t slot = 0; slot < 2; ++slot)
    for (const Node* part : {&indices, &joined})
      EXPECT_EQ(g.node(part->inputs[slot].node).attributes.integer("_slot"), static_cast<std::int64_t>(slot))
          << part->name;
  EXPECT_EQ(described(t, 1), described(t, 0));
}

TEST(Towers, EachSlotHasFigures) {
  const testing::ClassifierGraph t = build({.slots = 2, .batch = 8});
  ASSERT_EQ(t.phases[0].figures.size(), 2u);
  for (std::size_t slot = 0; slot < 2; ++slot)
    EXPECT_EQ(t.phases[0].figures[slot].source().attributes.integer("_slot"), static_cast<std::int64_t>(slot));
  EXPECT_EQ(t.images[1].name(), "slot_1/images");
  EXPECT_EQ(t.images[1].shape(), (Shape{8, 28, 28, 1}));
  EXPECT_EQ(t.eval_images.name(), "evaluation/images");
  EXPECT_EQ(t.eval_images.shape(), (Shape{kUnknown, 28, 28, 1}));
}

TEST(Towers, EachTowerIsOnItsDeviceAndVariablesAreOnTheFirst) {
  const testing::ClassifierGraph t =
      build({.slots = 3, .devices = {"/device:CPU:0", "/device:CPU:1"}}, optimizers::Adam{});
  const auto device = [&](const std::string& name) { return t.graph->get(name).device; };
  const std::string first = device("dense/MatMul");
  const std::string second = device("slot_1/dense/MatMul");
  EXPECT_NE(first, second);
  EXPECT_EQ(device("slot_2/dense/MatMul"), first);
  EXPECT_EQ(device("evaluation/dense/MatMul"), first);
  EXPECT_EQ(device("mean_gradients/dense/kernel/mean"), first);
  for (const VariableInfo& v : variables(*t.graph)) EXPECT_EQ(device(v.name), first) << v.name;
  for (const Node* node : tower(t, 1)) EXPECT_EQ(node->device, second) << node->name;
}

TEST(Towers, InitializationNeedsNoFeedAndNoUpdate) {
  for (int slots : {1, 2}) {
    const testing::ClassifierGraph t = build({.slots = slots}, optimizers::RMSProp{});
    const auto start = make_callable_graph(*t.graph, {.targets = {t.initializer.name()}});
    int assigned = 0;
    for (int id = 0; id < start->size(); ++id) {
      const std::string& op = start->node(id).op->name;
      EXPECT_TRUE(op != "Placeholder" && op != "ReadVariable") << start->node(id).name;
      assigned += op == "AssignVariable";
    }
    EXPECT_EQ(assigned, 6 + 12) << slots << " slots";
  }
}

TEST(Towers, EvaluationNeitherUpdatesNorDrops) {
  const testing::ClassifierGraph t = build({}, optimizers::Adam{});
  const auto evaluation = make_callable_graph(
      *t.graph, {.feeds = {t.eval_images.name(), t.eval_labels.name()},
                 .fetches = {t.eval_loss_sum.name(), t.eval_correct.name(), t.probabilities.name()}});
  for (int id = 0; id < evaluation->size(); ++id) {
    const std::string& op = evaluation->node(id).op->name;
    EXPECT_FALSE(op == "Dropout" || op.starts_with("Apply") || op == "Placeholder") << evaluation->node(id).name;
  }
}

TEST(Towers, TheGraphOfAClusterCanBeSharded) {
  const testing::ClassifierGraph t = build({}, optimizers::Adam{});
  const ShardedGraph sharded = shard_variables(*t.graph, ShardMap(updated_variables(*t.graph), 3));
  EXPECT_EQ(sharded.rules.size(), t.parameters.size());
  for (const auto& [variable, rule] : sharded.rules) EXPECT_TRUE(rule.counts_updates) << variable;
  const auto step = make_callable_graph(
      *sharded.graph,
      {.feeds = {"images", "labels"}, .fetches = {t.loss_sum.name(), t.correct.name()}, .targets = {"train"}});
  std::map<std::string, int> ops;
  for (int id = 0; id < step->size(); ++id) ++ops[step->node(id).op->name];
  EXPECT_EQ(ops["Pull"], 6);
  EXPECT_EQ(ops["Push"], 6);
  EXPECT_EQ(ops["ApplyAdam"], 0);
}

TEST(Towers, WhatCannotBeBuiltIsRefused) {
  const auto error = [](const Sequential& m, const Shape& shape, const TowerOptions& options) {
    return message_of([&] { testing::classifier_graph(m, shape, optimizers::SGD{}, options); });
  };
  EXPECT_EQ(error(model(), kImage, {.slots = 0}), "training graph: there must be at least 1 slot, not 0");
  EXPECT_EQ(error(model(), kImage, {.batch = 0}), "training graph: a batch must have at least 1 example, not 0");
  EXPECT_EQ(error(model(), kImage, {.batch = 12, .micro_batches = 0}),
            "training graph: there must be at least 1 micro-batch, not 0");
  EXPECT_EQ(error(model(), kImage, {.batch = 12, .micro_batches = 5}),
            "training graph: batch size 12 is not divisible by 5 micro-batches");
  EXPECT_EQ(error(model(), kImage, {.micro_batches = 2}),
            "training graph: batch size ? is not divisible by 2 micro-batches");
  EXPECT_EQ(error(model(), Shape::unknown_rank(), {}), "component 'images': the rank of an example must be known");
  EXPECT_EQ(error(Sequential({layers::flatten()}), kImage, {}),
            "objective 'loss' trains no variable: its patterns match none that is trainable");
  EXPECT_NE(error(Sequential({layers::flatten(), layers::conv2d(3, 3)}), kImage, {})
                .find("layer 'conv2d': the input is [?,784], but must be [n, height, width, channels]"),
            std::string::npos);
}

}  // namespace
}  // namespace troupe
