#include <gtest/gtest.h>

#include <algorithm>

#include "tests/graph/count_ops.hpp"
#include "tests/graph/messages.hpp"
#include "tests/graph/training/classifier_graph.hpp"
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/optimizers/optimizers.hpp>
#include <troupe/graph/passes/callable.hpp>
#include <troupe/graph/passes/mixed_precision.hpp>
#include <troupe/graph/passes/prune.hpp>
#include <troupe/graph/rewrite.hpp>

namespace troupe {
namespace {

using testing::message_of;
using Strings = std::vector<std::string>;

struct Narrowed {
  std::unique_ptr<Graph> graph;
  MixedPrecisionReport report;

  explicit Narrowed(const Graph& from, MixedPrecisionOptions options = {}) {
    graph = mixed_precision(from, options, &report);
  }
  const Node& node(std::string_view name) const { return graph->get(name); }
  DType dtype(std::string_view name) const { return node(name).output_types[0]; }
  // "op:dtype" of what feeds input `i` of a node.
  std::string source(std::string_view name, std::size_t i) const {
    const Endpoint e = node(name).inputs[i];
    return fmt::format("{}:{}", graph->node(e.node).op->name, troupe::name(graph->dtype(e)));
  }
  int count(std::string_view op) const { return testing::count_ops(*graph, op); }
};

// x -> MatMul -> BiasAdd -> Relu -> MatMul -> BiasAdd -> y.
struct TwoLayers {
  Graph g;
  Output x = placeholder(g, DType::f32, Shape{kUnknown, 4}, "x");
  Output b0 = placeholder(g, DType::f32, Shape{3}, "b0");
  Output b1 = placeholder(g, DType::f32, Shape{2}, "b1");
  VariableRef w0 = variable(g, {.name = "w0", .shape = Shape{4, 3}});
  VariableRef w1 = variable(g, {.name = "w1", .shape = Shape{3, 2}});
  Output hidden = relu(bias_add(matmul(x, w0.read(), {.name = "first"}), b0, "bias0"), "relu");
  Output y = bias_add(matmul(hidden, w1.read(), {.name = "second"}), b1, "bias1");
};

TEST(MixedPrecision, F16IsDoneAlike) {
  TwoLayers t;
  const Narrowed n(t.g, {.precision = DType::f16});
  EXPECT_EQ(n.dtype("relu"), DType::f16);
  EXPECT_TRUE(n.graph->find("x/to_f16"));
  EXPECT_TRUE(n.graph->find("second/to_f32"));
}

TEST(MixedPrecision, AFollowerNeedsNarrowTensorsOnBothSides) {
  Graph g;
  const Output x = placeholder(g, DType::f32, Shape{4, 4}, "x");
  const Output before = relu(x, "before");  // its operand is wide
  const Output p = matmul(before, x, {.name = "p"});
  relu(relu(p, "after"), "last");                       // nothing narrow comes of it
  const Output sum = add(relu(p, "to_sum"), x, "sum");  // one operand is wide
  matmul(sum, x, {.name = "q"});
  matmul(transpose(relu(p, "first"), {}, "then"), x, {.name = "r"});
  const Narrowed n(g);
  for (const char* name : {"before", "after", "last", "to_sum", "sum"}) EXPECT_EQ(n.dtype(name), DType::f32) << name;
  for (const char* name : {"first", "then"}) EXPECT_EQ(n.dtype(name), DType::bf16) << name;
}

// Of a normalisation the data is narrow, statistics and what it has learnt are not; and no statistic passes for data.
TEST(MixedPrecision, NormalisationsAreNarrowInTheirDataAlone) {
  Graph g;
  const Output x = placeholder(g, DType::f32, Shape{8, 4}, "x"), w = placeholder(g, DType::f32, Shape{4, 4}, "w");
  const Output scale = placeholder(g, DType::f32, Shape{4}, "scale"),
               offset = placeholder(g, DType::f32, Shape{4}, "offset");
  const BatchNormOutputs normalised = batch_norm(matmul(x, w), scale, offset, {.name = "norm"});
  relu(normalised.mean, "of_mean");
  matmul(relu(normalised.y, "relu"), w, {.name = "last"});
  matmul(reshape(normalised.variance, Shape{1, 4}, "of_variance"), w, {.name = "product"});
  const Narrowed n(g);
  const Node& norm = n.node("norm");
  EXPECT_EQ(norm.attributes.dtype("T"), DType::bf16);
  EXPECT_EQ(norm.attributes.dtype("U"), DType::f32);
  EXPECT_EQ(norm.output_types, (std::vector<DType>{DType::bf16, DType::f32, DType::f32, DType::f32}));
  EXPECT_EQ(n.source("norm", 0), "MatMul:bf16");
  EXPECT_EQ(n.source("norm", 1), "Placeholder:f32");
  EXPECT_EQ(n.source("relu", 0), "BatchNorm:bf16");
  EXPECT_EQ(n.source("of_mean", 0), "BatchNorm:f32");
  EXPECT_EQ(n.dtype("of_variance"), DType::f32);
  EXPECT_EQ(n.source("product", 0), "Cast:bf16");
  // x, w, and the reshaped variance; then back for nobody.
  EXPECT_EQ(n.report.casts, 3);
}

// Else the gradients of all that it is added to on its way would be wide too.
TEST(MixedPrecision, TheGradientOfWhatIsNarrowIsNarrow) {
  Graph g;
  const Output x = placeholder(g, DType::f32, Shape{4, 4}, "x"), dy = placeholder(g, DType::f32, Shape{4, 4}, "dy");
  const Output narrow = relu(matmul(x, x)), wide = relu(exp(x));
  matmul(narrow, x);
  matmul(add_op("ReluGrad", {dy, narrow}, {}, "back"), x);
  matmul(add_op("ReluGrad", {dy, wide}, {}, "back_to_wide"), x);
  const Narrowed n(g);
  EXPECT_EQ(n.dtype("back"), DType::bf16);
  EXPECT_EQ(n.source("back", 0), "Cast:bf16");
  EXPECT_EQ(n.source("back", 1), "Relu:bf16");
  EXPECT_EQ(n.dtype("back_to_wide"), DType::f32);
}

TEST(MixedPrecision, ASumOfNarrowGradientsIsNarrow) {
  Graph g;
  const Output x = placeholder(g, DType::f32, Shape{4, 4}, "x");
  const Output p = matmul(x, x), q = matmul(x, p);
  matmul(add_n({p, q, relu(p)}, "all"), x);
  matmul(add_n({p, x}, "mixed"), x);
  const Narrowed n(g);
  EXPECT_EQ(n.dtype("all"), DType::bf16);
  EXPECT_EQ(n.dtype("mixed"), DType::f32);
}

TEST(MixedPrecision, WhatComesFrom16BitsIsNotCastBack) {
  Graph g;
  const Output x = placeholder(g, DType::bf16, Shape{4, 4}, "x");
  const Output wide = cast(x, DType::f32, "wide");
  matmul(wide, wide, {.name = "p"});
  const Narrowed n(g);
  EXPECT_EQ(n.source("p", 0), "Placeholder:bf16");
  EXPECT_EQ(n.report.casts, 0);
}

// Of a tensor that gives a shape only, any dtype will do.
TEST(MixedPrecision, AShapeIsTakenFromWhatIsThere) {
  Graph g;
  const Output x = placeholder(g, DType::f32, Shape{4, 4}, "x");
  const Output p = matmul(x, x, {.name = "p"});
  matmul(reshape_like(transpose(p), p, "back"), x, {.name = "q"});
  matmul(reshape_like(relu(p), x, "as_x"), x, {.name = "r"});
  const Narrowed n(g);
  EXPECT_EQ(n.source("back", 1), "MatMul:bf16");
  EXPECT_EQ(n.node("back").attributes.dtype("T2"), DType::bf16);
  EXPECT_EQ(n.node("as_x").attributes.dtype("T2"), n.graph->dtype(n.node("as_x").inputs[1]));
  EXPECT_EQ(n.report.casts, 1);
}

TEST(MixedPrecision, OtherDtypesStay) {
  Graph g;
  const Output x = placeholder(g, DType::f64, Shape{4, 4}, "x");
  matmul(x, x, {.name = "p"});
  const Narrowed n(g);
  EXPECT_EQ(n.graph->dump(), g.dump());
  EXPECT_EQ(n.report.to_string(), "nothing to change; 0 casts");
}

TEST(MixedPrecision, OpsWithoutAKernelStay) {
  TwoLayers t;
  const auto no_bias = [](const std::string& op, DType dtype) { return dtype == DType::bf16 && op != "BiasAdd"; };
  const Narrowed n(t.g, {.supports = no_bias});
  EXPECT_EQ(n.dtype("first"), DType::bf16);
  EXPECT_EQ(n.dtype("bias0"), DType::f32);
  EXPECT_EQ(n.dtype("relu"), DType::f32);
  const auto nothing = [](const std::string&, DType) { return false; };
  EXPECT_EQ(Narrowed(t.g, {.supports = nothing}).graph->dump(), t.g.dump());
}

TEST(MixedPrecision, ControlEdgesAndNotesStay) {
  Graph g;
  const Output x = placeholder(g, DType::f32, Shape{4, 4}, "x");
  Output p;
  {
    const auto first = g.after({x});
    p = matmul(x, x, {.name = "p"});
  }
  g.set_attribute(p.source(), std::string(kTargetAttribute), true);
  g.set_device(p.source(), "/job:worker");
  group(g, {p}, "last");
  const Narrowed n(g);
  EXPECT_EQ(n.node("p").controls, std::vector<int>{n.node("x").id});
  EXPECT_EQ(n.node("last").controls, std::vector<int>{n.node("p").id});
  EXPECT_TRUE(n.node("p").attributes.boolean(std::string(kTargetAttribute)));
  EXPECT_EQ(n.node("p").device, "/job:worker");
  EXPECT_TRUE(n.node("last").inputs.empty());
}

// Beside its source: a tensor that goes to another device goes in 16 bits.
TEST(MixedPrecision, ACastIsWhereItsTensorIs) {
  Graph g;
  VariableRef w = variable(g, {.name = "w", .shape = Shape{4, 4}, .device = "/job:worker/task:1"});
  const Output x = placeholder(g, DType::f32, Shape{4, 4}, "x");
  {
    const auto device = g.on_device("/job:worker/task:2");
    matmul(x, w.read(), {.name = "p"});
  }
  const Narrowed n(g);
  EXPECT_EQ(n.node("w/read/to_bf16").device, "/job:worker/task:1");
  EXPECT_EQ(n.node("w/read/to_bf16").colocate_with, "w");
  EXPECT_EQ(n.node("x/to_bf16").device, "");
}

// A whole training step: every update, reduction and loss is in f32, every product is not.
TEST(MixedPrecision, OfATrainingStepOnlyProductsAndFollowersAreNarrow) {
  const Sequential model({layers::conv2d(4, 3, Activation::relu), layers::max_pool(2), layers::flatten(),
                          layers::dense(8, Activation::leaky_relu), layers::dense(10)});
  const testing::ClassifierGraph t =
      testing::classifier_graph(model, Shape{12, 12, 1}, optimizers::Adam{}, {.slots = 2});
  Signature call;
  for (const Output& o : t.images) call.feeds.push_back(o.name());
  for (const Output& o : t.labels) call.feeds.push_back(o.name());
  call.fetches = {t.loss_sum.name()};
  call.targets = {t.train.name()};
  const auto step = make_callable_graph(*t.graph, call);
  const Narrowed n(*step);
  for (int id = 0; id < n.graph->size(); ++id) {
    const Node& node = n.graph->node(id);
    const PrecisionClass precision = node.op->precision;
    if (precision == PrecisionClass::narrow) {
      EXPECT_EQ(node.kernel_type(), DType::bf16) << node.name;
    }
    if (precision != PrecisionClass::sensitive || node.op->name == "Cast") continue;
    for (const Endpoint& e : node.inputs) EXPECT_NE(n.graph->dtype(e), DType::bf16) << node.name;
    EXPECT_EQ(std::ranges::count(node.output_types, DType::bf16), 0) << node.name;
  }
  // Between the convolution and the dense layers, and back.
  for (const char* name :
       {"conv2d/BiasAdd", "conv2d/Relu", "max_pool/MaxPool", "flatten/Reshape", "slot_1/dense/LeakyRelu",
        "gradients/max_pool/MaxPool/MaxPoolGrad", "slot_1/gradients/flatten/Reshape/ReshapeLike"})
    EXPECT_EQ(n.dtype(name), DType::bf16) << name;
  EXPECT_EQ(n.dtype("dense_1/BiasAdd"), DType::f32);
  EXPECT_EQ(n.dtype("gradients/dense/BiasAdd/BiasAddGrad"), DType::f32);
  // No cast undoes another.
  for (int id = 0; id < n.graph->size(); ++id) {
    const Node& node = n.graph->node(id);
    if (node.op->name != "Cast") continue;
    const Node& source = n.graph->node(node.inputs[0].node);
    EXPECT_NE(source.op->name, "Cast") << node.name;
  }
  EXPECT_EQ(mixed_precision(*step, {})->dump(), n.graph->dump()) << "the pass must be deterministic";
}

TEST(MixedPrecision, ProductsAreNarrowAndFewOpsFollowThem) {
  const auto ops_of = [](PrecisionClass precision) {
    Strings out = standard_ops().names();
    std::erase_if(out, [&](const std::string& op) { return standard_ops().get(op).precision != precision; });
    return out;
  };
  EXPECT_EQ(ops_of(PrecisionClass::narrow),
            (Strings{"Conv", "ConvBackpropFilter", "ConvBackpropInput", "ConvTranspose", "MatMul"}));
  EXPECT_EQ(ops_of(PrecisionClass::follower),
            (Strings{"Add",         "AddN",          "BatchNorm",   "BatchNormGrad", "BatchNormInference",
                     "BiasAdd",     "ExpandDims",    "GroupNorm",   "GroupNormGrad", "Identity",
                     "LayerNorm",   "LayerNormGrad", "LeakyRelu",   "LeakyReluGrad", "MaxPool",
                     "MaxPoolGrad", "RMSNorm",       "RMSNormGrad", "Relu",          "ReluGrad",
                     "Reshape",     "ReshapeLike",   "Squeeze",     "Transpose"}));
}

TEST(MixedPrecision, OnlySixteenBitsWillDo) {
  const Graph g;
  EXPECT_EQ(message_of([&] { mixed_precision(g, {.precision = DType::f64}); }),
            "mixed precision: the products can be in bf16 or f16, not in f64");
}

}  // namespace
}  // namespace troupe
