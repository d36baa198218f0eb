// What holds for every layer: it is data, it has gradients, it computes in 16 bits.
#include <gtest/gtest.h>

#include "tests/graph/layers/layer_values.hpp"
#include "tests/graph/messages.hpp"
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/gradients/autodiff.hpp>
#include <troupe/graph/layers/network_format.hpp>
#include <troupe/graph/optimizers/optimizers.hpp>

namespace troupe {
namespace {

using namespace layers;

struct Example {
  LayerPtr layer;
  std::vector<Shape> inputs;  // f32, of one example
};

std::vector<Example> examples() {
  const Shape steps{kUnknown, 6}, image{8, 8, 4}, volume{4, 4, 4, 2};
  std::vector<Example> all = {
      {dense(3, Activation::selu, {.use_bias = false}), {steps}},
      {prelu({1}, {.initializer = initializers::constant(0.1)}), {steps}},
      {residual(Sequential({dense(6)}), Sequential({dense(6)}), Activation::relu), {steps}},
      {time_distributed(Sequential({dense(3), dropout(0.5)})), {steps}},
      {frozen(dense(3)), {steps}},
      {rescaling(2, 1), {steps}},
      {conv1d(4, 3, Activation::relu, {.dilations = {2}, .causal = true}), {Shape{kUnknown, 4}}},
      {conv2d(4, {3, 2}, Activation::none, {.strides = {2, 1}, .groups = 2, .padding = Padding::same}), {image}},
      {conv3d(4, {2, 2, 2}), {volume}},
      {depthwise_conv1d(3, 2), {Shape{9, 4}}},
      {depthwise_conv2d({3, 3}), {image}},
      {separable_conv1d(4, 3), {Shape{9, 4}}},
      {separable_conv2d(4, {3, 3}), {image}},
      {conv1d_transpose(4, 3), {Shape{9, 4}}},
      {conv2d_transpose(4, {3, 3}, Activation::relu, {.strides = {2, 2}}), {image}},
      {conv3d_transpose(4, {2, 2, 2}), {volume}},
      {max_pool(2), {image}},
      {average_pool(2), {image}},
      {max_pool1d(2), {Shape{9, 4}}},
      {average_pool1d(2, {.padding = Padding::same}), {Shape{9, 4}}},
      {max_pool3d({2, 2, 2}), {volume}},
      {average_pool3d({2, 2, 2}), {volume}},
      {global_average_pool(), {image}},
      {global_max_pool(), {image}},
      {up_sampling({2, 3}), {image}},
      {up_sampling({2, 2}, Interpolation::cubic), {image}},
      {zero_padding({1, 2}, {0, 3}), {image}},
      {cropping({1, 2}, {0, 3}), {image}},
      {batch_norm(Activation::relu, {.momentum = 0.5}), {image}},
      {layer_norm({.dimensions = 2, .use_offset = false}), {image}},
      {rms_norm(), {steps}},
      {group_norm(2), {image}},
      {instance_norm(), {image}},
      {unit_norm({-1}), {steps}},
      {dropout(0.5, 1), {steps}},
      {spatial_dropout(0.5, 1), {image}},
      {gaussian_noise(0.5, 1), {steps}},
      {gaussian_dropout(0.5, 1), {steps}},
      {alpha_dropout(0.5, 1), {steps}},
      {flatten(), {image}},
      {reshape({-1, 16}), {image}},
      {permute({2, 1}), {steps}},
      {repeat_vector(3), {Shape{6}}},
      {layers::add(), {steps, steps, steps}},
      {multiply(), {steps, steps}},
      {average(), {steps, steps}},
      {layers::maximum(), {steps, steps}},
      {layers::minimum(), {steps, steps}},
      {subtract(), {steps, steps}},
      {concatenate(1), {steps, steps}},
      {dot({.axis_a = 2, .axis_b = 2, .normalize = true}), {steps, steps}},
      {simple_rnn(3, {.return_sequences = true, .activation = Activation::relu, .use_bias = false}), {steps}},
      {layers::gru(3, {.reset_after = false}), {steps}},
      {layers::lstm(3, {.return_state = true, .go_backwards = true, .takes_state = true}), {steps, Shape{3}, Shape{3}}},
      {bidirectional(layers::gru(3, {.return_sequences = true}), Merge::sum), {steps}},
      {multi_head_attention(2, 3, {.value_depth = 2, .causal = true, .rotary_base = 100}), {steps, steps, steps}},
      {multi_head_attention(4, 2, {.kv_heads = 2, .features = 5, .dropout = 0.5}), {steps}},
      {position_encoding(100), {steps}},
      {position_embedding(9), {Shape{5, 6}}},
      {rotary(100, true), {steps}},
      {transformer_encoder(2, 5, {.norm_first = true, .causal = true, .dropout = 0.5}), {steps}},
      {transformer_decoder(3, 5), {steps, steps}},
      {normalization(Tensor::of<float>(Shape{1}, {1}), Tensor::of<float>(Shape{1}, {2})), {steps}},
  };
  for (int a = 0; a <= static_cast<int>(Activation::glu); ++a) all.push_back({activation(Activation(a)), {steps}});
  return all;
}

struct Built {
  Graph graph;
  VariablePool variables;
  std::vector<RunningAverage> averages;
  LayerContext context{.graph = graph, .training = true, .variables = variables, .averages = &averages};
  Outputs xs, ys;

