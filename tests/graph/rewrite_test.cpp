#include <gtest/gtest.h>

#include <utility>

#include "tests/graph/graph_builder.hpp"
#include <troupe/graph/rewrite.hpp>

namespace troupe {
namespace {

TEST(Rewriter, KeepsASubsetWithRemappedEdges) {
  GraphBuilder t;
  Output unused = t.constant("unused", 1);
  Output a = t.constant("a", 2);
  Output b = t.constant("b", 3);
  t.add("Add", "drop", {unused, a});
  const Node& sum = t.g.add({.op = "Add", .name = "sum", .inputs = {a, b}, .controls = {unused}, .device = "CPU:0"});
  auto out = copy_subset(t.g, {false, true, true, false, true});
  EXPECT_EQ(out->dump(),
            "a = Const() T=f32 value=f32[] = 2 -> f32[]\n"
            "b = Const() T=f32 value=f32[] = 3 -> f32[]\n"
            "sum = Add(a, b) T=f32 -> f32[] @ /device:CPU:0\n");
  EXPECT_EQ(out->get("sum").id, 2);
  EXPECT_EQ(t.g.node(sum.id).controls.size(), 1u);  // the old graph is as it was
}

TEST(Rewriter, ReplacesOutputsAndNodes) {
  GraphBuilder t;
  Output a = t.constant("a", 2);
  Output b = t.constant("b", 2);
  t.g.add({.op = "Add", .name = "sum", .inputs = {a, b}, .controls = {b}, .colocate_with = "b"});
  Rewriter r(t.g);
  const Node& copy = r.copy(t.g.get("a"));
  r.replace({1, 0}, {copy.id, 0});
  r.replace_node(t.g.get("b"), copy);
  r.copy(t.g.get("sum"));
  EXPECT_EQ(r.new_name("sum"), "sum_1");
  EXPECT_EQ(r.new_name("b"), "b_1");  // gone, but still a name of the old graph
  auto out = r.finish();
  EXPECT_EQ(out->dump(),
            "a = Const() T=f32 value=f32[] = 2 -> f32[]\n"
            "sum = Add(a, a, ^a) T=f32 -> f32[] with a\n");
}

TEST(Rewriter, AnInputThatIsNotThereIsAnInternalErrorThatNamesIt) {
  GraphBuilder t;
  Output a = t.constant("a", 2);
  t.add("Identity", "x", {a});
  EXPECT_EQ(error_of([&] { copy_subset(t.g, {false, true}); }), "internal: the rewritten graph has no 'a'");
}

TEST(Rewriter, ColocationWithANodeThatGoesIsForgotten) {
  GraphBuilder t;
  t.constant("a", 2);
  t.g.add({.op = "NoOp", .name = "n", .colocate_with = "a"});
  EXPECT_EQ(copy_subset(t.g, {false, true})->get("n").colocate_with, "");
  EXPECT_EQ(copy_subset(t.g, {true, true})->get("n").colocate_with, "a");
}

// How long it takes is measured by troupe-bench, startup/copy-10k.
TEST(Rewriter, CopiesTenThousandNodesAndInfersNothingAgain) {
  int inferred = 0;
  OpRegistry ops;
  ops.add(Op("Source").output("out", DType::f32).shape([](ShapeContext& c) { c.set_output(0, Shape{2}); }));
  ops.add(Op("Sum").input("a", DType::f32).input("b", DType::f32).output("sum", DType::f32).shape([&](ShapeContext& c) {
    ++inferred;
    c.set_output(0, c.input(0));
  }));
  Graph graph(ops);
  Output at = graph.output(graph.add({.op = "Source"}));
  for (int i = 0; i < 10'000; ++i) at = graph.output(graph.add({.op = "Sum", .inputs = {at, at}}));
  EXPECT_GE(std::exchange(inferred, 0), 10'000);
  EXPECT_EQ(copy_subset(graph, std::vector<bool>(10'001, true))->dump(), graph.dump());
  EXPECT_EQ(inferred, 0);
}

}  // namespace
}  // namespace troupe
