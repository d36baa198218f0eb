// Which additions move into convolutions, and each reason why one does not.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "tests/graph/graph_builder.hpp"
#include <troupe/graph/passes/residual_inside.hpp>

namespace troupe {
namespace {

struct BlockShape {
  DType dtype = DType::f32;
  Shape x{kUnknown, 9, 8, 16}, residual{kUnknown, 9, 8, 16}, filter{3, 3, 16, 16};
  std::string activation = "none", format = "channels_last";
  bool bias_inside = true;
};

// y = relu(residual + (conv(x) + bias)), as fuse_bias and bias_inside leave it.
struct ResidualBlock : GraphBuilder {
  explicit ResidualBlock(const BlockShape& shape = {}) : s(shape) {
    Attributes attributes{{"activation", s.activation},
                          {"data_format", s.format},
                          {"padding", std::string("SAME")},
                          {"dilations", std::vector<std::int64_t>{2, 2}}};
    if (s.bias_inside) attributes.set("_bias_inside", true);
    conv = add("FusedConv", "conv", {given("x", s.x), given("filter", s.filter), given("bias", {16})}, attributes);
    residual = given("residual", s.residual);
    sum = add("Add", "sum", {residual, conv});
    y = add("Relu", "y", {sum});
  }
  Output given(const std::string& name, const Shape& shape) {
    return add("Placeholder", name, {}, {{"T", s.dtype}, {"shape", shape}});
  }
  // What the pass says that it has fused.
  std::string fused() const {
    PassNotes notes;
    residual_inside(*graph, {.notes = &notes});
    return fmt::format("{}", fmt::join(notes, "\n"));
  }
  void read_from(const Output& node, int input, const Output& source) {
    g.set_input(node.source(), input, {source.node, source.index});
  }

