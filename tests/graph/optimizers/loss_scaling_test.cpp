#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "tests/graph/count_ops.hpp"
#include "tests/graph/messages.hpp"
#include "tests/graph/training/classifier_graph.hpp"
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/optimizers/loss_scaling.hpp>
#include <troupe/graph/optimizers/optimizers.hpp>
#include <troupe/graph/passes/shard_variables.hpp>
#include <troupe/graph/rewrite.hpp>

namespace troupe {
namespace {

using testing::message_of;

TEST(LossScaling, ItsStateIsAVariableThatNobodyTrains) {
  Graph g;
  const LossScale scale = loss_scale(g, {.initial = 1024});
  const auto found = variables(g);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].name, "loss_scale/state");
  EXPECT_EQ(found[0].dtype, DType::f64);
  EXPECT_FALSE(found[0].trainable);
  EXPECT_FALSE(found[0].initializer.empty());
  EXPECT_EQ(scale.scale.dtype(), DType::f32);
  EXPECT_EQ(scale.scale.shape(), Shape{});
  EXPECT_EQ(scale.skipped.dtype(), DType::i64);
  EXPECT_EQ(scale.scaled(placeholder(g, DType::f64, Shape{}, "loss"), "scaled").dtype(), DType::f64);
}

TEST(LossScaling, UpdatesStandInBranches) {
  Graph g;
  const VariableRef w = variable(g, {.name = "w", .shape = Shape{3}, .device = "/job:worker/task:1"});
  const Output train = minimize_scaled(l2_loss(w.read()), optimizers::Adam{}, loss_scale(g, {}));
  EXPECT_EQ(train.name(), "train");
  const Node& update = g.get("train/updates");
  EXPECT_EQ(update.op->name, "If");
  EXPECT_EQ(update.device, "/job:worker/task:1");
  EXPECT_EQ(g.get("train/AllFinite").device, "/job:worker/task:1");
  EXPECT_TRUE(g.function("train/updates/then")->body->find("train/updates/then/apply/w"));
  EXPECT_EQ(g.function("train/updates/else")->body->size(),
            static_cast<int>(g.function("train/updates/else")->arguments.size()));
  EXPECT_EQ(g.get("train/loss_scale").op->name, "ApplyLossScale");
  for (int id = 0; id < g.size(); ++id) EXPECT_NE(g.node(id).op->name, "ApplyAdam") << g.node(id).name;
}

TEST(LossScaling, OneBranchHasTheUpdatesOfADevice) {
  Graph g;
  Outputs losses;
  for (int i = 0; i < 4; ++i) {
    const VariableRef w = variable(g, {.name = "w" + std::to_string(i),
                                       .shape = Shape{3},
                                       .device = i == 3 ? "/job:worker/task:1" : "/job:worker/task:0"});
    losses.push_back(l2_loss(w.read()));
  }
  minimize_scaled(add(add(losses[0], losses[1]), add(losses[2], losses[3])), optimizers::Momentum{}, loss_scale(g, {}));
  EXPECT_EQ(testing::count_ops(g, "If"), 2);
  EXPECT_EQ(testing::count_ops(*g.function("train/updates/then")->body, "ApplyMomentum"), 3);
  // The inverse of the scale comes once.
  const auto& branch = *g.function("train/updates/then");
  EXPECT_EQ(branch.arguments.size(), 1u + 3u * 3u);
  const Node& update = g.get("train/updates");
  for (const std::string name : {"w0", "w1", "w2"})
    EXPECT_TRUE(std::ranges::count(update.controls, find_variable(g, name).read().node)) << name;
}

TEST(LossScaling, OnShardsUpdatesAreMarkedAndTheStateIsOneOfThem) {
  Graph g;
  const VariableRef w = variable(g, {.name = "w", .shape = Shape{3}});
  LossScale scale = loss_scale(g, {.growth_interval = 7});
  scale.on_shards = true;
  minimize_scaled(l2_loss(w.read()), optimizers::Adam{}, scale);
  EXPECT_EQ(g.get("train/w").op->name, "ApplyAdam");
  const auto updated = updated_variables(g);
  ASSERT_EQ(updated.size(), 2u);
  const ShardedGraph sharded = shard_variables(g, ShardMap(updated, 2));
  EXPECT_TRUE(sharded.rules.at("w").guarded);
  const UpdateRule& rule = sharded.rules.at("loss_scale/state");
  EXPECT_EQ(rule.op, "ApplyLossScale");
  EXPECT_EQ(rule.attributes.integer("growth_interval"), 7);
  EXPECT_FALSE(rule.guarded);
  EXPECT_FALSE(rule.learning_rate.valid());
  EXPECT_FALSE(rule.counts_updates);
  EXPECT_TRUE(rule.slots.empty());
  EXPECT_EQ(sharded.graph->get("loss_scale/state/read").op->name, "Pull");
}

