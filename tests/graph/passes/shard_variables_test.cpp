#include <gtest/gtest.h>

#include "tests/graph/graph_builder.hpp"
#include <troupe/graph/builder/variable.hpp>
#include <troupe/graph/passes/callable.hpp>
#include <troupe/graph/passes/shard_variables.hpp>

namespace troupe {
namespace {

const Shape kLarge{3 << 18, 2};  // 6 MiB of f32: cut in two

// loss = w + x, trained by SGD.
struct Sgd : GraphBuilder {
  VariableRef w;
  explicit Sgd(Shape shape = {2}) {
    w = troupe::variable(g, {.name = "w", .shape = shape, .device = "/job:ps"});
    Output x = placeholder("x", shape);
    Output y = add("Add", "y", {w.read(), x});
    Output lr = constant("lr", 0.5f);
    g.add({.op = "ApplySGD", .name = "train", .inputs = {w.handle, lr, y}, .controls = {x}, .colocate_with = "w"});
  }
  ShardMap map(int shards = 2) { return ShardMap(updated_variables(g), shards); }
};

// What a call of these fetches and targets runs, after sharding.
std::string call(const ShardedGraph& s, const Signature& signature) {
  return make_callable_graph(*s.graph, signature)->dump();
}

TEST(ShardVariables, ReadBecomesPullAndApplyBecomesPush) {
  Sgd e;
  const ShardedGraph s = shard_variables(e.g, e.map());
  EXPECT_EQ(e.g.dump(),
            "w/zeros/dims = Const() T=i64 value=i64[1] = 2 -> i64[1] @ /job:ps\n"
            "w/zeros/value = Const() T=f32 value=f32[] = 0 -> f32[] @ /job:ps\n"
            "w/zeros/Fill = Fill(w/zeros/dims, w/zeros/value) T=f32 -> f32[2] @ /job:ps\n"
            "w/initial_value = Identity(w/zeros/Fill) T=f32 -> f32[2] @ /job:ps\n"
            "w = Variable() T=f32 _initial_value=\"w/initial_value\" _initializer=\"w/assign\" _trainable=true "
            "shape=[2] -> resource[2] @ /job:ps\n"
            "w/assign = AssignVariable(w, w/initial_value) T=f32 -> f32[2] @ /job:ps with w\n"
            "w/read = ReadVariable(w) T=f32 -> f32[2] @ /job:ps with w\n"
            "x = Placeholder() T=f32 shape=[2] -> f32[2]\n"
            "y = Add(w/read, x) T=f32 -> f32[2]\n"
            "lr = Const() T=f32 value=f32[] = 0.5 -> f32[]\n"
            "train = ApplySGD(w, lr, y, ^x) T=f32 with w\n");
  EXPECT_EQ(s.graph->dump(),
            "w/zeros/dims = Const() T=i64 value=i64[1] = 2 -> i64[1] @ /job:ps\n"
            "w/zeros/value = Const() T=f32 value=f32[] = 0 -> f32[] @ /job:ps\n"
            "w/zeros/Fill = Fill(w/zeros/dims, w/zeros/value) T=f32 -> f32[2] @ /job:ps\n"
            "w/initial_value = Identity(w/zeros/Fill) T=f32 -> f32[2] @ /job:ps\n"
            "w/assign = NoOp()\n"
            "w/read = Pull() T=f32 shape=[2] shard=0 slice=0 -> f32[2]\n"
            "x = Placeholder() T=f32 shape=[2] -> f32[2]\n"
            "y = Add(w/read, x) T=f32 -> f32[2]\n"
            "lr = Const() T=f32 value=f32[] = 0.5 -> f32[]\n"
            "train/push_0 = Push(y, ^x) T=f32 shard=0 slice=0\n"
            "train = NoOp(^train/push_0)\n");
  EXPECT_EQ(s.initial_values, (std::map<std::string, std::string>{{"w", "w/initial_value"}}));
  ASSERT_EQ(s.rules.size(), 1u);
  const UpdateRule& rule = s.rules.at("w");
  EXPECT_EQ(rule.op, "ApplySGD");
  EXPECT_EQ(rule.learning_rate.item<float>(), 0.5f);
  EXPECT_TRUE(rule.slots.empty());
  EXPECT_FALSE(rule.counts_updates);
  EXPECT_FALSE(rule.sparse);
}

TEST(ShardVariables, ACallOfTheStepHasNeitherVariableNorInitializer) {
  Sgd e;
  const ShardedGraph s = shard_variables(e.g, e.map());
  EXPECT_EQ(call(s, {.feeds = {"x"}, .fetches = {"w/read"}, .targets = {"train"}}),
            "x/feed = Feed() T=f32 index=0 shape=[2] -> f32[2]\n"
            "w/read = Pull() T=f32 shape=[2] shard=0 slice=0 -> f32[2]\n"
            "y = Add(w/read, x/feed) T=f32 -> f32[2]\n"
            "train/push_0 = Push(y, ^x/feed) T=f32 shard=0 slice=0\n"
            "train = NoOp(^train/push_0) _target=true\n"
            "w/read/fetch = Fetch(w/read) T=f32 index=0\n");
  // Reading alone pushes nothing.
  EXPECT_EQ(call(s, {.fetches = {"w/read"}}),
            "w/read = Pull() T=f32 shape=[2] shard=0 slice=0 -> f32[2]\n"
            "w/read/fetch = Fetch(w/read) T=f32 index=0\n");
}

TEST(ShardVariables, ACutVariableIsPulledAndPushedByRows) {
  Sgd e(kLarge);
  const ShardedGraph s = shard_variables(e.g, e.map());
  const std::string half = "[393216,2]";
  const std::string whole = "[786432,2]";
  EXPECT_EQ(call(s, {.feeds = {"x"}, .targets = {"train"}}),
            "x/feed = Feed() T=f32 index=0 shape=" + whole + " -> f32" + whole +
                "\n"
                "w/read/slice_0 = Pull() T=f32 shape=" +
                half + " shard=0 slice=0 -> f32" + half +
                "\n"
                "w/read/slice_1 = Pull() T=f32 shape=" +
                half + " shard=1 slice=1 -> f32" + half +
                "\n"
                "w/read = Concat(w/read/slice_0, w/read/slice_1) N=2 T=f32 axis=0 -> f32" +
                whole +
                "\n"
                "y = Add(w/read, x/feed) T=f32 -> f32" +
                whole +
                "\n"
                "train/rows_0 = Slice(y) T=f32 begin=[0, 0] size=[393216, -1] -> f32" +
                half +
                "\n"
                "train/push_0 = Push(train/rows_0, ^x/feed) T=f32 shard=0 slice=0\n"
                "train/rows_1 = Slice(y) T=f32 begin=[393216, 0] size=[393216, -1] -> f32" +
                half +
                "\n"
                "train/push_1 = Push(train/rows_1, ^x/feed) T=f32 shard=1 slice=1\n"
                "train = NoOp(^train/push_0, ^train/push_1) _target=true\n");
}

TEST(ShardVariables, FurtherReadsSeeTheSameVersion) {
  Sgd e;
  {
    auto after = e.g.after({e.g.output("y")});
    e.w.fresh_read();
  }
  const ShardedGraph s = shard_variables(e.g, e.map());
  EXPECT_EQ(call(s, {.feeds = {"x"}, .fetches = {"ReadVariable"}}),
            "x/feed = Feed() T=f32 index=0 shape=[2] -> f32[2]\n"
            "w/read = Pull() T=f32 shape=[2] shard=0 slice=0 -> f32[2]\n"
            "y = Add(w/read, x/feed) T=f32 -> f32[2]\n"
            "ReadVariable = Identity(w/read, ^y) T=f32 -> f32[2]\n"
            "ReadVariable/fetch = Fetch(ReadVariable) T=f32 index=0\n");
}

TEST(ShardVariables, SlotsAndHyperparametersGoIntoTheRule) {
  GraphBuilder b;
  VariableRef w = variable(b.g, {.name = "w", .shape = Shape{2}});
  VariableRef m = variable(b.g, {.name = "w/m", .shape = Shape{2}, .trainable = false});
  VariableRef v = variable(b.g, {.name = "w/v", .shape = Shape{2}, .trainable = false});
  Output lr = b.add("Identity", "lr", {b.constant("rate", 1e-3f)});
  Output t = b.constant("t", Tensor::scalar(std::int64_t{1}));
  b.add("ApplyAdam", "adam", {w.handle, m.handle, v.handle, lr, t, w.read()},
        {{"beta1", 0.9}, {"beta2", 0.999}, {"epsilon", 1e-7}});
  initializer(b.g);
  const ShardedGraph s = shard_variables(b.g, ShardMap(updated_variables(b.g), 1));
  EXPECT_EQ(s.graph->find("w/m/read"), nullptr);  // nothing used it
  const UpdateRule& rule = s.rules.at("w");
  EXPECT_EQ(rule.op, "ApplyAdam");
  EXPECT_TRUE(rule.counts_updates);
  EXPECT_EQ(rule.attributes.real("beta2"), 0.999);
  EXPECT_EQ(rule.learning_rate.item<float>(), 1e-3f);
  EXPECT_FALSE(rule.schedule);
  ASSERT_EQ(rule.slots.size(), 2u);
  EXPECT_EQ(rule.slots[0].role, "m");
  EXPECT_EQ(rule.slots[0].name, "w/m");
  EXPECT_EQ(rule.slots[0].shape, (Shape{2}));
  EXPECT_EQ(rule.slots[1].initial_value, "w/v/initial_value");
  EXPECT_EQ(call(s, {.targets = {"adam", "initializer"}}),
            "w/assign = NoOp()\n"
            "w/read = Pull() T=f32 shape=[2] shard=0 slice=0 -> f32[2]\n"
            "w/m/assign = NoOp()\n"
            "w/v/assign = NoOp()\n"
            "adam/push_0 = Push(w/read) T=f32 shard=0 slice=0\n"
            "adam = NoOp(^adam/push_0) _target=true\n"
            "initializer = NoOp(^w/assign, ^w/m/assign, ^w/v/assign) _target=true\n");
}

struct Sparse : GraphBuilder {
  explicit Sparse(Shape shape) {
    Output table = variable("table", shape);
    Output indices = add("Placeholder", "i", {}, {{"T", DType::i64}, {"shape", Shape{3}}});
    Output values = placeholder("v", Shape{3, 2});
    add("SparseApplySGD", "train", {table, constant("lr", 1), indices, values});
  }
};

TEST(ShardVariables, SparseGradientsStaySparse) {
  Sparse e({5, 2});
  const ShardedGraph s = shard_variables(e.g, ShardMap(updated_variables(e.g), 2));
  EXPECT_TRUE(s.rules.at("table").sparse);
  EXPECT_EQ(s.initial_values.at("table"), "");
  EXPECT_EQ(call(s, {.feeds = {"i", "v"}, .targets = {"train"}}),
            "i/feed = Feed() T=i64 index=0 shape=[3] -> i64[3]\n"
            "v/feed = Feed() T=f32 index=1 shape=[3,2] -> f32[3,2]\n"
            "train/push_0 = PushSparse(i/feed, v/feed) T=f32 shard=0 slice=0\n"
            "train = NoOp(^train/push_0) _target=true\n");
}

TEST(ShardVariables, ASparseGradientOfACutVariableIsRefused) {
  Sparse e(kLarge);
  EXPECT_EQ(error_of([&] { shard_variables(e.g, ShardMap(updated_variables(e.g), 2)); }),
            "unimplemented: SparseApplySGD 'train': variable 'table' is cut over shards, and a sparse "
            "gradient cannot be; use a "
            "dense one, or fewer shards");
}

TEST(ShardVariables, VariablesOutsideTheMapStay) {
  Sgd e;
  Output n = e.variable("steps", Shape{});
  e.add("AssignAddVariable", "count", {n, e.constant("one", 1)});
  const ShardedGraph s = shard_variables(e.g, e.map());
  EXPECT_NE(s.graph->find("steps"), nullptr);
  EXPECT_EQ(s.graph->get("count").op->name, "AssignAddVariable");
  EXPECT_EQ(shard_variables(e.g, ShardMap({}, 2)).graph->dump(), e.g.dump());
}

TEST(ShardVariables, TheValueOfADroppedAssignmentIsWhatWasAssigned) {
  Sgd e;
  e.add("Neg", "n", {e.g.output("w/assign")});
  const ShardedGraph s = shard_variables(e.g, e.map());
  EXPECT_EQ(s.graph->node(s.graph->get("n").inputs[0].node).name, "w/initial_value");
}

TEST(ShardVariables, MarksOfReplacedNodesStay) {
  Sgd e;
  for (const char* name : {"w/assign", "w/read", "train"}) e.g.set_attribute(e.g.get(name), "_target", true);
  const ShardedGraph s = shard_variables(e.g, e.map());
  for (const char* name : {"w/assign", "w/read", "train"})
    EXPECT_TRUE(s.graph->get(name).attributes.has("_target")) << name;
}

TEST(ShardVariables, WhatAShardCannotDoIsRefused) {
  const auto error = [](auto change) {
    Sgd e;
    change(e);
    return error_of([&] { shard_variables(e.g, e.map()); });
  };
  const std::string uses =
      "', which lives on a shard: there it can only be read, initialized, and updated by an optimizer";
  EXPECT_EQ(error([](Sgd& e) {
              e.add("AssignAddVariable", "bump", {e.w.handle, e.w.initial_value});
            }),
            "invalid_argument: AssignAddVariable 'bump' uses 'w" + uses);
  EXPECT_EQ(error([](Sgd& e) {
              e.add("ApplySGD", "again", {e.w.handle, e.g.output("lr"), e.g.output("y")});
            }),
            "invalid_argument: ApplySGD 'again': variable 'w' is updated by another node already; a shard "
            "applies one rule");
  EXPECT_EQ(error([](Sgd& e) {
              e.g.set_input(e.g.get("train"), 1, {e.placeholder("rate").node, 0});
            }),
            "invalid_argument: ApplySGD 'train': the learning rate of 'w' is Placeholder 'rate', but it must "
            "be a Const or a LearningRate: the shard "
            "has no other part of the graph");
  // A momentum slot that something else reads, belongs to two variables, or is itself in the map.
  const auto momentum = [](Sgd& e, const std::string& slot) {
    Output v = e.variable("v" + slot, Shape{2});
    const Node* found = e.g.find(slot);
    Output accum = found ? e.g.output(*found) : e.variable(slot, Shape{2});
    e.add("ApplyMomentum", "train_v" + slot, {v, accum, e.g.output("lr"), e.g.output("y")}, {{"momentum", 0.9}});
    return accum;
  };
  EXPECT_EQ(error([&](Sgd& e) { e.add("Neg", "n", {e.read("peek", momentum(e, "accum"))}); }),
            "invalid_argument: ReadVariable 'peek' uses 'accum" + uses);
  EXPECT_EQ(error([&](Sgd& e) { momentum(e, "w"); }),
            "invalid_argument: ApplyMomentum 'train_vw': its 'accum' must be a variable that is not in the "
            "shard map");
  EXPECT_EQ(error([&](Sgd& e) {
              Output accum = momentum(e, "accum");
              e.add("ApplyMomentum", "other", {e.variable("u", Shape{2}), accum, e.g.output("lr"), e.g.output("y")},
                    {{"momentum", 0.9}});
            }),
            "invalid_argument: ApplyMomentum 'other': 'accum' is a slot of another variable too");
}

TEST(ShardVariables, TheMapMustFitTheGraph) {
  Sgd e;
  const auto error = [&](VariableSpec spec) { return error_of([&] { shard_variables(e.g, ShardMap({spec}, 1)); }); };
  EXPECT_EQ(error({"nobody", DType::f32, Shape{2}}), "not_found: the graph has no variable 'nobody' to shard");
  EXPECT_EQ(error({"x", DType::f32, Shape{2}}), "not_found: the graph has no variable 'x' to shard");
  EXPECT_EQ(error({"w", DType::f64, Shape{2}}),
            "invalid_argument: variable 'w' is f32[2] in the graph, but f64[2] in the shard map");
  EXPECT_EQ(error({"w", DType::f32, Shape{3}}),
            "invalid_argument: variable 'w' is f32[2] in the graph, but f32[3] in the shard map");
}

}  // namespace
}  // namespace troupe
