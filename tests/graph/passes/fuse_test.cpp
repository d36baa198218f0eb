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

}  // namespace
}  // namespace troupe
