#include <gtest/gtest.h>

#include "tests/graph/graph_builder.hpp"
#include <troupe/graph/builder/control.hpp>
#include <troupe/graph/builder/index.hpp>
#include <troupe/graph/builder/math.hpp>
#include <troupe/graph/builder/reduce.hpp>
#include <troupe/graph/builder/variable.hpp>
#include <troupe/graph/passes/callable.hpp>
#include <troupe/graph/passes/shard_variables.hpp>

namespace troupe {
namespace {

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
            "w/read = Pull() T=f32 ask=-1 shape=[2] shard=0 slice=0 -> f32[2]\n"
            "w/m/assign = NoOp()\n"
            "w/v/assign = NoOp()\n"
            "adam/push_0 = Push(w/read) T=f32 shard=0 slice=0\n"
            "adam = NoOp(^adam/push_0) _target=true\n"
            "initializer = NoOp(^w/assign, ^w/m/assign, ^w/v/assign) _target=true\n");
}

TEST(ShardVariables, SmallVariablesOfAPhaseTravelTogether) {
  GraphBuilder b;
  const VariableRef v = variable(b.g, {.name = "v", .shape = Shape{2}});
  const VariableRef w = variable(b.g, {.name = "w", .shape = Shape{2, 2}});
  const VariableRef x = variable(b.g, {.name = "x", .shape = Shape{2}});
  const Output lr = b.constant("lr", 0.5f);
  Outputs done;
  for (const VariableRef& each : {v, w, x})
    done.push_back(b.g.output(b.g.add({.op = "ApplySGD",
                                       .name = "train/" + each.name,
                                       .inputs = {each.handle, lr, each.read()},
                                       .controls = {each.read()}})));
  group(b.g, done, "train");
  const ShardMap map(updated_variables(b.g), 1);
  const auto phase_of = [](const std::string& name) { return name == "x" ? 1u : 0u; };
  const ShardedGraph s = shard_variables(b.g, map, phase_of);
  ASSERT_EQ(s.packs.size(), 1u);
  EXPECT_EQ(s.packs[0].slices, (std::vector<std::uint32_t>{0, 1}));
  EXPECT_EQ(call(s, {.targets = {"train"}}),
            "pack_3 = Pull() T=f32 ask=-1 shape=[6] shard=0 slice=3 -> f32[6]\n"
            "pack_3/sizes = Const() T=i64 value=i64[2] = 2 4 -> i64[2]\n"
            "pack_3/parts = SplitSizes(pack_3, pack_3/sizes) N=2 T=f32 axis=0 -> f32[2], f32[4]\n"
            "v/read = Identity(pack_3/parts) T=f32 -> f32[2]\n"
            "w/read/shape = Const() T=i64 value=i64[2] = 2 2 -> i64[2]\n"
            "w/read = Reshape(pack_3/parts:1, w/read/shape) T=f32 copy_zeros=false -> f32[2,2]\n"
            "x/read = Pull() T=f32 ask=-1 shape=[2] shard=0 slice=2 -> f32[2]\n"
            "train/v = NoOp(^v/read)\n"
            "train/w/flat/shape = Const() T=i64 value=i64[1] = -1 -> i64[1]\n"
            "train/w/flat = Reshape(w/read, train/w/flat/shape) T=f32 copy_zeros=false -> f32[4]\n"
            "train/w/push_3/joined = Concat(v/read, train/w/flat) N=2 T=f32 axis=0 -> f32[6]\n"
            "train/w/push_3 = Push(train/w/push_3/joined, ^v/read, ^w/read) T=f32 shard=0 slice=3\n"
            "train/w = NoOp(^train/w/push_3)\n"
            "train/x/push_2 = Push(x/read, ^x/read) T=f32 shard=0 slice=2\n"
            "train/x = NoOp(^train/x/push_2)\n"
            "train = NoOp(^train/v, ^train/w, ^train/x) _target=true\n");
}

// Once, before its first iteration.
TEST(ShardVariables, WhatALoopsBodyReadsIsPulledBeforeTheLoop) {
  GraphBuilder b;
  const VariableRef w = variable(b.g, {.name = "w", .shape = Shape{2}});
  const Output x = b.placeholder("x", Shape{2});
  const auto body = [&](const Output&, const Outputs& v) { return Outputs{v[0] * w.read()}; };
  const Output y = for_loop(constant(b.g, std::int64_t{5}), body, {x}, {.name = "loop"})[0];
  b.g.add({.op = "ApplySGD", .name = "train", .inputs = {w.handle, b.constant("lr", 0.5f), y}});
  const ShardedGraph s = shard_variables(b.g, ShardMap(updated_variables(b.g), 1));
  const Node& loop = *s.graph->find("loop");
  std::set<std::string> before;
  for (const Endpoint& e : loop.inputs)
    before.insert(s.graph->node(e.node).op->name + " " + s.graph->node(e.node).name);
  EXPECT_TRUE(before.contains("Pull w/read")) << ::testing::PrintToString(before);
  for (const auto& [name, function] : s.graph->functions())
    EXPECT_EQ(function.body->dump().find("ReadVariable"), std::string::npos) << function.body->dump();
}