  Built(const Network& network, const std::vector<Shape>& inputs) {
    for (const Shape& shape : inputs) xs.push_back(placeholder(graph, DType::f32, Shape{kUnknown}.concatenated(shape)));
    ys = network.apply(context, xs);
  }
};

Network network_of(const Example& example) {
  Symbols inputs;
  for (const Shape& shape : example.inputs) inputs.push_back(input(fmt::format("x{}", inputs.size()), shape));
  return Network(inputs, example.layer.call(inputs));
}

TEST(EveryLayer, IsWrittenAndReadBack) {
  for (const Example& example : examples()) {
    SCOPED_TRACE(example.layer->kind());
    const Network network = network_of(example), read = parse_network(serialize(network));
    EXPECT_EQ(to_text(read), to_text(network));
    EXPECT_EQ(Built(read, example.inputs).graph.dump(), Built(network, example.inputs).graph.dump());
  }
}

TEST(EveryLayer, HasGradientsOfWeightsAndInputs) {
  for (const Example& example : examples()) {
    SCOPED_TRACE(example.layer->kind());
    Built built(network_of(example), example.inputs);
    Output loss = sum(built.ys[0]);
    for (std::size_t i = 1; i < built.ys.size(); ++i) loss = loss + sum(built.ys[i]);
    std::vector<VariableRef> trained = built.variables.trainable();
    if (!trained.empty())
      for (const GradientAndVariable& g : compute_gradients(loss, trained)) {
        EXPECT_TRUE(g.gradient) << g.variable.name;
      }
    for (const Gradient& g : gradients(std::span(&loss, 1), built.xs)) EXPECT_TRUE(g);
  }
}

TEST(EveryLayer, ComputesIn16BitsWithWeightsOf32) {
  for (const Example& example : examples()) {
    SCOPED_TRACE(example.layer->kind());
    for (const DType compute : {DType::bf16, DType::f16}) {
      const LayerPtr narrow = lambda([&](LayerContext& context, Output y) { return cast(y, context.compute); });
      Symbols inputs, narrowed;
      for (const Shape& shape : example.inputs) {
        inputs.push_back(input(fmt::format("x{}", inputs.size()), shape));
        narrowed.push_back(narrow(inputs.back()));
      }
      Network network(inputs, example.layer.call(narrowed));
      network.set_compute(compute);
      std::string error;
      try {
        const Built built(network, example.inputs);
        for (const Output& y : built.ys) EXPECT_EQ(y.dtype(), DType::f32);
        for (const VariableRef& v : built.variables.all()) EXPECT_EQ(v.dtype, DType::f32) << v.name;
      } catch (const Error& e) {
        error = e.message();
      }
      EXPECT_EQ(error, "");
    }
  }
}

}  // namespace
}  // namespace troupe
