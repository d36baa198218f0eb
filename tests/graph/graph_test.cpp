#include <gtest/gtest.h>

#include "tests/graph/messages.hpp"
#include <troupe/graph/graph.hpp>

namespace troupe {
namespace {

using testing::message_of;

OpRegistry toy_ops() {
  OpRegistry ops;
  ops.add(Op("Source")
              .output("out", "T")
              .type("T", kFloatTypes, DType::f32)
              .attr("shape", Shape{})
              .shape([](ShapeContext& c) { c.set_output(0, c.attributes().shape("shape")); }));
  ops.add(Op("Plus").input("a", "T").input("b", "T").output("sum", "T").type("T").shape([](ShapeContext& c) {
    c.set_output(0, broadcast(c.input(0), c.input(1)));
  }));
  ops.add(Op("Join").input_list("values", "T", "N").output("out", "T").type("T"));
  return ops;
}

TEST(Graph, DeducesTypesAndShapes) {
  const OpRegistry ops = toy_ops();
  Graph g(ops);
  Output a = g.output(g.add({.op = "Source", .attributes = {{"shape", Shape{2, 1}}}}));
  Output b = g.output(g.add({.op = "Source", .attributes = {{"shape", Shape{3}}}}));
  const Node& sum = g.add({.op = "Plus", .inputs = {a, b}});
  EXPECT_EQ(sum.name, "Plus");
  EXPECT_EQ(sum.output_types[0], DType::f32);
  EXPECT_EQ(sum.output_shapes[0], (Shape{2, 3}));
  EXPECT_EQ(b.name(), "Source_1");
  const Node& join = g.add({.op = "Join", .inputs = {a, b, a}});
  EXPECT_EQ(join.attributes.integer("N"), 3);
}

TEST(Graph, MisuseNamesOpAndNode) {
  const OpRegistry ops = toy_ops();
  Graph g(ops);
  Output a = g.output(g.add({.op = "Source", .name = "a", .attributes = {{"shape", Shape{2}}}}));
  Output b = g.output(g.add({.op = "Source", .name = "b", .attributes = {{"shape", Shape{3}}}}));
  Output d = g.output(g.add({.op = "Source", .name = "d", .attributes = {{"T", DType::f64}}}));
  EXPECT_EQ(message_of([&] {
              g.add({.op = "Plus", .name = "p", .inputs = {a, b}});
            }),
            "Plus 'p': shapes [2] and [3] cannot be broadcast together");
  EXPECT_EQ(message_of([&] {
              g.add({.op = "Plus", .name = "p", .inputs = {a, d}});
            }),
            "Plus 'p': input 'b' is f64, but input 'a' is f32: they must have the same dtype, use cast()");
  EXPECT_EQ(
      message_of([&] {
        g.add({.op = "Join", .name = "j", .inputs = {a, d}});
      }),
      "Join 'j': input 'values' is f64, but the first of 'values' is f32: they must have the same dtype, use cast()");
  EXPECT_EQ(message_of([&] {
              g.add({.op = "Plus", .name = "p", .inputs = {d, d}, .attributes = {{"T", DType::f32}}});
            }),
            "Plus 'p': input 'a' is f64, but attribute 'T' is f32: they must have the same dtype, use cast()");
  for (const char* wrong : {"p/", "/p", "-p", "a b"})
    EXPECT_EQ(message_of([&] {
                g.add({.op = "Plus", .name = wrong, .inputs = {a, a}});
              }),
              fmt::format("Plus '{}': a name consists of letters, digits and _ . / -, must not begin with / or -, and "
                          "must not end with /",
                          wrong));
  EXPECT_EQ(message_of([&] { g.add({.op = "Plus", .name = "p", .inputs = {a}}); }),
            "Plus 'p': input 'b' is missing (1 were given)");
  EXPECT_EQ(message_of([&] {
              g.add({.op = "Plus", .name = "p", .inputs = {a, a, a}});
            }),
            "Plus 'p': takes 2 inputs, 3 were given");
  EXPECT_EQ(message_of([&] {
              g.add({.op = "Plus", .name = "a", .inputs = {a, a}});
            }),
            "Plus 'a': a node with this name already exists");
  EXPECT_EQ(message_of([&] { g.add({.op = "Pluss"}); }), "there is no op 'Pluss'; did you mean Plus");
  EXPECT_EQ(message_of([&] {
              g.add({.op = "Plus", .name = "p", .inputs = {a, a}, .attributes = {{"x", true}}});
            }),
            "Plus 'p': there is no attribute 'x'");
  EXPECT_EQ(message_of([&] {
              g.add({.op = "Source", .name = "i", .attributes = {{"T", DType::i32}}});
            }),
            "Source 'i': attribute 'T' is i32, but must be f32, f64, f16 or bf16");
  EXPECT_EQ(g.size(), 3);  // a refused node leaves nothing behind
}

TEST(Graph, ScopesGiveNamesAndDevices) {
  const OpRegistry ops = toy_ops();
  Graph g(ops);
  {
    auto scope = g.scope("layer");
    auto device = g.on_device("/job:ps/task:1");
    auto inner = g.on_device("GPU:0");
    const Node& n = g.add({.op = "Source", .device = "/job:worker"});
    EXPECT_EQ(n.name, "layer/Source");
    EXPECT_EQ(n.device, "/job:worker/task:1/device:GPU:0");
  }
  EXPECT_EQ(g.add({.op = "Source"}).name, "Source");
}

TEST(Graph, ReportsACycleByName) {
  const OpRegistry ops = toy_ops();
  Graph g(ops);
  Output a = g.output(g.add({.op = "Source", .name = "a"}));
  const Node& p = g.add({.op = "Plus", .name = "p", .inputs = {a, a}});
  const Node& q = g.add({.op = "Plus", .name = "q", .inputs = {g.output(p), a}});
  EXPECT_EQ(g.topological_order(), (std::vector<int>{0, 1, 2}));
  g.add_control_edge(q, p);
  EXPECT_EQ(message_of([&] { g.topological_order(); }), "the graph has a cycle: p -> q -> p");
}

TEST(Graph, ALongChainIsOrderedWithoutRecursion) {
  const OpRegistry ops = toy_ops();
  Graph g(ops);
  Output at = g.output(g.add({.op = "Source"}));
  for (int i = 0; i < 100'000; ++i) at = g.output(g.add({.op = "Plus", .inputs = {at, at}}));
  EXPECT_EQ(g.topological_order().size(), 100'001u);
}

}  // namespace
}  // namespace troupe