struct Sparse : GraphBuilder {
  explicit Sparse(Shape shape) {
    Output table = variable("table", shape);
    Output indices = add("Placeholder", "i", {}, {{"T", DType::i64}, {"shape", Shape{3}}});
    Output values = placeholder("v", Shape{3, 2});
    add("SparseApplySGD", "train", {table, constant("lr", 1), indices, values});
  }
};

// Two lookups of a table of two pieces, one of them in evaluation too.
struct Lookups : GraphBuilder {
  VariableRef table;
  explicit Lookups(bool on_demand = false) {
    table = troupe::variable(g, {.name = "table", .shape = Shape{400'000, 4}, .on_demand = on_demand});
    const Output i = add("Placeholder", "i", {}, {{"T", DType::i64}, {"shape", Shape{3}}});
    const Output j = add("Placeholder", "j", {}, {{"T", DType::i32}, {"shape", Shape{kUnknown, 2}}});
    const Output k = add("Placeholder", "k", {}, {{"T", DType::i64}, {"shape", Shape{5}}});
    const Output rows = gather(table.read(), i, {.name = "a"});
    const Output more = gather(table.read(), j, {.name = "b"});
    const Output both = troupe::add(sum(more, {0, 1}), sum(rows, {0}), "both");
    g.add({.op = "SparseApplySGD",
           .name = "train",
           .inputs = {table.handle, constant("lr", 1.0f), i, rows},
           .controls = {both, table.read()}});  // as apply_gradients() has it
    gather(table.read(), k, {.name = "evaluated"});
  }
};

std::size_t count_of(const std::string& text, std::string_view what) {
  std::size_t n = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

TEST(ShardVariables, LookupsPullTheRowsOfTheirIds) {
  Lookups e;
  const ShardedGraph s = shard_variables(e.g, ShardMap(updated_variables(e.g), 2));
  const std::string training = call(s, {.feeds = {"i", "j"}, .targets = {"train"}});
  EXPECT_EQ(count_of(training, "DistinctRows("), 1u) << training;  // for both lookups
  EXPECT_EQ(count_of(training, "AskRows("), 2u) << training;
  EXPECT_EQ(count_of(training, "Pull("), 2u) << training;
  EXPECT_EQ(count_of(training, "PushSparse("), 2u) << training;
  EXPECT_EQ(count_of(training, "SumRows("), 1u) << training;
  const std::string evaluation = call(s, {.feeds = {"k"}, .fetches = {"evaluated"}});
  EXPECT_EQ(count_of(evaluation, "AskRows("), 2u) << evaluation;
  EXPECT_EQ(count_of(evaluation, "ask=-1"), 0u) << evaluation;
  EXPECT_EQ(count_of(call(s, {.fetches = {"table/read"}}), "JoinRows("), 1u);
  ASSERT_TRUE(s.tables.contains("table"));
  const TableReads& reads = s.tables.at("table");
  EXPECT_EQ(count_of(call(s, {.feeds = {reads.ids}, .fetches = {reads.rows}}), "AskRows("), 2u);
  EXPECT_TRUE(reads.numbers.empty());
}

TEST(ShardVariables, ATableOnDemandIsNeverPulledWhole) {
  Lookups e(true);
  const ShardedGraph s = shard_variables(e.g, ShardMap(updated_variables(e.g), 2));
  EXPECT_EQ(s.graph->find("table/read"), nullptr);
  EXPECT_EQ(s.tables.at("table").numbers.size(), 2u);
  e.add("Neg", "whole", {e.table.read()});
  EXPECT_EQ(
      error_of([&] { shard_variables(e.g, ShardMap(updated_variables(e.g), 2)); }),
      "invalid_argument: variable 'table' is on demand: it must have sparse gradients, and only lookups of its rows "
      "may read it");
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
      "', which is on a shard: there it can only be read, initialized, and updated by an optimizer";
  EXPECT_EQ(error([](Sgd& e) {
              e.add("AssignAddVariable", "bump", {e.w.handle, e.w.initial_value});
            }),
            "invalid_argument: AssignAddVariable 'bump' uses 'w" + uses);
  EXPECT_EQ(
      error([](Sgd& e) {
        e.add("ApplySGD", "again", {e.w.handle, e.g.output("lr"), e.g.output("y")});
      }),
      "invalid_argument: ApplySGD 'again': variable 'w' is already updated by another node; a shard applies one rule");
  EXPECT_EQ(error([](Sgd& e) {
              e.g.set_input(e.g.get("train"), 1, {e.placeholder("rate").node, 0});
            }),
            "invalid_argument: ApplySGD 'train': the learning rate of 'w' is Placeholder 'rate', but must be a Const "
            "or a LearningRate: the shard has no other node");
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
            "invalid_argument: ApplyMomentum 'other': 'accum' is also a slot of another variable");
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