  BlockShape s;
  Output conv{}, residual{}, sum{}, y{};
};

constexpr const char* kBlock = "fused conv + sum + y -> ResidualConv 'y'";
constexpr const char* kSum = "fused conv + sum -> ResidualConv 'sum'";

TEST(ResidualInside, WhatConvolutionsAndResidualsMustBe) {
  const Shape any = Shape::unknown_rank();
  const std::map<std::string, std::pair<BlockShape, std::string>> cases = {
      {"as built", {{}, kBlock}},
      {"one image", {{.x = {1, 9, 8, 16}, .residual = {1, 9, 8, 16}}, kBlock}},
      {"elements are f64", {{.dtype = DType::f64}, ""}},
      {"channels are first",
       {{.x = {kUnknown, 16, 9, 8},
         .residual = {kUnknown, 16, 9, 8},
         .filter = {16, 16, 3, 3},
         .format = "channels_first"},
        ""}},
      {"an activation is between", {{.activation = "relu"}, ""}},
      {"the bias is added after the sums", {{.bias_inside = false}, ""}},
      {"the residual has no known rank", {{.residual = any}, ""}},
      {"nothing is known of both", {{.x = any, .residual = any, .filter = any}, ""}},
      {"the residual is a row for all", {{.residual = {kUnknown, 1, 1, 16}}, ""}},
      {"the residual is an image for all", {{.residual = {9, 8, 16}}, ""}},
      {"the residual has a batch that is known", {{.residual = {4, 9, 8, 16}}, ""}},
      {"heights are not known", {{.x = {2, kUnknown, 8, 16}, .residual = {2, kUnknown, 8, 16}}, ""}},
      {"widths are not known", {{.x = {2, 9, kUnknown, 16}, .residual = {2, 9, kUnknown, 16}}, ""}},
  };
  for (const auto& [name, given] : cases) EXPECT_EQ(ResidualBlock(given.first).fused(), given.second) << name;
}

TEST(ResidualInside, NodesThatOthersNeedStay) {
  const std::map<std::string, std::function<void(ResidualBlock&, const Output& node)>> cases = {
      {"read", [](ResidualBlock& b, const Output& n) { b.add("Neg", "n", {n}); }},
      {"fetched",
       [](ResidualBlock& b, const Output& n) {
         b.add("Fetch", "f", {n}, {{"index", std::int64_t{0}}});
       }},
      {"a target", [](ResidualBlock& b, const Output& n) { b.g.set_attribute(n.source(), "_target", true); }},
      {"waited for", [](ResidualBlock& b, const Output& n) { b.g.add({.op = "NoOp", .name = "n", .controls = {n}}); }},
      {"elsewhere",
       [](ResidualBlock& b, const Output& n) {
         b.g.set_device(n.source(), "/device:CPU:1");
         if (n == b.sum) b.g.set_device(b.conv.source(), "/device:CPU:1");
       }},
      {"colocated", [](ResidualBlock& b, const Output& n) {
         b.g.set_colocation(n.source(), "x");
         if (n == b.sum) b.g.set_colocation(b.conv.source(), "x");
       }}};
  for (const auto& [name, change] : cases) {
    ResidualBlock of_conv, of_sum;
    change(of_conv, of_conv.conv);
    EXPECT_EQ(of_conv.fused(), "") << "the convolution is " << name;
    change(of_sum, of_sum.sum);
    EXPECT_EQ(of_sum.fused(), kSum) << "the sum is " << name;
  }
}

TEST(ResidualInside, FormsOfItsParts) {
  const std::map<std::string, std::pair<std::function<void(ResidualBlock&)>, std::string>> cases = {
      {"the convolution is first",
       {[](ResidualBlock& b) {
          b.read_from(b.sum, 0, b.conv);
          b.read_from(b.sum, 1, b.residual);
        },
        kBlock}},
      {"the convolution is added to itself", {[](ResidualBlock& b) { b.read_from(b.sum, 0, b.conv); }, ""}},
      {"of two convolutions, the second",
       {[](ResidualBlock& b) {
          const Node& node = b.conv.source();
          const Output other =
              b.add("FusedConv", "other", {b.residual, {&b.g, node.inputs[1].node, 0}, {&b.g, node.inputs[2].node, 0}},
                    node.attributes);
          b.read_from(b.sum, 0, other);
        },
        kBlock}},
      {"another activation",
       {[](ResidualBlock& b) {
          b.add("Tanh", "z", {b.sum});
          b.read_from(b.y, 0, b.given("unused", Shape::unknown_rank()));
        },
        kSum}},
      {"the residual waits for the convolution",
       {[](ResidualBlock& b) { b.g.add_control_edge(b.conv.source(), b.residual.source()); }, ""}},
      {"the residual is what is convolved", {[](ResidualBlock& b) { b.read_from(b.sum, 0, b.g.output("x")); }, kBlock}},
      {"the sum is no addition",
       {[](ResidualBlock& b) {
          b.read_from(b.y, 0, b.add("Mul", "product", {b.residual, b.conv}));
        },
        ""}},
      {"a product in the place of a convolution",
       {[](ResidualBlock& b) {
          const Output product =
              b.add("FusedMatMul", "p", {b.given("a", {2, 3}), b.given("m", {3, 4}), b.given("c", {4})},
                    {{"_bias_inside", true}});
          b.add("Add", "q", {b.given("d", {2, 4}), product});
        },
        kBlock}},
  };
  for (const auto& [name, given] : cases) {
    ResidualBlock b;
    given.first(b);
    EXPECT_EQ(b.fused(), given.second) << name;
  }
}

TEST(ResidualInside, KeepsWhatItsNodesSay) {
  ResidualBlock b;
  b.g.set_attribute(b.y.source(), "_target", true);
  for (const Output& node : {b.conv, b.sum, b.y}) {
    b.g.set_device(node.source(), "/device:CPU:1");
    b.g.add_control_edge(b.add("NoOp", "before_" + node.name()).source(), node.source());
  }
  const auto fused = residual_inside(b.g, {});
  const Node& y = fused->get("y");
  ASSERT_EQ(y.op->name, "ResidualConv");
  EXPECT_EQ(y.attributes.dtype("T"), DType::f32);
  EXPECT_EQ(y.attributes.string("padding"), "SAME");
  EXPECT_EQ(y.attributes.integers("dilations"), (std::vector<std::int64_t>{2, 2}));
  EXPECT_TRUE(y.attributes.boolean("_bias_inside"));
  EXPECT_EQ(y.attributes.string("activation"), "relu");
  EXPECT_TRUE(y.attributes.has("_target"));
  EXPECT_EQ(y.device, "/device:CPU:1");
  std::vector<std::string> inputs, controls;
  for (const Endpoint& e : y.inputs) inputs.push_back(fused->node(e.node).name);
  for (const int c : y.controls) controls.push_back(fused->node(c).name);
  EXPECT_EQ(inputs, (std::vector<std::string>{"x", "filter", "bias", "residual"}));
  EXPECT_EQ(controls, (std::vector<std::string>{"before_conv", "before_sum", "before_y"}));
}

TEST(ResidualInside, NeedsItsKernel) {
  const ResidualBlock b;
  std::vector<std::string> asked;
  const auto has_kernel = [&](std::string_view op, DType dtype) {
    asked.push_back(fmt::format("{} {}", op, name(dtype)));
    return false;
  };
  EXPECT_EQ(residual_inside(b.g, {.has_kernel = has_kernel})->dump(), b.g.dump());
  EXPECT_EQ(asked, std::vector<std::string>{"ResidualConv f32"});
}

}  // namespace
}  // namespace troupe
