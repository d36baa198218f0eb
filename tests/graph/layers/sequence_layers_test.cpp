// Recurrent layers, attention and transformers beside Keras 3 (TensorFlow 2.21), with the weights of the same patterns:
// numbers are what its layers give, or compositions of them.
#include <gtest/gtest.h>

#include "tests/graph/count_ops.hpp"
#include "tests/graph/layers/layer_values.hpp"
#include "tests/graph/messages.hpp"
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/gradients/autodiff.hpp>
#include <troupe/graph/optimizers/optimizers.hpp>

namespace troupe {
namespace {

using testing::apply_layer;
using testing::expect_near;
using testing::input_pattern;
using testing::message_of;
using Names = std::vector<std::string>;

const Tensor kSteps = input_pattern(Shape{2, 3, 2});

Tensor first_output(const LayerPtr& layer, const std::vector<Tensor>& inputs) {
  return apply_layer(layer, inputs).outputs[0];
}

TEST(RecurrentLayers, SimpleRnnAndGru) {
  expect_near(first_output(layers::simple_rnn(2, {.activation = Activation::relu}), {kSteps}), Shape{2, 2},
              {0, 1.025391, 0, 1.125});
  const auto gru = apply_layer(layers::gru(2, {.return_sequences = true}), {kSteps});
  EXPECT_EQ(gru.variables, (Names{"gru/kernel[6,2]", "gru/recurrent_kernel[6,2]", "gru/bias[12]"}));
  expect_near(gru.outputs[0], Shape{2, 3, 2},
              {-0.1143646, -0.3922391, -0.3244936, -0.1178986, -0.5851562, 0.1123414, -0.01847399, -0.4460825,
               -0.2298109, -0.5089784, -0.4541144, -0.1974235});
  expect_near(
      first_output(layers::gru(2, {.recurrent_activation = Activation::hard_sigmoid, .reset_after = false}), {kSteps}),
      Shape{2, 2}, {-0.6452034, -0.02845319, -0.5035492, -0.3320205});
}

TEST(RecurrentLayers, LstmWithSequencesStatesAndBackwards) {
  const auto lstm = apply_layer(layers::lstm(2, {.return_sequences = true, .return_state = true}), {kSteps});
  EXPECT_EQ(lstm.variables, (Names{"lstm/kernel[8,2]", "lstm/recurrent_kernel[8,2]", "lstm/bias[8]"}));
  ASSERT_EQ(lstm.outputs.size(), 3u);
  expect_near(lstm.outputs[0], Shape{2, 3, 2},
              {-0.1396189, 0.02833133, 0.08019204, -0.2463371, 0.1406264, -0.271574, -0.05996189, -0.02778064,
               -0.206529, 0.05107094, 0.06913779, -0.2396991});
  expect_near(lstm.outputs[1], Shape{2, 2}, {0.1406264, -0.271574, 0.06913779, -0.2396991});
  expect_near(lstm.outputs[2], Shape{2, 2}, {0.3445084, -0.7014136, 0.2701643, -0.5488933});
  const std::vector<double> backwards = {0.09809875, -0.2137353, 0.1329221,   -0.2760719,  0.04141999,  -0.03890273,
                                         0.1057962,  -0.2360399, -0.04231012, 0.006236546, -0.08269878, -0.03118751};
  expect_near(first_output(layers::lstm(2, {.return_sequences = true, .go_backwards = true}), {kSteps}), Shape{2, 3, 2},
              backwards);
  std::vector<double> kept;
  for (const std::size_t step : {2, 1, 0, 5, 4, 3})
    kept.insert(kept.end(), backwards.begin() + 2 * static_cast<std::ptrdiff_t>(step),
                backwards.begin() + 2 * static_cast<std::ptrdiff_t>(step) + 2);
  expect_near(
      first_output(layers::lstm(2, {.return_sequences = true, .go_backwards = true, .keep_order = true}), {kSteps}),
      Shape{2, 3, 2}, kept);
}

TEST(RecurrentLayers, LengthsAndFirstStatesAreFurtherInputs) {
  const Tensor lengths = Tensor::of<std::int32_t>(Shape{2}, {2, 3});
  const auto masked = apply_layer(layers::lstm(2, {.return_state = true, .takes_lengths = true}), {kSteps, lengths});
  expect_near(masked.outputs[0], Shape{2, 2}, {0.08019204, -0.2463371, 0.06913779, -0.2396991});
  expect_near(masked.outputs[2], Shape{2, 2}, {0.3641216, -0.5824113, 0.2701643, -0.5488933});
  expect_near(first_output(layers::lstm(2, {.takes_state = true}),
                           {kSteps, input_pattern(Shape{2, 2}, 1), input_pattern(Shape{2, 2}, 2)}),
              Shape{2, 2}, {0.1533044, -0.252707, 0.05561138, -0.2419223});
  const Tensor mask = Tensor::of<bool>(Shape{2, 3}, {true, true, false, true, true, true});
  EXPECT_EQ(first_output(layers::lengths_of_mask(), {mask}).to_string(), "i64[2] = 2 3");
}

TEST(RecurrentLayers, BothDirections) {
  const auto both =
      apply_layer(layers::bidirectional(layers::lstm(2, {.return_sequences = true, .return_state = true})), {kSteps});
  EXPECT_EQ(both.variables[3], "bidirectional/backward/kernel[8,2]");
  ASSERT_EQ(both.outputs.size(), 5u);
  expect_near(both.outputs[0], Shape{2, 3, 4},
              {-0.1396189, 0.02833133, -0.01255348, 0.3229108,  0.08019204,  -0.2463371,  -0.1685863, 0.1059581,
               0.1406264,  -0.271574,  -0.07921024, 0.02391086, -0.05996189, -0.02778064, 0.1131464,  0.4203549,
               -0.206529,  0.05107094, 0.02362028,  0.2807024,  0.06913779,  -0.2396991,  -0.1039145, 0.07444347});
  expect_near(both.outputs[3], Shape{2, 2}, {-0.01255348, 0.3229108, 0.1131464, 0.4203549});
  expect_near(both.outputs[4], Shape{2, 2}, {-0.0158174, 0.6440392, 0.1387974, 0.7446936});
  expect_near(first_output(layers::bidirectional(layers::gru(2), layers::Merge::average), {kSteps}), Shape{2, 2},
              {-0.5488709, -0.1420091, -0.5269265, -0.268495});
}

TEST(RecurrentLayers, WhatDoesNotFitIsRefused) {
  EXPECT_EQ(message_of([] { layers::gru(0); }), "gru: units must be at least 1, not 0");
  EXPECT_EQ(message_of([] { layers::lstm(2, {.activation = Activation::softmax}); }),
            "lstm: activation 'softmax' is none that a recurrent layer can compute");
  EXPECT_EQ(message_of([] { layers::bidirectional(layers::dense(2)); }),
            "bidirectional: the layer must be a simple_rnn, gru or lstm");
  EXPECT_EQ(message_of([] { apply_layer(layers::lstm(2, {.takes_state = true}), {kSteps}); }),
            "layer 'lstm': it takes a sequence, the first h and c, but is called with 1 inputs");
  EXPECT_EQ(message_of([] {
              apply_layer(layers::gru(2), {input_pattern(Shape{2, 2})});
            }),
            "layer 'gru': the input is [?,2], but must be [n, steps, features]");
}

TEST(AttentionLayers, QueriesAttendToOtherSequences) {
  const Tensor query = input_pattern(Shape{1, 3, 2}), value = input_pattern(Shape{1, 2, 3}, 1);
  const layers::AttentionOptions options{.value_depth = 3, .features = 3};
  const auto cross = apply_layer(layers::multi_head_attention(2, 2, options), {query, value});
  EXPECT_EQ(cross.variables[0], "multi_head_attention/query_kernel[2,4]");
  EXPECT_EQ(cross.variables[4], "multi_head_attention/value_kernel[3,6]");
  EXPECT_EQ(cross.variables[6], "multi_head_attention/output_kernel[6,3]");
  expect_near(cross.outputs[0], Shape{1, 3, 3},
              {1.45385, -1.413691, -0.5136294, 1.457732, -1.433841, -0.5063024, 1.45584, -1.422231, -0.5105238});
  layers::AttentionOptions masked = options;
  masked.takes_mask = true;
  const Tensor mask = Tensor::of<bool>(Shape{1, 3, 2}, {true, false, true, true, false, true});
  expect_near(first_output(layers::multi_head_attention(2, 2, masked), {query, value, mask}), Shape{1, 3, 3},
              {1.40625, -1.257812, -0.5703125, 1.457732, -1.433841, -0.5063024, 1.507812, -1.601562, -0.4453125});
}

TEST(AttentionLayers, SelfAttentionMayBeCausalOrShareKeys) {
  const Tensor x = input_pattern(Shape{1, 3, 2});
  expect_near(first_output(layers::multi_head_attention(1, 2, {.causal = true}), {x}), Shape{1, 3, 2},
              {0.4921875, -1.132812, 0.2981484, -1.117886, 0.2744337, -0.9957244});
  expect_near(first_output(layers::multi_head_attention(2, 2, {.kv_heads = 1}), {x}), Shape{1, 3, 2},
              {-0.1324447, -0.85987, -0.1201673, -0.9590871, -0.09827474, -0.9595809});
}

// The way of training with dropout computes all scores; without any that drop, it must agree with the op.
TEST(AttentionLayers, DropoutOfProbabilitiesIsAnotherWayToTheSame) {
  const Tensor x = input_pattern(Shape{1, 3, 2});
  const Tensor mask = Tensor::of<bool>(Shape{1, 3}, {false, true, true});
  layers::AttentionOptions options{.kv_heads = 1, .takes_mask = true, .causal = true};
  const Tensor exact = first_output(layers::multi_head_attention(2, 2, options), {x, mask});
  options.dropout = 1e-12;
  const auto dropping = apply_layer(layers::multi_head_attention(2, 2, options), {x, mask}, true);
  expect_near(dropping.outputs[0], Shape{1, 3, 2}, {exact.values<float>().begin(), exact.values<float>().end()});
}

TEST(AttentionLayers, Positions) {
  const Tensor x = input_pattern(Shape{1, 3, 4});
  expect_near(first_output(layers::position_encoding(), {x}), Shape{1, 3, 4},
              {-0.75, 2, 0, 0, 1.591471, 0.2903023, -1.24, 1.49995, 0.4092974, 0.8338532, 0.2699987, 0.2498});
  expect_near(
      first_output(layers::rotary(), {x}), Shape{1, 3, 4},
      {-0.75, 1, 0, -1, 1.457065, -0.2549874, -0.04427464, 0.497475, -0.01925094, 1.264749, -0.5586854, -0.7248517});
  expect_near(
      first_output(layers::rotary(10000, true), {x}), Shape{1, 3, 4},
      {-0.75, 1, 0, -1, 0.6155945, 0.4960277, -1.254937, 0.4874752, -0.9285484, -0.9748323, 0.264949, -0.7448503});
  const auto learnt = apply_layer(layers::position_embedding(5), {x});
  EXPECT_EQ(learnt.variables, (Names{"position_embedding/table[5,4]"}));
  const Tensor table = testing::weight_pattern(Shape{5, 4}, 0);
  std::vector<double> sums;
  for (std::size_t i = 0; i < 12; ++i) sums.push_back(x.values<float>()[i] + table.values<float>()[i]);
  expect_near(learnt.outputs[0], Shape{1, 3, 4}, sums);
}

TEST(TransformerLayers, BlocksNormaliseBeforeOrAfter) {
  const Tensor x = input_pattern(Shape{1, 3, 4});
  const Tensor two = Tensor::of<bool>(Shape{1, 3}, {true, true, false});
  expect_near(first_output(layers::transformer_encoder(2, 3), {x, two}), Shape{1, 3, 4},
              {0.2810053, 0.3616931, -1.4961, 0.2115282, 0.2363969, 0.9447292, -0.8346916, 0.4076809, 0.2805885,
               0.3621427, -1.498374, 0.2122708});
  const layers::TransformerOptions before{.norm_first = true, .activation = Activation::gelu};
  expect_near(first_output(layers::transformer_encoder(2, 3, before), {x}), Shape{1, 3, 4},
              {-0.8343605, 0.8263224, 0.960357, -1.956953, 0.8776539, -0.5927948, 0.0859663, -0.2587227, -0.5843605,
               1.076322, 1.210357, -1.706953});
  const Tensor one = Tensor::of<bool>(Shape{1, 2}, {true, false});
  expect_near(first_output(layers::transformer_decoder(2, 3), {x, input_pattern(Shape{1, 2, 4}, 1), one}),
              Shape{1, 3, 4},
              {0.3367624, 0.611181, 0.0957149, 0.6401947, 0.3459219, 0.5865026, 0.2578624, 0.8682767, 0.3387181,
               0.6076316, 0.08297051, 0.6169858});
  expect_near(first_output(layers::transformer_decoder(1, 3, before), {x}), Shape{1, 3, 4},
              {-1.314956, 1.277921, 0.4756163, -1.539271, 1.023238, -0.7033313, 0.196785, -0.4088868, -0.5865629,
               1.083161, 1.204829, -1.703724});
}

// A small language model has gradients of all its weights, at any batch and length.
TEST(TransformerLayers, AllWeightsHaveGradients) {
  const Symbol ids = input("ids", Shape{kUnknown}, DType::i32);
  Symbol x = layers::position_embedding(16)(layers::embedding(11, 4)(ids));
  for (int i = 0; i < 2; ++i)
    x = layers::transformer_decoder(2, 8, {.norm_first = true, .dropout = 0.1, .rotary_base = 10000})(x);
  const Network model({ids}, {{"logits", layers::dense(11)(layers::rms_norm()(x))}});
  Graph graph;
  VariablePool variables;
  std::vector<RunningAverage> averages;
  LayerContext context{.graph = graph, .training = true, .variables = variables, .averages = &averages};
  const Output fed = placeholder(graph, DType::i32, Shape{kUnknown, kUnknown}, "ids");
  const Output logits = model.apply(context, fed);
  EXPECT_EQ(logits.shape(), (Shape{kUnknown, kUnknown, 11}));
  for (const GradientAndVariable& g : compute_gradients(sum(logits), variables.trainable()))
    EXPECT_TRUE(g.gradient) << g.variable.name;
  EXPECT_TRUE(graph.find("transformer_decoder_1/feed_forward_out/MatMul"));
  EXPECT_EQ(testing::count_ops(graph, "Dropout"), 6);
}

TEST(AttentionLayers, WhatDoesNotFitIsRefused) {
  EXPECT_EQ(message_of([] { layers::multi_head_attention(3, 2, {.kv_heads = 2}); }),
            "multi_head_attention: 3 heads cannot share 2 keys and values");
  EXPECT_EQ(message_of([] { layers::multi_head_attention(1, 2, {.dropout = 1}); }),
            "multi_head_attention: dropout must be in [0, 1), not 1");
  EXPECT_EQ(message_of([] {
              apply_layer(layers::transformer_encoder(3, 4), {input_pattern(Shape{1, 3, 4})});
            }),
            "layer 'transformer_encoder': 4 features cannot be cut into 3 heads");
  EXPECT_EQ(message_of([] {
              apply_layer(layers::position_encoding(), {input_pattern(Shape{1, 3, 3})});
            }),
            "layer 'position_encoding': the number of features must be even, but the input is [?,3,3]");
}

}  // namespace
}  // namespace troupe
