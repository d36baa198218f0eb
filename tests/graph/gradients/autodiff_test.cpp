#include <gtest/gtest.h>

#include "tests/graph/count_ops.hpp"
#include "tests/graph/messages.hpp"
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/builder/variable.hpp>
#include <troupe/graph/gradients/autodiff.hpp>

namespace troupe {
namespace {

using testing::count_ops;
using testing::message_of;

Output x_of(Graph& g, Shape shape = Shape{2, 3}, Name name = "x") {
  return placeholder(g, DType::f32, shape, std::move(name));
}
Gradient gradient(Output y, Output x, const GradientOptions& options = {}) {
  return gradients(Outputs{y}, Outputs{x}, options).front();
}

TEST(Autodiff, TheGradientOfXItselfIsOnesOrWhatIsGiven) {
  Graph g;
  const Output x = x_of(g);
  EXPECT_EQ(gradient(x, x).dense.source().op->name, "OnesLike");
  const Output dy = x_of(g, Shape{2, 3}, "dy");
  EXPECT_EQ(gradient(x, x, {.grad_ys = {dy}}).dense, dy);
}

TEST(Autodiff, NamesAreRelativeToTheScope) {
  Graph g;
  const Output x = x_of(g);
  const auto scope = g.scope("tower");
  const Output y = sum(exp(x), {}, {.name = "y"});
  EXPECT_EQ(gradient(y, x).dense.name(), "tower/gradients/Exp/Mul");
  // What lies outside the scope keeps its name.
  EXPECT_EQ(gradient(exp(tanh(x)) + tanh(x), x).dense.name(), "tower/gradients/x/AddN");
}

TEST(Autodiff, PathsAreSummedOnceInAFixedOrder) {
  Graph g;
  const Output x = x_of(g);
  const Output a = exp(x);
  const Output b = tanh(x);
  const Output y = a + b + sigmoid(x);
  const Output sum = gradient(y, x).dense;
  EXPECT_EQ(sum.source().op->name, "AddN");
  std::vector<std::string> parts;
  for (const Endpoint& e : sum.source().inputs) parts.push_back(g.node(e.node).op->name);
  EXPECT_EQ(parts, (std::vector<std::string>{"SigmoidGrad", "TanhGrad", "Mul"}));  // last consumer first
}

TEST(Autodiff, OnlyWhatLiesBetweenIsDifferentiated) {
  Graph g;
  const Output x = x_of(g, Shape{2, 3});
  const Output w = x_of(g, Shape{3, 4}, "w");
  const Output labels = placeholder(g, DType::i64, Shape{2}, "labels");
  const Output loss = sum(sparse_softmax_cross_entropy(matmul(x, w), labels));
  const int before = g.size();
  EXPECT_TRUE(gradient(loss, w).is_dense());
  EXPECT_EQ(count_ops(g, "MatMul", before), 1);  // none for x
}

TEST(Autodiff, StopGradientAndStopGradientsBlock) {
  Graph g;
  const Output x = x_of(g);
  EXPECT_FALSE(gradient(stop_gradient(x) * 2, x));
  const Output middle = exp(x);
  EXPECT_FALSE(gradient(middle * 2, x, {.stop_gradients = {middle}}));
  EXPECT_TRUE(gradient(middle * 2, middle, {.stop_gradients = {middle}}));
  EXPECT_FALSE(gradients(Outputs{middle * 2}, Outputs{middle, x}, {.stop_gradients = {middle}})[1]);
  EXPECT_FALSE(gradient(cast(arg_max(x, 0), DType::f32), x));
  EXPECT_FALSE(gradient(cast(cast(x, DType::i64), DType::f32), x));
}

TEST(Autodiff, CastGivesBackTheDtypeOfX) {
  Graph g;
  const Output x = x_of(g);
  EXPECT_EQ(gradient(cast(x, DType::bf16), x).dense.dtype(), DType::f32);
}

TEST(Autodiff, AnXInTheMiddleDoesNotHideOneBeforeIt) {
  Graph g;
  const Output x = x_of(g);
  const Output middle = exp(x);
  const auto found = gradients(Outputs{square(middle)}, Outputs{middle, x});
  EXPECT_TRUE(found[0]);
  EXPECT_TRUE(found[1]);
}

TEST(Autodiff, AnOpWithoutGradientIsNamed) {
  Graph g;
  const Output x = x_of(g, Shape{1, 4, 4, 1});
  const Output rois = constant(g, Tensor::of<float>(Shape{1, 5}, {0, 0, 0, 3, 3}));
  const Output first = gradient(max_roi_pool(x, rois, 1, 1, 1, "pool"), x).dense;
  try {
    gradient(first, x);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::unimplemented);
    EXPECT_EQ(error.message(),
              "MaxRoiPoolGrad 'gradients/pool/MaxRoiPoolGrad': the op has no gradient; use stop_gradient if it is "
              "meant to be constant");
  }
}

TEST(Autodiff, WrongArgumentsAreRefused) {
  Graph g, other;
  const Output x = x_of(g);
  const Output n = placeholder(g, DType::i64, Shape{}, "n");
  EXPECT_EQ(message_of([&] { gradient(n, x); }), "gradients: y 'n' is i64, not floating");
  EXPECT_EQ(message_of([&] { gradient(x, x_of(other)); }), "gradients: one of xs belongs to another graph");
  EXPECT_EQ(message_of([&] { gradient(x, Output{}); }), "gradients: one of xs is not a tensor");
  EXPECT_EQ(message_of([&] { gradients({}, Outputs{x}); }), "gradients: ys is empty");
  EXPECT_EQ(message_of([&] { gradient(x, x, {.grad_ys = {x, x}}); }), "gradients: 2 grad_ys for 1 ys");
  EXPECT_EQ(message_of([&] { gradient(sum(x), x, {.grad_ys = {x}}); }),
            "gradients: grad_ys[0] is f32[2,3], but its y 'Sum' is f32[]");
  EXPECT_FALSE(gradient(x, n));  // nothing flows to an integer
}

TEST(Autodiff, ATableHasSparseGradients) {
  Graph g;
  const VariableRef table = variable(g, {.name = "table", .shape = Shape{100, 8}});
  const Output ids = placeholder(g, DType::i32, Shape{kUnknown, 5}, "ids");
  const Output once = sum(gather(table.read(), ids));
  const Gradient sparse = gradient(once, table.read());
  ASSERT_TRUE(sparse.is_sparse());
  EXPECT_EQ(sparse.indices.dtype(), DType::i64);
  EXPECT_EQ(sparse.values.shape(), (Shape{kUnknown, 8}));

  const Gradient twice = gradient(once + sum(gather(table.read(), ids)), table.read());
  ASSERT_TRUE(twice.is_sparse());
  EXPECT_EQ(twice.indices.source().op->name, "Concat");

  const Gradient mixed = gradient(once + l2_loss(table.read()), table.read());
  ASSERT_TRUE(mixed.is_dense());
  EXPECT_EQ(mixed.dense.source().op->name, "AddN");
  EXPECT_EQ(mixed.dense.shape(), (Shape{100, 8}));

  const Output computed = table.read() * 2;
  EXPECT_TRUE(gradient(sum(gather(computed, ids)), table.read()).is_dense());
}

TEST(Autodiff, GradientNodesGoToTheDeviceOfTheirForwardNode) {
  Graph g;
  const Output x = x_of(g);
  Output y;
  {
    const auto device = g.on_device("/job:worker/task:1");
    y = g.output(g.add({.op = "Exp", .name = "e", .inputs = {x}, .colocate_with = "x"}));
  }
  const Output total = sum(y);
  const int before = g.size();
  gradient(total, x);
  int seen = 0;
  for (int i = before; i < g.size(); ++i) {
    const Node& node = g.node(i);
    EXPECT_TRUE(node.name.starts_with("gradients/")) << node.name;
    if (!node.name.starts_with("gradients/e/")) continue;
    ++seen;
    EXPECT_EQ(node.device, "/job:worker/task:1") << node.name;
    EXPECT_EQ(node.colocate_with, "x") << node.name;
  }
  EXPECT_GT(seen, 0);
  EXPECT_EQ(g.current_scope(), "");
}

TEST(Autodiff, ALongChainNeedsNoRecursion) {
  Graph g;
  const Output x = x_of(g, Shape{});
  Output y = x;
  for (int i = 0; i < 20'000; ++i) y = neg(y);
  EXPECT_TRUE(gradient(y, x));
}

TEST(Autodiff, TheGradientOfIfRunsTheSameBranchBackwards) {
  Graph g;
  const Output x = x_of(g);
  const Output cond = placeholder(g, DType::boolean, Shape{}, "cond");
  const Output y = if_else(
      cond, {x}, [](Graph&, const Outputs& in) { return Outputs{exp(in[0])}; },
      [](Graph& body, const Outputs& in) {
        add_outputs("Neg", {in[0]}, {}, "unused");
        return Outputs{constant(body, Tensor::zeros(DType::f32, Shape{2, 3}))};
      })[0];
  const Output dx = gradient(y, x).dense;
  const Node& node = dx.source();
  EXPECT_EQ(node.op->name, "If");
  EXPECT_EQ(dx.shape(), (Shape{2, 3}));
  EXPECT_EQ(g.node(node.inputs[0].node).name, "cond");
  const Function* otherwise = g.function(node.attributes.get<FunctionName>("else_branch").value);
  ASSERT_NE(otherwise, nullptr);
  EXPECT_EQ(otherwise->arguments.size(), 2u);
  EXPECT_EQ(otherwise->body->node(otherwise->results[0].node).op->name, "ZerosLike");  // nothing flows back
  EXPECT_EQ(count_ops(*otherwise->body, "Neg"), 0);  // what the results do not need is not computed again
}

}  // namespace
}  // namespace troupe
