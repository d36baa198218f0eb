#include <gtest/gtest.h>

#include "tests/graph/graph_builder.hpp"
#include <troupe/graph/passes/callable.hpp>
#include <troupe/graph/passes/common_subexpressions.hpp>
#include <troupe/graph/passes/optimize.hpp>

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

TEST(FoldConstants, ComputesWhatDependsOnConstantsAlone) {
  GraphBuilder b;
  Output one = b.constant("one", 1);
  Output two = b.constant("two", 2);
  Output x = b.placeholder("x");
  Output three = b.add("Add", "three", {one, two}, {{"_note", true}}, "/job:ps");
  Output minus = b.add("Neg", "minus", {three});
  b.add("Add", "y", {x, minus});
  ScalarEvaluator evaluator;
  EXPECT_EQ(fold_constants(b.g, std::ref(evaluator))->dump(),
            "one = Const() T=f32 value=f32[] = 1 -> f32[]\n"
            "two = Const() T=f32 value=f32[] = 2 -> f32[]\n"
            "x = Placeholder() T=f32 shape=[] -> f32[]\n"
            "three = Const() T=f32 _note=true value=f32[] = 3 -> f32[] @ /job:ps\n"
            "minus = Const() T=f32 value=f32[] = -3 -> f32[]\n"
            "y = Add(x, minus) T=f32 -> f32[]\n");
  EXPECT_EQ(evaluator.asked, 2);
}

TEST(FoldConstants, EveryOutputOfANodeBecomesAConstant) {
  GraphBuilder b;
  Output pair = b.constant("pair", Tensor::vector<float>({1, 2}));
  b.add("Split", "halves", {pair}, {{"axis", std::int64_t{0}}, {"N", std::int64_t{2}}});
  b.g.add({.op = "Relu", .name = "r", .inputs = {b.g.output("halves:1")}});
  EXPECT_EQ(fold_constants(b.g, ScalarEvaluator{})->dump(),
            "pair = Const() T=f32 value=f32[2] = 1 2 -> f32[2]\n"
            "halves/folded_0 = Const() T=f32 value=f32[1] = 1 -> f32[1]\n"
            "halves/folded_1 = Const() T=f32 value=f32[1] = 2 -> f32[1]\n"
            "r = Relu(halves/folded_1) T=f32 -> f32[1]\n");
}

TEST(FoldConstants, LeavesWhatMustRunAtEachStep) {
  GraphBuilder b;
  Output one = b.constant("one", 1);
  b.add("RandomUniform", "random", {}, {{"T", DType::f32}, {"shape", Shape{}}});
  b.add("Feed", "feed", {}, {{"T", DType::f32}, {"index", std::int64_t{0}}, {"shape", Shape{}}});
  b.add("Arg", "arg", {}, {{"T", DType::f32}, {"index", std::int64_t{0}}, {"shape", Shape{}}});
  b.placeholder("x");
  b.add("Fetch", "fetch", {one}, {{"index", std::int64_t{0}}});
  b.add("Dropout", "dropout", {one}, {{"rate", 0.5}});
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
  for (const Evaluator& e : std::initializer_list<Evaluator>{wrong_type, wrong_shape, too_many})
    EXPECT_NE(error_of([&] { fold_constants(b.g, e); }).find("internal: Neg 'n': the evaluator of constants"),
              std::string::npos);
}

TEST(CommonSubexpressions, ComputesThemOnce) {
  GraphBuilder b;
  Output x = b.placeholder("x");
  Output c = b.constant("c", 2);
  Output c2 = b.constant("c2", 2);
  Output a = b.add("Add", "a", {x, c});
  Output a2 = b.add("Add", "a2", {x, c2}, {{"_note", std::int64_t{7}}});
  b.add("Mul", "product", {a, a2});
  b.g.add({.op = "NoOp", .name = "done", .controls = {a2}, .colocate_with = "a2"});
  EXPECT_EQ(eliminate_common_subexpressions(b.g)->dump(),
            "x = Placeholder() T=f32 shape=[] -> f32[]\n"
            "c = Const() T=f32 value=f32[] = 2 -> f32[]\n"
            "a = Add(x, c) T=f32 -> f32[]\n"
            "product = Mul(a, a) T=f32 -> f32[]\n"
            "done = NoOp(^a) with a\n");
}