TEST(LossScaling, OnShardsSparseGradientsAreRefused) {
  Graph g;
  const VariableRef table = variable(g, {.name = "table", .shape = Shape{3, 2}});
  const Output loss = sum(gather(table.read(), constant(g, {std::int64_t{1}})));
  LossScale scale = loss_scale(g, {});
  scale.on_shards = true;
  EXPECT_EQ(message_of([&] { minimize_scaled(loss, optimizers::SGD{}, scale); }),
            "variable 'table' has a sparse gradient, which loss scaling on shards does not support; use bf16");
}

TEST(LossScaling, EachDeviceAndDtypeLooksAtItsOwnGradients) {
  Graph g;
  const VariableRef a = variable(g, {.name = "a", .shape = Shape{3}, .device = "/job:worker/task:1"});
  const VariableRef b = variable(g, {.name = "b", .shape = Shape{3}, .device = "/job:worker/task:2"});
  const VariableRef c = variable(g, {.name = "c", .shape = Shape{3}, .device = "/job:worker/task:2"});
  const std::vector<VariableRef> all = {a, b, c};
  std::vector<Gradient> gradients;
  for (const VariableRef& v : all) gradients.push_back({.dense = v.read()});
  const Output finite = all_finite(gradients, all);
  EXPECT_EQ(finite.source().op->name, "LogicalAnd");
  const Node& first = g.node(finite.source().inputs[0].node);
  const Node& second = g.node(finite.source().inputs[1].node);
  EXPECT_EQ(first.device, "/job:worker/task:1");
  EXPECT_EQ(first.inputs.size(), 1u);
  EXPECT_EQ(second.device, "/job:worker/task:2");
  EXPECT_EQ(second.inputs.size(), 2u);
}

TEST(LossScaling, TowersShareOneScale) {
  const testing::ClassifierGraph t = testing::classifier_graph(
      Sequential({layers::dense(3)}), Shape{4}, optimizers::SGD{}, {.slots = 2, .loss_scaling = LossScaling{}});
  ASSERT_TRUE(t.loss_scale);
  const int read = t.loss_scale->scale.node;
  for (const char* name : {"scaled_loss", "slot_1/scaled_loss"})
    EXPECT_EQ(t.graph->get(name).inputs[1].node, read) << name;
  // What is looked at is what all slots come to.
  const Node& finite = t.graph->get("train/AllFinite");
  for (const Endpoint& e : finite.inputs)
    EXPECT_EQ(t.graph->node(e.node).name.substr(0, 15), "mean_gradients/") << t.graph->node(e.node).name;
  EXPECT_EQ(t.parameters.size(), 2u);
  // The figure is that of the loss, not of the scaled one.
  EXPECT_EQ(t.graph->node(t.graph->get("scaled_loss").inputs[0].node).name, "loss/mean");
}

TEST(LossScaling, OptionsThatMakeNoSenseAreRefused) {
  Graph g;
  for (const double initial : {0.0, -2.0, 3.0, 0.5, 33554432.0, std::nan("")})
    EXPECT_EQ(message_of([&] { loss_scale(g, {.initial = initial}); }),
              fmt::format("loss scaling: the initial scale must be a power of two from 1 to 2^24, not {}", initial));
  EXPECT_EQ(message_of([&] { loss_scale(g, {.growth_interval = 0}); }),
            "loss scaling: the growth interval must be at least 1 step, not 0");
  EXPECT_EQ(g.size(), 0);
  Graph other;
  const LossScale scale = loss_scale(other, {});
  const VariableRef w = variable(g, {.name = "w", .shape = Shape{3}});
  const std::vector<GradientAndVariable> gradients = {{{.dense = w.read()}, w}};
  EXPECT_EQ(message_of([&] { apply_scaled_gradients(g, optimizers::SGD{}, scale, gradients); }),
            "apply_scaled_gradients: the loss scale belongs to another graph");
  EXPECT_EQ(message_of([&] { all_finite({}, {}); }), "all_finite: 0 gradients for 0 variables");
}

}  // namespace
}  // namespace troupe
