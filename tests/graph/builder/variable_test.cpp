#include <gtest/gtest.h>

#include "tests/graph/messages.hpp"
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/builder/variable.hpp>
#include <troupe/graph/optimizers/updates.hpp>

namespace troupe {
namespace {

using testing::message_of;

TEST(Variables, AVariableIsFourNodes) {
  Graph g;
  const auto scope = g.scope("layer");
  const VariableRef w =
      variable(g, {.name = "w", .initial_value = random_normal(g, Shape{4, 2}), .device = "/job:ps/task:0"});
  EXPECT_EQ(w.name, "layer/w");
  EXPECT_EQ(w.handle.name(), "layer/w");
  EXPECT_EQ(w.initial_value.name(), "layer/w/initial_value");
  EXPECT_EQ(w.dtype, DType::f32);
  EXPECT_EQ(w.shape, (Shape{4, 2}));
  const Node& assign = g.get("layer/w/assign");
  EXPECT_EQ(assign.op->name, "AssignVariable");
  EXPECT_EQ(assign.colocate_with, "layer/w");
  EXPECT_EQ(assign.device, "/job:ps/task:0");
  EXPECT_EQ(g.get("layer/w/read").device, "/job:ps/task:0");
}

TEST(Variables, ReadIsOneNodeAndFreshReadAnother) {
  Graph g;
  const VariableRef w = variable(g, {.name = "w", .shape = Shape{3}});
  const auto scope = g.scope("elsewhere");
  EXPECT_EQ(w.read(), w.read());
  EXPECT_EQ(w.read().name(), "w/read");
  EXPECT_EQ(w.read().shape(), (Shape{3}));
  const Output fresh = w.fresh_read();
  EXPECT_NE(fresh, w.read());
  EXPECT_EQ(fresh.source().colocate_with, "w");
  EXPECT_EQ(w.assign_add(ones_like(w.read())).source().op->name, "AssignAddVariable");
  EXPECT_EQ(w.assign_sub(w.read()).source().op->name, "AssignSubVariable");
  EXPECT_EQ(message_of([&] {
              w.assign(constant<float>(g, {1, 2}));
            }),
            "AssignVariable 'elsewhere/AssignVariable': the shapes of 'handle' and 'value' differ: [3] and [2]");
}

TEST(Variables, ZerosAreTheDefaultAndNeedAShape) {
  Graph g;
  const VariableRef a = variable(g, {.shape = Shape{2, 2}, .dtype = DType::f64});
  const VariableRef b = variable(g, {.shape = Shape{}});
  EXPECT_EQ(a.name, "variable");
  EXPECT_EQ(b.name, "variable_1");
  EXPECT_EQ(a.initial_value.dtype(), DType::f64);
  EXPECT_EQ(a.initial_value.shape(), (Shape{2, 2}));
  EXPECT_EQ(message_of([&] { variable(g, {.name = "v", .shape = Shape{kUnknown}}); }),
            "variable 'v': needs an initial value, or a fully known shape to fill with zeros; its shape is [?]");
  EXPECT_EQ(message_of([&] {
              variable(g, {.name = "v", .initial_value = constant<float>(g, {1, 2}), .shape = Shape{3}});
            }),
            "variable 'v': the shape is [3], but the initial value is [2]");
}

TEST(Variables, ANameDoesNotEndWithASlash) {
  Graph g;
  const auto scope = g.scope("layer");
  EXPECT_EQ(message_of([&] { variable(g, {.name = "w/", .shape = Shape{1}}); }),
            "variable 'layer/w/': a name cannot end with '/'");
}

TEST(Variables, AGraphKnowsItsVariables) {
  Graph g;
  variable(g, {.name = "w", .shape = Shape{2}});
  variable(g, {.name = "b", .shape = Shape{3}, .dtype = DType::f64, .trainable = false});
  g.add({.op = "Variable", .name = "bare", .attributes = {{"T", DType::f32}, {"shape", Shape{1}}}});
  const auto found = variables(g);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].name, "b");
  EXPECT_FALSE(found[0].trainable);
  EXPECT_EQ(found[0].dtype, DType::f64);
  EXPECT_EQ(g.node(found[0].initial_value.node).name, "b/initial_value");
  EXPECT_EQ(found[0].initializer, "b/assign");
  EXPECT_EQ(found[1].name, "bare");
  EXPECT_EQ(found[1].initial_value.node, -1);
  EXPECT_EQ(found[1].initializer, "");
  EXPECT_EQ(found[2].shape, (Shape{2}));
  EXPECT_TRUE(found[2].trainable);