TEST(CommonSubexpressions, KeepsWhatDiffersInAnything) {
  GraphBuilder b;
  Output x = b.placeholder("x", Shape{2});
  Output y = b.placeholder("y", Shape{2});
  b.add("Add", "base", {x, y});
  b.add("Add", "swapped", {y, x});
  b.add("Sub", "other_op", {x, y});
  b.add("Add", "other_device", {x, y}, {}, "CPU:1");
  b.g.add({.op = "Add", .name = "ordered", .inputs = {x, y}, .controls = {x}});
  b.g.add({.op = "Add", .name = "colocated", .inputs = {x, y}, .colocate_with = "x"});
  b.add("Sum", "sum", {x});
  b.add("Sum", "sum_keep", {x}, {{"keep_dims", true}});
  b.add("LeakyRelu", "zero", {x}, {{"alpha", 0.0}});
  b.add("LeakyRelu", "minus_zero", {x}, {{"alpha", -0.0}});
  b.constant("c_zero", 0.0f);
  b.constant("c_minus_zero", -0.0f);
  b.constant("c_other", Tensor::vector<float>({0}));
  EXPECT_EQ(eliminate_common_subexpressions(b.g)->dump(), b.g.dump());
}

TEST(CommonSubexpressions, NeverSharesWhatHasStateOrStandsForAnInput) {
  GraphBuilder b;
  Output x = b.placeholder("x");
  b.placeholder("y");
  for (const char* name : {"r1", "r2"}) b.add("RandomUniform", name, {}, {{"T", DType::f32}, {"shape", Shape{}}});
  for (const char* name : {"f1", "f2"})
    b.add("Feed", name, {}, {{"T", DType::f32}, {"index", std::int64_t{0}}, {"shape", Shape{}}});
  for (const char* name : {"g1", "g2"}) b.add("Fetch", name, {x}, {{"index", std::int64_t{0}}});
  for (const char* name : {"n1", "n2"}) b.add("NoOp", name);
  for (const char* name : {"v1", "v2"}) b.read(std::string(name) + "/read", b.variable(name, Shape{}));
  EXPECT_EQ(eliminate_common_subexpressions(b.g)->dump(), b.g.dump());
}

TEST(CommonSubexpressions, ATargetStaysATarget) {
  GraphBuilder b;
  Output x = b.placeholder("x");
  b.add("Neg", "n1", {x});
  b.add("Neg", "n2", {x}, {{"_target", true}});
  EXPECT_EQ(eliminate_common_subexpressions(b.g)->dump(),
            "x = Placeholder() T=f32 shape=[] -> f32[]\n"
            "n1 = Neg(x) T=f32 _target=true -> f32[]\n");
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

TEST(Optimize, RunsAllPassesInOrderAndReportsThem) {
  OptimizeExample e;
  std::string report, notes;
  auto out = optimize(e.callable(), {.evaluator = ScalarEvaluator{}, .report = [&](const PassReport& r) {
                                       report += fmt::format("{} {}->{}\n", r.pass, r.nodes_before, r.nodes_after);
                                       for (const std::string& note : r.notes) notes += "  " + note + "\n";
                                     }});
  EXPECT_EQ(out->dump(),
            "x/feed = Feed() T=f32 index=0 shape=[] -> f32[]\n"
            "two = Const() T=f32 value=f32[] = 2 -> f32[]\n"
            "product = FusedElementwise(x/feed, two) T=f32 Tin=[f32,f32] program=[\"Add:f32 i0 i1\", \"Mul:f32 r0 "
            "r0\"] -> f32[]\n"
            "product/fetch = Fetch(product) T=f32 index=0\n");
  EXPECT_EQ(report + notes,
            "prune 8->8\nsimplify 8->8\nfold_constants 8->8\ncommon_subexpressions 8->6\nsimplify_again "
            "6->6\nfuse_bias 6->6\nfuse_elementwise "
            "6->5\nfuse_updates 5->5\nprune_again 5->4\n  fused a + product -> FusedElementwise "
            "'product'\n");
}

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
