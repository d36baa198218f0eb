// Layers as text are the layers that functions make.
#include "troupe/graph/layers/layer_text.hpp"

#include <gtest/gtest.h>

#include "tests/graph/layers/layer_values.hpp"
#include "tests/graph/messages.hpp"
#include <troupe/graph/layers/network_format.hpp>

namespace troupe {
namespace {

using testing::message_of;

std::string written(const LayerPtr& layer) { return to_text(Sequential({layer}).network()); }

TEST(LayerText, EqualsTheFunctionsOfLayers) {
  using namespace layers;
  const std::vector<std::pair<std::string, LayerPtr>> cases = {
      {"dense(units=3)", dense(3)},
      {"dense(units=3, activation=relu, use_bias=false, compute=\"bf16\")",
       dense(3, Activation::relu, {.use_bias = false, .compute = DType::bf16})},
      {"dense(units=3, kernel=he_normal(seed=7), name=\"head\")",
       dense(3, Activation::none, {.kernel = {.initializer = initializers::he_normal(7)}}).named("head")},
      {"dense(units=3, kernel=weight(initializer=random_normal(stddev=0.5), l1=1, l2=0.5, "
       "constraint=max_norm(limit=3, axes=[0])), bias=weight(constraint=non_negative))",
       dense(3, Activation::none,
             {.kernel = {.initializer = initializers::random_normal(0, 0.5),
                         .regularizer = {.l1 = 1, .l2 = 0.5},
                         .constraint = constraints::max_norm(3)},
              .bias = {.constraint = constraints::non_negative()}})},
      {"dense(units=3, kernel=weight(constraint=min_max_norm(low=0.5, high=2, rate=0.25)))",
       dense(3, Activation::none, {.kernel = {.constraint = constraints::min_max_norm(0.5, 2, 0.25)}})},
      {"embedding(vocabulary=9, units=2, table=weight(constraint=unit_norm, on_demand=true))",
       embedding(9, 2, {.table = {.constraint = constraints::unit_norm(), .on_demand = true}})},
      {"rescaling(factor=2)", rescaling(2)},
      {"prelu(shared_axes=[1, 2])", prelu({1, 2})},
      {"dropout(rate=0.5)", dropout(0.5)},
      {"residual(body=[dense(units=3), layer_norm], activation=relu)",
       residual(Sequential({dense(3), layer_norm()}), {}, Activation::relu)},
      {"frozen(layer=dense(units=3))", frozen(dense(3))},
      {"time_distributed(layer=dense(units=3))", time_distributed(dense(3))},
  };
  for (const auto& [text, layer] : cases) EXPECT_EQ(written(parse_layer(text)), written(layer)) << text;
}

// The signature of a kind, with the layers and weights left out, is a layer with all defaults.
TEST(LayerText, SignaturesAreText) {
  int made = 0;
  for (const std::string& kind : layer_kinds()) {
    std::string text = layer_signature(kind);
    EXPECT_TRUE(text.starts_with(kind + "(")) << text;
    text = text.substr(0, text.find("), weights"));
    if (!text.ends_with(')')) text += ')';
    try {
      const LayerPtr layer = parse_layer(text);
      EXPECT_EQ(written(layer), written(parse_layer(kind))) << text;
      ++made;
    } catch (const Error& error) {  // an option or a layer that has no default
      EXPECT_TRUE(error.message().starts_with("layer '" + kind)) << error.message();
    }
  }
  EXPECT_GT(made, 30);
  EXPECT_EQ(layer_signature("dense"),
            "dense(activation=\"none\", compute=\"\", units=1, use_bias=true), weights kernel, bias");
}

TEST(LayerText, ErrorsNameKindAndOption) {
  const auto why = [](const char* text) { return message_of([&] { parse_layer(text); }); };
  EXPECT_EQ(why("dense(units=2.5)"), "layer 'dense(units=2.5)': dense: 'units' must be an integer, not 2.5");
  EXPECT_EQ(why("dense(units=0)"), "layer 'dense(units=0)': dense: units must be at least 1, not 0");
  EXPECT_EQ(why("dense(use_bias=1)"), "layer 'dense(use_bias=1)': dense: 'use_bias' must be true or false, not 1");
  EXPECT_EQ(why("dense(kernel=3)"),
            "layer 'dense(kernel=3)': dense: 'kernel' must be a call, like zeros or random_normal(stddev=0.1), not 3");
  EXPECT_EQ(why("dense(kernel=best)"), "layer 'dense(kernel=best)': there is no initializer 'best'");
  EXPECT_EQ(why("prelu(shared_axes=[\"a\"])"),
            "layer 'prelu(shared_axes=[\"a\"])': prelu: 'shared_axes' must be a list of another type than [\"a\"]");
  EXPECT_EQ(why("residual(body=3)"),
            "layer 'residual(body=3)': residual: 'body' must be a layer or a list of layers, not 3");
  EXPECT_TRUE(why("dense(unit=3)").find("unit") != std::string::npos);
  EXPECT_TRUE(why("dens(units=3)").starts_with("layer 'dens(units=3)': there is no layer of kind 'dens'; there are: "));
  EXPECT_EQ(why("dense(units=3"), "layer 'dense(units=3': column 14: expected ',' or ')', found the end");
  EXPECT_EQ(message_of([] { layer_signature("dens"); }).substr(0, 34), "there is no layer of kind 'dens'; ");
}

}  // namespace
}  // namespace troupe