  // In a copy as well: all is in the nodes.
  const auto copy = g.clone();
  EXPECT_EQ(variables(*copy).size(), 3u);
  EXPECT_EQ(find_variable(*copy, "w").read().name(), "w/read");
  EXPECT_EQ(message_of([&] { find_variable(g, "w/read"); }), "the graph has no variable 'w/read'");
}

TEST(Variables, WrongNotesOfAReadGraphAreRefused) {
  Graph g;
  constant(g, std::int64_t{1}, "n");
  const Node& node = g.add({.op = "Variable", .name = "v", .attributes = {{"T", DType::f32}, {"shape", Shape{}}}});
  g.set_attribute(node, "_initial_value", std::string("n"));
  EXPECT_EQ(message_of([&] { variables(g); }), "variable 'v': its initial value 'n' is i64");
  g.set_attribute(node, "_initial_value", std::string("nowhere:3"));
  EXPECT_EQ(variables(g)[0].initial_value.node, -1);
  g.set_attribute(node, "_trainable", std::int64_t{1});
  EXPECT_EQ(message_of([&] { variables(g); }), "variable 'v': attribute '_trainable' is of type integer");
}

TEST(Variables, TheInitializerRunsAllAssignsThatExist) {
  Graph g;
  variable(g, {.name = "w", .shape = Shape{2}});
  const Output first = initializer(g);
  variable(g, {.name = "b", .shape = Shape{2}});
  const Output second = initializer(g);
  EXPECT_EQ(first.source().controls, (std::vector<int>{g.get("w/assign").id}));
  EXPECT_EQ(second.source().controls, (std::vector<int>{g.get("b/assign").id, g.get("w/assign").id}));
  EXPECT_EQ(first.source().name, "initializer");
  EXPECT_EQ(second.source().name, "initializer_1");
}

TEST(Variables, UpdatesTakeDenseAndSparseGradients) {
  Graph g;
  const auto make = [&](const char* name) {
    return variable(g, {.name = name, .shape = Shape{9, 2}, .device = "CPU:1"});
  };
  const VariableRef w = make("w");
  const VariableRef m = make("m");
  const VariableRef v = make("v");
  const Output lr = constant(g, 0.1f);
  const Output t = constant<std::int64_t>(g, 1);
  const Gradient dense{.dense = placeholder(g, DType::f32, Shape{9, 2})};
  const Gradient sparse{.indices = constant<std::int64_t>(g, {3, 3}),
                        .values = placeholder(g, DType::f32, Shape{2, 2})};
  EXPECT_EQ(apply_sgd(w.handle, lr, dense).source().op->name, "ApplySGD");
  EXPECT_EQ(apply_momentum(w.handle, m.handle, lr, sparse).source().op->name, "SparseApplyMomentum");
  EXPECT_EQ(apply_adagrad(w.handle, m.handle, lr, sparse).source().op->name, "SparseApplyAdagrad");
  EXPECT_EQ(apply_rmsprop(w.handle, m.handle, v.handle, lr, dense).source().op->name, "ApplyRMSProp");
  const Node& adam = apply_adam(w.handle, m.handle, v.handle, lr, t, sparse, {.beta1 = 0.8}).source();
  EXPECT_EQ(adam.op->name, "SparseApplyAdam");
  EXPECT_EQ(adam.attributes.real("beta1"), 0.8);
  EXPECT_EQ(adam.colocate_with, "w");
  EXPECT_EQ(adam.device, "/device:CPU:1");
  EXPECT_EQ(message_of([&] { apply_sgd(w.handle, lr, {}); }), "ApplySGD: there is no gradient for variable 'w'");
}

}  // namespace
}  // namespace troupe
