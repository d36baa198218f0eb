// Shape functions of recurrent layers and attention.
#include <gtest/gtest.h>

#include "tests/graph/messages.hpp"
#include <troupe/graph/builder/builder.hpp>

namespace troupe {
namespace {

const std::int64_t kNoDim = kUnknown;
const Shape kNoShape = Shape::unknown_rank();

std::string shapes_of(const Graph& graph, Output output) {
  std::string text;
  for (const Shape& shape : graph.node(output.node).output_shapes)
    text += (text.empty() ? "" : " ") + shape.to_string();
  return text;
}

// The shapes of an LSTM's outputs, or the message of the error.
std::string lstm_shapes(Shape x, Shape w, Shape r, std::optional<Shape> bias = {}, std::optional<Shape> peepholes = {},
                        Direction direction = Direction::forward) {
  Graph graph;
  std::string shapes;
  const auto input = [&](const Shape& shape) { return placeholder(graph, DType::f32, shape); };
  const Output sequence = input(x), weights = input(w), recurrent = input(r);
  LstmOptions options{.direction = direction, .name = "n"};
  if (bias) options.bias = input(*bias);
  if (peepholes) options.peepholes = input(*peepholes);
  const std::string error =
      testing::message_of([&] { shapes = shapes_of(graph, lstm(sequence, weights, recurrent, options).y); });
  return error == "no error" ? shapes : error;
}

TEST(SequenceShapes, Lstm) {
  EXPECT_EQ(lstm_shapes({7, 2, 3}, {1, 20, 3}, {1, 20, 5}), "[7,1,2,5] [1,2,5] [1,2,5] [1,7,2,20] [1,7,2,5]");
  EXPECT_EQ(lstm_shapes({kNoDim, kNoDim, 3}, kNoShape, {2, kNoDim, 5}, {}, {}, Direction::bidirectional),
            "[?,2,?,5] [2,?,5] [2,?,5] [2,?,?,20] [2,?,?,5]");
  EXPECT_EQ(lstm_shapes(kNoShape, {1, 20, kNoDim}, kNoShape), "[?,1,?,5] [1,?,5] [1,?,5] [1,?,?,20] [1,?,?,5]");
  EXPECT_EQ(lstm_shapes({7, 2, 3}, {1, 20, 4}, {1, 20, 5}),
            "LSTM 'n': the last dimensions of 'x' and 'w' differ: 3 and 4");
  EXPECT_EQ(lstm_shapes({7, 2, 3}, {1, 20, 3}, {1, 24, 5}),
            "LSTM 'n': the units of 'r' and dimension 1 of 'w' or 'r', per gate, differ: 5 and 6");
  EXPECT_EQ(lstm_shapes({7, 2, 3}, {1, 21, 3}, {1, 20, 5}),
            "LSTM 'n': dimension 1 of 'w' or 'r' is 21, not 4 times the units");
  EXPECT_EQ(lstm_shapes({7, 2, 3}, {1, 20, 3}, {1, 20, 5}, {}, {}, Direction::bidirectional),
            "LSTM 'n': the number of directions and the first dimension of 'w' or 'r' differ: 2 and 1");
  EXPECT_EQ(lstm_shapes({7, 2, 3}, {1, 20, 3}, {1, 20, 5}, Shape{1, 20}),
            "LSTM 'n': 'bias' must be [1,40] or have no elements, but is [1,20]");
  EXPECT_EQ(lstm_shapes({7, 2, 3}, {1, 20, 3}, {1, 20, 5}, {}, Shape{15}),
            "LSTM 'n': 'peepholes' must be [1,15] or have no elements, but is [15]");
}

TEST(SequenceShapes, BatchMajor) {
  Graph graph;
  const Output x = placeholder(graph, DType::f32, {2, 7, 3}), w = placeholder(graph, DType::f32, {1, 15, 3}),
               r = placeholder(graph, DType::f32, {1, 15, 5});
  const RnnOutputs out = gru(x, w, r, {.batch_major = true});
  EXPECT_EQ(out.y.shape(), (Shape{2, 7, 1, 5}));
  EXPECT_EQ(out.last_h.shape(), (Shape{2, 1, 5}));
}

TEST(SequenceShapes, ActivationsOfEachDirection) {
  Graph graph;
  const Output x = placeholder(graph, DType::f32, {2, 7, 3}), w = placeholder(graph, DType::f32, {2, 15, 3}),
               r = placeholder(graph, DType::f32, {2, 15, 5});
  EXPECT_EQ(testing::message_of([&] {
              gru(x, w, r,
                  {.direction = Direction::bidirectional, .activations = {{"tanh"}, {"relu"}, {"tanh"}}, .name = "n"});
            }),
            "GRU 'n': attributes 'activations', 'alphas' and 'betas' must have 4 elements each, not 3, 3 and 3");
}

std::string attention_shapes(Shape q, Shape k, Shape v, std::optional<Shape> mask = {}) {
  Graph graph;
  std::string shapes;
  const auto input = [&](const Shape& shape) { return placeholder(graph, DType::f32, shape); };
  const Output queries = input(q), keys = input(k), values = input(v);
  AttentionOptions options{.scale = 1.0, .name = "n"};
  if (mask) options.mask = input(*mask);
  const std::string error =
      testing::message_of([&] { shapes = shapes_of(graph, attention(queries, keys, values, options)); });
  return error == "no error" ? shapes : error;
}

TEST(SequenceShapes, Attention) {
  EXPECT_EQ(attention_shapes({2, 8, 5, 4}, {2, 2, 7, 4}, {2, 2, 7, 3}, Shape{5, 7}), "[2,8,5,3] [2,8,5]");
  EXPECT_EQ(attention_shapes({kNoDim, 8, kNoDim, 4}, kNoShape, {2, kNoDim, 7, 3}), "[2,8,?,3] [2,8,?]");
  EXPECT_EQ(attention_shapes(kNoShape, {2, 7, 4}, kNoShape), "[?...] [?...]");
  EXPECT_EQ(attention_shapes({8, 5, 4}, {3, 7, 4}, {3, 7, 3}),
            "Attention 'n': the 8 heads of 'q' must be a multiple of the 3 of 'k' and 'v'");
  EXPECT_EQ(attention_shapes({2, 5, 4}, {2, 7, 3}, {2, 7, 3}),
            "Attention 'n': the last dimensions of 'q' and 'k' differ: 4 and 3");
  EXPECT_EQ(attention_shapes({2, 5, 4}, {2, 7, 4}, {2, 6, 3}),
            "Attention 'n': the number of keys in 'k' and 'v' differ: 7 and 6");
  EXPECT_EQ(attention_shapes({5, 4}, {7, 4}, {7, 3}),
            "Attention 'n': 'q' must have rank 3 or more, but its shape is [5,4]");
  EXPECT_EQ(attention_shapes({2, 5, 4}, {2, 7, 4}, {2, 7, 3}, Shape{5, 5}),
            "Attention 'n': dimensions of the mask and of the scores differ: 5 and 7");
}

TEST(SequenceShapes, RotaryEmbedding) {
  Graph graph;
  const Output x = placeholder(graph, DType::f32, {2, kNoDim, 6}), angles = placeholder(graph, DType::f32, {kNoDim, 2}),
               many = placeholder(graph, DType::f32, {kNoDim, 4});
  EXPECT_EQ(rotary_embedding(x, angles, angles).shape(), (Shape{2, kNoDim, 6}));
  EXPECT_EQ(rotary_embedding(x, angles, angles, {.interleaved = true}).shape()[-1], 6);
  EXPECT_EQ(testing::message_of([&] { rotary_embedding(x, many, many); }),
            "rotary_embedding: x has 6 elements in its last dimension, less than twice the 4 of cos");
}

}  // namespace
}  // namespace troupe
