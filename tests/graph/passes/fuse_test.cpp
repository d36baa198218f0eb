#include <gtest/gtest.h>

#include "tests/graph/graph_builder.hpp"
#include <troupe/graph/passes/fuse_bias.hpp>
#include <troupe/graph/passes/fuse_updates.hpp>

namespace troupe {
namespace {

// A dense layer to be changed by the tests.
struct Dense : GraphBuilder {
  Output x = placeholder("x", Shape{kUnknown, 4});
  Output w = placeholder("w", Shape{4, 3});
  Output b = placeholder("b", Shape{3});
  Output product = add("MatMul", "product", {x, w}, {{"transpose_b", false}});
  Output sum = add("BiasAdd", "sum", {product, b});

  std::string fused() {
    PassNotes notes;
    fuse_bias(g, {.notes = &notes});
    std::string text;
    for (const std::string& note : notes) text += note + "\n";
    return text;
  }
};

TEST(FuseBias, AProductWithItsBiasAndActivationIsOneNode) {
  Dense d;
  d.add("Relu", "y", {d.sum}, {{"_note", true}}, "");
  EXPECT_EQ(fuse_bias(d.g, {})->dump(),
            "x = Placeholder() T=f32 shape=[?,4] -> f32[?,4]\n"
            "w = Placeholder() T=f32 shape=[4,3] -> f32[4,3]\n"
            "b = Placeholder() T=f32 shape=[3] -> f32[3]\n"
            "y = FusedMatMul(x, w, b) T=f32 _note=true activation=\"relu\" transpose_a=false transpose_b=false -> "
            "f32[?,3]\n");
  EXPECT_EQ(d.fused(), "fused product + sum + y -> FusedMatMul 'y'\n");
}

TEST(FuseBias, ActivationsThatTheFusedOpDoesNotKnowStay) {
  for (const char* op : {"LeakyRelu", "Softplus", "Neg", "Softmax"}) {
    Dense d;
    d.add(op, "y", {d.sum});
    EXPECT_EQ(d.fused(), "fused product + sum -> FusedMatMul 'sum'\n") << op;
  }
  for (const char* op : {"Relu", "Sigmoid", "Tanh"}) {
    Dense d;
    d.add(op, "y", {d.sum});
    EXPECT_EQ(d.fused(), "fused product + sum + y -> FusedMatMul 'y'\n") << op;
  }
}

TEST(FuseBias, ConvolutionsToo) {
  GraphBuilder b;
  Output x = b.placeholder("x", Shape{kUnknown, 8, 8, 3});
  Output filter = b.placeholder("filter", Shape{3, 3, 3, 5});
  Output y = b.add("Conv2D", "conv", {x, filter},
                   {{"strides", std::vector<std::int64_t>{2, 1}}, {"padding", std::string("SAME")}});
  b.add("BiasAdd", "y", {y, b.placeholder("bias", Shape{5})});
  const auto fused = fuse_bias(b.g, {});
  const Node& node = fused->get("y");
  EXPECT_EQ(node.op->name, "FusedConv2D");
  EXPECT_EQ(node.attributes.string("activation"), "none");
  EXPECT_EQ(node.attributes.integers("strides"), (std::vector<std::int64_t>{2, 1}));
  EXPECT_EQ(node.attributes.string("padding"), "SAME");
  EXPECT_EQ(node.output_shapes[0], (Shape{kUnknown, 4, 8, 5}));
  EXPECT_EQ(fused->size(), 4);
}

TEST(FuseBias, ControlEdgesLeadToTheFusedNode) {
  Dense d;
  Output before = d.add("NoOp", "before");
  d.g.add_control_edge(before.source(), d.product.source());
  Output y = d.add("Relu", "y", {d.sum});
  d.g.add_control_edge(d.x.source(), y.source());
  d.g.add({.op = "NoOp", .name = "after", .controls = {y}, .colocate_with = "sum"});
  const auto fused = fuse_bias(d.g, {});
  const Node& node = fused->get("y");
  EXPECT_EQ(node.controls, (std::vector<int>{fused->get("before").id, fused->get("x").id}));
  EXPECT_EQ(fused->get("after").controls, (std::vector<int>{node.id}));
  EXPECT_EQ(fused->get("after").colocate_with, "y");
}

// One case each: what must not be fused.
TEST(FuseBias, LeavesWhatItMustNotFuse) {
  const std::map<std::string, std::pair<std::function<void(Dense&)>, std::string>> cases = {
      {"the product is used elsewhere", {[](Dense& d) { d.add("Neg", "n", {d.product}); }, ""}},
      {"the product is fetched",
       {[](Dense& d) {
          d.add("Fetch", "f", {d.product}, {{"index", std::int64_t{0}}});
        },
        ""}},
      {"the product is a target", {[](Dense& d) { d.g.set_attribute(d.product.source(), "_target", true); }, ""}},
      {"something waits for the product",
       {[](Dense& d) { d.g.add({.op = "NoOp", .name = "n", .controls = {d.product}}); }, ""}},
      {"the product is elsewhere", {[](Dense& d) { d.g.set_device(d.product.source(), "CPU:1"); }, ""}},
      {"the product is colocated", {[](Dense& d) { d.g.set_colocation(d.product.source(), "x"); }, ""}},
      {"the sum is fetched",
       {[](Dense& d) {
          d.add("Fetch", "f", {d.sum}, {{"index", std::int64_t{0}}});
          d.add("Relu", "y", {d.sum});
        },
        "fused product + sum -> FusedMatMul 'sum'\n"}},
      {"the activation is elsewhere",
       {[](Dense& d) { d.add("Relu", "y", {d.sum}, {}, "CPU:1"); }, "fused product + sum -> FusedMatMul 'sum'\n"}},
      {"the sum is a target",
       {[](Dense& d) {
          d.g.set_attribute(d.sum.source(), "_target", true);
          d.add("Relu", "y", {d.sum});
        },
        "fused product + sum -> FusedMatMul 'sum'\n"}},
      {"the product is the bias",
       {[](Dense& d) {
          Output column = d.add("Reshape", "flat", {d.product, d.constant("dims", Tensor::vector<std::int64_t>({3}))});
          d.g.set_input(d.sum.source(), 0, {d.placeholder("other", Shape{kUnknown, 3}).node, 0});
          d.g.set_input(d.sum.source(), 1, {column.node, 0});
        },
        ""}},
  };
  for (const auto& [name, given] : cases) {
    Dense d;
    given.first(d);
    EXPECT_EQ(d.fused(), given.second) << name;
  }
  Dense d;
  const auto none = [](std::string_view, DType) { return false; };
  EXPECT_EQ(fuse_bias(d.g, {.has_kernel = none})->dump(), d.g.dump()) << "no kernel";
}

// Two variables and their updates.
struct Updates : GraphBuilder {
  Output rate = constant("rate", 0.5f);
  Output grad = placeholder("grad", Shape{2});
  Output v = variable("v", Shape{2});
  Output w = variable("w", Shape{2});
  Output apply_v = apply("apply_v", v, rate);

