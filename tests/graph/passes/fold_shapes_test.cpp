#include "troupe/graph/passes/fold_shapes.hpp"

#include <gtest/gtest.h>

#include "tests/graph/graph_builder.hpp"
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/passes/callable.hpp>
#include <troupe/graph/passes/optimize.hpp>
#include <troupe/graph/passes/prune.hpp>

namespace troupe {
namespace {

// The graph of a call that feeds x, for this shape of x.
std::unique_ptr<Graph> folded_for(const Graph& graph, const std::string& fetch, const Shape& x, PassNotes& notes) {
  const auto call = make_callable_graph(graph, {.feeds = {"x"}, .fetches = {fetch}});
  const auto shaped = with_feed_shapes(*call, {{0, x}}, notes);
  return prune_callable(*fold_shapes(*shaped, nullptr, kFoldedShapeBytes, notes));
}

int nodes_of(const Graph& graph, std::string_view op) {
  int found = 0;
  for (int id = 0; id < graph.size(); ++id) found += graph.node(id).op->name == op ? 1 : 0;
  return found;
}

Output dimension(const Output& x, std::int64_t axis) {
  return gather(shape_of(x), constant(*x.graph, Tensor::vector<std::int64_t>({axis})));
}

TEST(FoldShapes, WhatShapeArithmeticMakesBecomesConstant) {
  Graph g;
  const Output x = placeholder(g, DType::f32, {kUnknown, kUnknown, 6}, "x");
  const Output half = floor_div(dimension(x, 1), constant(g, std::int64_t{2}));
  reshape(tanh(x), concat({dimension(x, 0), half, constant(g, Tensor::vector<std::int64_t>({-1}))}, 0), "y");
  PassNotes notes;
  const auto made = folded_for(g, "y", {3, 4, 6}, notes);
  EXPECT_EQ(made->get("y").output_shapes[0], (Shape{3, 2, 12}));
  EXPECT_EQ(made->size(), 5) << made->dump();  // Feed, Tanh, Const, Reshape, Fetch
  EXPECT_EQ(notes.front(), "'x/feed' is f32[3,4,6]");
}

TEST(FoldShapes, WhatHasItsShapeAlreadyIsLeftOut) {
  Graph g;
  const Output x = placeholder(g, DType::f32, {kUnknown, 4}, "x");
  const Output wide = broadcast_to(reshape(x, shape_of(x)), shape_of(x));
  neg(wide, "y");
  PassNotes notes;
  const auto made = folded_for(g, "y", {3, 4}, notes);
  EXPECT_EQ(made->size(), 3) << made->dump();
}

// Its kernel may take a constant operand in another layout.
TEST(FoldShapes, AnOperandOfAProductDoesNotBecomeConstant) {
  Graph g;
  const Output x = placeholder(g, DType::f32, {kUnknown, 4}, "x");
  const Output places = cast(range(constant(g, std::int64_t{8})), DType::f32);
  matmul(x, reshape(places, Shape{4, 2}), {.name = "product"});
  reshape(places, Shape{2, 4}, "other");
  const Evaluator zeros = [](const Node& node, std::span<const Tensor>) {
    return std::vector<Tensor>{Tensor::zeros(node.output_types[0], node.output_shapes[0])};
  };
  PassNotes notes;
  const auto call = make_callable_graph(g, {.feeds = {"x"}, .fetches = {"product", "other"}});
  const auto made = prune_callable(*fold_shapes(*call, zeros, kFoldedShapeBytes, notes));
  EXPECT_EQ(nodes_of(*made, "Reshape"), 1) << made->dump();
  EXPECT_EQ(nodes_of(*made, "Cast"), 0);
  EXPECT_EQ(made->find("other")->op->name, "Const");
}

TEST(FoldShapes, AShapeThatAFeedCannotHaveIsRefused) {
  Graph g;
  neg(placeholder(g, DType::f32, {kUnknown, 4}, "x"), "y");
  PassNotes notes;
  EXPECT_EQ(error_of([&] {
              folded_for(g, "y", {3, 5}, notes);
            }),
            "invalid_argument: Feed 'x/feed' is f32[?,4]: it cannot be [3,5]");
}

// A branch on a constant, with what the branches compute.
std::unique_ptr<Graph> branched(Graph& g, const BranchFn& then_branch, const BranchFn& else_branch, bool taken,
                                PassNotes& notes) {
  const Output x = placeholder(g, DType::f32, {2}, "x");
  const Output y = if_else(constant(g, Tensor::scalar(taken)), {x}, then_branch, else_branch, "branch")[0];
  neg(y, "y");
  return folded_for(g, "y", {2}, notes);
}

TEST(FoldShapes, TheBranchOfAKnownConditionTakesThePlaceOfItsIf) {
  for (const bool taken : {true, false}) {
    Graph g;
    PassNotes notes;
    const auto made = branched(
        g, [](Graph&, const Outputs& in) { return Outputs{tanh(in[0])}; },
        [](Graph&, const Outputs& in) { return Outputs{in[0]}; }, taken, notes);
    EXPECT_EQ(nodes_of(*made, "If"), 0);
    EXPECT_EQ(nodes_of(*made, "Tanh"), taken ? 1 : 0);
    EXPECT_EQ(notes.back(), taken ? "cut 'branch': always its then" : "cut 'branch': always its else");
  }
}

TEST(FoldShapes, BranchesInsideOfOneThatIsCutAreCutToo) {
  Graph g;
  PassNotes notes;
  const auto made = branched(
      g,
      [](Graph& body, const Outputs& in) {
        const Output inner = constant(body, Tensor::scalar(false));
        return if_else(
            inner, {in[0]}, [](Graph&, const Outputs& x) { return Outputs{exp(x[0])}; },
            [](Graph&, const Outputs& x) { return Outputs{sqrt(x[0])}; });
      },
      [](Graph&, const Outputs& in) { return Outputs{in[0]}; }, true, notes);
  EXPECT_EQ(nodes_of(*made, "If"), 0);
  EXPECT_EQ(nodes_of(*made, "Sqrt"), 1);
  EXPECT_EQ(nodes_of(*made, "Exp"), 0);
}

TEST(FoldShapes, ABranchWithEffectsStays) {
  Graph g;
  PassNotes notes;
  const auto made = branched(
      g, [](Graph&, const Outputs& in) { return Outputs{random_uniform(shape_of(in[0]))}; },
      [](Graph&, const Outputs& in) { return Outputs{in[0]}; }, true, notes);
  EXPECT_EQ(nodes_of(*made, "If"), 1);
}

TEST(FoldShapes, PassesForShapesBeginWhereTheGeneralGraphIsKept) {
  Graph g;
  const Output x = placeholder(g, DType::f32, {kUnknown, 4}, "x");
  reshape(tanh(x + 0.0), concat({dimension(x, 0), constant(g, Tensor::vector<std::int64_t>({2, 2}))}, 0), "y");
  std::vector<std::string> passes;
  std::unique_ptr<Graph> kept;
  OptimizeOptions options{.inference = true,
                          .report = [&](const PassReport& r) { passes.emplace_back(r.pass); },
                          .before_shapes = [&](const Graph& graph) { kept = graph.clone(); }};
  const auto call = make_callable_graph(g, {.feeds = {"x"}, .fetches = {"y"}});
  EXPECT_EQ(optimize(call->clone(), options)->get("y").output_shapes[0], (Shape{kUnknown, 2, 2}));
  ASSERT_TRUE(kept);
  EXPECT_EQ(passes.front(), "prune");
  passes.clear();
  options.feed_shapes[0] = Shape{5, 4};
  EXPECT_EQ(optimize(std::move(kept), options)->get("y").output_shapes[0], (Shape{5, 2, 2}));
  EXPECT_EQ(passes.front(), "shape_classes");
  options.switched_off = {"shape_classes"};
  EXPECT_EQ(error_of([&] { optimize(call->clone(), options); }),
            "internal: shapes of feeds are given, but 'shape_classes' is off");
}

}  // namespace
}  // namespace troupe
