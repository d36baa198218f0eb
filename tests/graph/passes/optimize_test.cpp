#include <gtest/gtest.h>

#include "tests/graph/graph_builder.hpp"
#include <troupe/graph/passes/callable.hpp>
#include <troupe/graph/passes/optimize.hpp>
#include <troupe/graph/passes/simplify.hpp>

namespace troupe {
namespace {

// Knows Add and Neg of f32 scalars and Split of vectors of two; counts what it is asked.
struct ScalarEvaluator {
  int asked = 0;
  std::vector<Tensor> operator()(const Node& node, std::span<const Tensor> inputs) {
    ++asked;
    if (node.op->name == "Add") return {Tensor::scalar(inputs[0].item<float>() + inputs[1].item<float>())};
    if (node.op->name == "Neg") return {Tensor::scalar(-inputs[0].item<float>())};
    if (node.op->name == "Split") return {inputs[0].rows(0, 1), inputs[0].rows(1, 2)};
    return {};
  }
};

TEST(Simplify, TransposesThatUndoEachOtherAreLeftOut) {
  using Order = std::vector<std::int64_t>;
  const auto source_of_last = [](const std::vector<Order>& orders) {
    GraphBuilder b;
    Output x = b.placeholder("x", Shape{kUnknown, 3, 4, 5});
    for (std::size_t i = 0; i < orders.size(); ++i)
      x = b.add("Transpose", fmt::format("t{}", i), {x}, {{"T", DType::f32}, {"perm", orders[i]}});
    b.add("Neg", "last", {x});
    const auto simple = simplify(b.g, {});
    return simple->node(simple->get("last").inputs[0].node).name;
  };
  EXPECT_EQ(source_of_last({{0, 2, 3, 1}, {0, 3, 1, 2}}), "x");
  EXPECT_EQ(source_of_last({{}, {3, 2, 1, 0}}), "x");
  EXPECT_EQ(source_of_last({{0, 1, 2, 3}}), "x");
  EXPECT_EQ(source_of_last({{0, 2, 3, 1}, {0, 2, 3, 1}}), "t1");
  EXPECT_EQ(source_of_last({{0, 2, 3, 1}, {0, 1, 2, 3}}), "t0");
  EXPECT_EQ(source_of_last({{0, 2, 3, 1}, {0, 3, 1, 2}, {1, 0, 2, 3}}), "t2");
}

TEST(FoldConstants, LeavesWhatMustRunAtEachStep) {
  GraphBuilder b;
  Output one = b.constant("one", 1);
  b.add("RandomUniform", "random", {b.constant("dims", Tensor::vector<std::int64_t>({2}))}, {{"T", DType::f32}});
  b.add("Feed", "feed", {}, {{"T", DType::f32}, {"index", std::int64_t{0}}, {"shape", Shape{}}});
  b.add("Arg", "arg", {}, {{"T", DType::f32}, {"index", std::int64_t{0}}, {"shape", Shape{}}});
  b.placeholder("x");
  b.add("Fetch", "fetch", {one}, {{"index", std::int64_t{0}}});
  b.add(
      "Dropout", "dropout",
      {one, b.g.output(b.g.add(
                {.op = "Const", .name = "rate", .attributes = {{"T", DType::f64}, {"value", Tensor::scalar(0.5)}}}))});
  Output w = b.variable("w", Shape{});
  b.add("AssignVariable", "assign", {w, one});
  b.add("Send", "send", {one}, {{"edge", std::int64_t{0}}, {"to", std::string("CPU:1")}});
  b.add("Recv", "recv", {},
        {{"T", DType::f32}, {"shape", Shape{}}, {"edge", std::int64_t{0}}, {"from", std::string("CPU:1")}});
  b.add("NoOp", "nothing");
  b.g.add({.op = "Neg", .name = "ordered", .inputs = {one}, .controls = {w}});
  int asked = 0;
  const auto eager = [&](const Node& node, std::span<const Tensor>) {
    ++asked;
    return std::vector<Tensor>(node.output_types.size(), Tensor::scalar(1.0f));
  };
  EXPECT_EQ(fold_constants(b.g, eager)->dump(), b.g.dump());
  EXPECT_EQ(asked, 0);
}

TEST(FoldConstants, LeavesWhatIsDeclinedTooLargeOrFails) {
  GraphBuilder b;
  Output one = b.constant("one", 1);
  b.add("Add", "sum", {one, one});
  EXPECT_EQ(fold_constants(b.g, ScalarEvaluator{}, 3)->dump(), b.g.dump());
  EXPECT_NE(fold_constants(b.g, ScalarEvaluator{}, 4)->dump(), b.g.dump());
  const auto declines = [](const Node&, std::span<const Tensor>) { return std::vector<Tensor>{}; };
  EXPECT_EQ(fold_constants(b.g, declines)->dump(), b.g.dump());
  const auto fails = [](const Node&, std::span<const Tensor>) -> std::vector<Tensor> { invalid_argument("no"); };
  EXPECT_EQ(fold_constants(b.g, fails)->dump(), b.g.dump());
  // Known to be too large only once it is there: the limit holds for the result as well.
  Output shape = b.constant("dims", Tensor::vector<std::int64_t>({1, 1}));
  Output filled = b.add("Fill", "filled", {b.add("Neg", "n", {shape}), one});
  ASSERT_FALSE(filled.shape().fully_known());
  const auto fills = [](const Node& node, std::span<const Tensor>) {
    if (node.op->name == "Neg") return std::vector<Tensor>{Tensor::vector<std::int64_t>({100, 100})};
    return node.op->name == "Fill" ? std::vector<Tensor>{Tensor::zeros(DType::f32, Shape{100, 100})}
                                   : std::vector<Tensor>{};
  };
  EXPECT_EQ(fold_constants(b.g, fills, 39'999)->get("filled").op->name, "Fill");
  EXPECT_EQ(fold_constants(b.g, fills, 40'000)->get("filled").op->name, "Const");
}

TEST(FoldConstants, AResultOfAnotherTypeIsAnInternalError) {
  GraphBuilder b;
  Output one = b.constant("one", 1);
  b.add("Neg", "n", {one});
  const auto wrong_type = [](const Node&, std::span<const Tensor>) { return std::vector<Tensor>{Tensor::scalar(1.0)}; };
  const auto wrong_shape = [](const Node&, std::span<const Tensor>) {
    return std::vector<Tensor>{Tensor::vector<float>({1})};
  };
  const auto too_many = [](const Node&, std::span<const Tensor>) {
    return std::vector<Tensor>(2, Tensor::scalar(1.0f));
  };
  for (const auto& [wrong, e] : std::initializer_list<std::pair<const char*, Evaluator>>{
           {"type", wrong_type}, {"shape", wrong_shape}, {"count", too_many}})
    EXPECT_NE(error_of([&] { fold_constants(b.g, e); }).find("internal: Neg 'n': the evaluator of constants"),
              std::string::npos)
        << "wrong " << wrong;
}

struct OptimizeExample : GraphBuilder {
  OptimizeExample() {
    Output x = placeholder("x");
    Output one = constant("one", 1);
    Output two = add("Add", "two", {one, one});
    Output also_two = constant("also_two", 2);
    Output a = add("Add", "a", {x, two});
    Output b = add("Add", "b", {x, also_two});
    add("Mul", "product", {a, b});
  }
  std::unique_ptr<Graph> callable() { return make_callable_graph(g, {.feeds = {"x"}, .fetches = {"product"}}); }
};

TEST(Optimize, PassesCanBeSwitchedOff) {
  OptimizeExample e;
  const auto size = [&](bool evaluate, std::set<std::string> off) {
    off.insert("fuse_elementwise");
    return optimize(e.callable(),
                    {.evaluator = evaluate ? Evaluator(ScalarEvaluator{}) : Evaluator(), .switched_off = off})
        ->size();
  };
  EXPECT_EQ(size(true, {}), 5);
  EXPECT_EQ(size(true, {"fold_constants"}), 8);
  EXPECT_EQ(size(false, {}), 8);  // without an evaluator nothing is folded
  EXPECT_EQ(size(true, {"common_subexpressions"}), 7);
  EXPECT_EQ(optimize(e.callable(), {.evaluator = ScalarEvaluator{}})->size(), 4);
  EXPECT_EQ(error_of([&] { optimize(e.callable(), {.switched_off = {"magic"}}); }),
            "not_found: there is no optimization 'magic' to switch off");
}

TEST(Optimize, ErrorsNameThePass) {
  OptimizeExample e;
  const auto wrong = [](const Node&, std::span<const Tensor>) { return std::vector<Tensor>(3, Tensor::scalar(1.0f)); };
  EXPECT_EQ(error_of([&] {
              optimize(e.callable(), {.evaluator = wrong});
            }).find("internal: optimization 'fold_constants': Add 'two'"),
            0u);
}

}  // namespace
}  // namespace troupe