  Output apply(const std::string& name, Output variable, Output rate, Attributes attributes = {}) {
    return add("ApplySGD", name, {variable, rate, grad}, std::move(attributes));
  }
  std::string fused() {
    PassNotes notes;
    fuse_updates(g, {.notes = &notes});
    std::string text;
    for (const std::string& note : notes) text += note + "\n";
    return text;
  }
};

TEST(FuseUpdates, OfOneOptimizerAreOneNode) {
  Updates u;
  Output apply_w = u.apply("apply_w", u.w, u.rate, {{"_target", true}});
  Output before = u.add("NoOp", "before");
  u.g.add_control_edge(before.source(), apply_w.source());
  u.g.add({.op = "NoOp", .name = "after_v", .controls = {u.apply_v}});
  u.g.add({.op = "NoOp", .name = "after", .controls = {u.apply_v, apply_w}});
  EXPECT_EQ(fuse_updates(u.g, {})->dump(),
            "rate = Const() T=f32 value=f32[] = 0.5 -> f32[]\n"
            "grad = Placeholder() T=f32 shape=[2] -> f32[2]\n"
            "v = Variable() T=f32 shape=[2] -> resource[2]\n"
            "w = Variable() T=f32 shape=[2] -> resource[2]\n"
            "before = NoOp()\n"
            "apply_v/many = ApplySGDMany(v, w, rate, grad, grad, ^before) N=2 T=f32 _target=true\n"
            "after_v = NoOp(^apply_v/many)\n"
            "after = NoOp(^apply_v/many)\n");
  EXPECT_EQ(u.fused(), "fused apply_v + apply_w -> ApplySGDMany 'apply_v/many'\n");
}

TEST(FuseUpdates, SlotsAndScalarsKeepTheirOrder) {
  GraphBuilder b;
  Output rate = b.constant("rate", 0.5f), t = b.constant("t", Tensor::scalar<std::int64_t>(1));
  const Attributes betas{{"beta1", 0.9}, {"beta2", 0.99}, {"epsilon", 1e-8}};
  for (const std::string v : {"a", "b", "c"}) {
    const Shape shape{v == "b" ? 3 : 2};
    b.add("ApplyAdam", "update_" + v,
          {b.variable(v, shape), b.variable(v + "_m", shape), b.variable(v + "_v", shape), rate, t,
           b.placeholder(v + "_grad", shape)},
          betas);
  }
  const auto fused = fuse_updates(b.g, {});
  const Node& node = fused->get("update_a/many");
  std::string inputs;
  for (const Endpoint& e : node.inputs) inputs += fused->node(e.node).name + " ";
  EXPECT_EQ(inputs, "a b c a_m b_m c_m a_v b_v c_v rate t a_grad b_grad c_grad ");
  EXPECT_EQ(node.attributes.real("beta2"), 0.99);
}

// As the functions that build updates do: it says no more than that they are with their variables.
TEST(FuseUpdates, MayBeColocatedWithTheirOwnVariables) {
  Updates u;
  u.g.set_colocation(u.apply_v.source(), "v");
  u.g.set_colocation(u.apply("apply_w", u.w, u.rate).source(), "w");
  EXPECT_EQ(u.fused(), "fused apply_v + apply_w -> ApplySGDMany 'apply_v/many'\n");
  u.g.set_device(u.w.source(), "CPU:1");
  EXPECT_EQ(u.fused(), "");
}

TEST(FuseUpdates, LeavesWhatItMustNotFuse) {
  const std::map<std::string, std::function<void(Updates&)>> cases = {
      {"another rate", [](Updates& u) { u.apply("apply_w", u.w, u.constant("other", 0.5f)); }},
      {"another op",
       [](Updates& u) {
         u.add("ApplyAdagrad", "apply_w", {u.w, u.variable("slot", Shape{2}), u.rate, u.grad});
       }},
      {"the same variable", [](Updates& u) { u.apply("again", u.v, u.rate); }},
      {"another device", [](Updates& u) { u.g.set_device(u.apply("apply_w", u.w, u.rate).source(), "CPU:1"); }},
      {"a variable elsewhere",
       [](Updates& u) {
         u.g.set_device(u.w.source(), "CPU:1");
         u.apply("apply_w", u.w, u.rate);
       }},
      {"colocated", [](Updates& u) { u.g.set_colocation(u.apply("apply_w", u.w, u.rate).source(), "grad"); }},
      {"one waits for the other",
       [](Updates& u) {
         Output between = u.g.output(u.g.add({.op = "ReadVariable",
                                              .name = "between",
                                              .inputs = {u.v},
                                              .attributes = {{"T", DType::f32}},
                                              .controls = {u.apply_v}}));
         u.add("ApplySGD", "apply_w", {u.w, u.rate, between});
       }},
      {"sparse",
       [](Updates& u) {
         Output rows = u.constant("rows", Tensor::vector<std::int64_t>({0}));
         u.add("SparseApplySGD", "apply_w", {u.w, u.rate, rows, u.placeholder("values", Shape{1})});
       }},
  };
  for (const auto& [name, change] : cases) {
    Updates u;
    change(u);
    EXPECT_EQ(u.fused(), "") << name;
    EXPECT_EQ(fuse_updates(u.g, {})->dump(), u.g.dump()) << name;
  }
  GraphBuilder b;  // hyperparameters
  Output rate = b.constant("rate", 0.5f), grad = b.placeholder("grad", Shape{2});
  for (const auto& [v, momentum] : {std::pair{"a", 0.9}, std::pair{"b", 0.8}})
    b.add("ApplyMomentum", std::string("update_") + v,
          {b.variable(v, Shape{2}), b.variable(std::string(v) + "_accum", Shape{2}), rate, grad},
          {{"momentum", momentum}});
  EXPECT_EQ(fuse_updates(b.g, {})->dump(), b.g.dump());
}

// Chains of updates: each may run beside those of the other variable at the same place of its chain, no other.
TEST(FuseUpdates, NeverMakeACycle) {
  Updates u;
  Output first_w = u.apply("first_w", u.w, u.rate);
  Output second_w = u.apply("second_w", u.w, u.rate);
  Output second_v = u.apply("second_v", u.v, u.rate);
  u.g.add_control_edge(first_w.source(), second_w.source());
  u.g.add_control_edge(u.apply_v.source(), second_v.source());
  u.g.add_control_edge(second_w.source(), u.g.add({.op = "NoOp", .name = "end"}));
  EXPECT_EQ(u.fused(),
            "fused apply_v + first_w -> ApplySGDMany 'apply_v/many'\n"
            "fused second_w + second_v -> ApplySGDMany 'second_w/many'\n");
}

}  // namespace
}  // namespace troupe
