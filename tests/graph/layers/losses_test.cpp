#include <gtest/gtest.h>

#include "tests/graph/messages.hpp"
#include <troupe/graph/known_values.hpp>
#include <troupe/graph/layers/losses.hpp>

namespace troupe {
namespace {

using testing::message_of;

struct Batch {
  Graph graph;
  Output of(const Shape& shape, DType dtype = DType::f32) { return placeholder(graph, dtype, shape); }
};

TEST(Losses, EachIsAScalarOfTheOutputsDtype) {
  Batch b;
  const Output logits = b.of(Shape{kUnknown, 3}, DType::f64);
  const Output targets = b.of(Shape{kUnknown, 3}, DType::f64);
  for (const Output loss :
       {losses::sparse_softmax_cross_entropy(logits, b.of(Shape{kUnknown}, DType::i32)),
        losses::softmax_cross_entropy(logits, targets), losses::sigmoid_cross_entropy(logits, targets),
        losses::mean_squared_error(logits, targets)}) {
    EXPECT_EQ(loss.shape(), Shape{}) << loss.name();
    EXPECT_EQ(loss.dtype(), DType::f64) << loss.name();
  }
}

TEST(Losses, AnExampleOfSeveralElementsCountsByTheirMean) {
  Batch b;
  const Output each = losses::per_example(Loss::mean_squared_error, b.of(Shape{5, 2, 3}), b.of(Shape{5, 2, 3}));
  EXPECT_EQ(each.shape(), Shape{5});
  EXPECT_EQ(each.source().op->name, "Mean");
  EXPECT_EQ(known_integers(b.graph, each.source().inputs[1])->integers(), (Integers{1, 2}));
  EXPECT_EQ(losses::per_example(Loss::mean_squared_error, b.of(Shape{5}), b.of(Shape{5})).source().op->name,
            "SquaredDifference");
}

TEST(Losses, ShapesThatWouldBroadcastAreRefused) {
  Batch b;
  const Output x = placeholder(b.graph, DType::f32, Shape{5}, "x");
  const Output column = placeholder(b.graph, DType::f32, Shape{5, 1}, "column");
  EXPECT_EQ(message_of([&] { losses::mean_squared_error(x, column); }),
            "mean squared error: cannot compare 'x' and 'column' of shapes [5] and [5,1]");
  EXPECT_EQ(message_of([&] {
              metrics::correct_count(b.of(Shape{5, 3}), column);
            }),
            "correct_count: cannot compare 'ArgMax' and 'column' of shapes [5] and [5,1]");
}

TEST(Losses, OutputsNeedExamples) {
  Batch b;
  const Output x = placeholder(b.graph, DType::f32, Shape{}, "x");
  EXPECT_EQ(message_of([&] { losses::mean_squared_error(x, x); }),
            "loss: the outputs 'x' are [], but must have a known rank and a dimension for the examples");
  EXPECT_EQ(message_of([&] { losses::mean_squared_error({}, x); }), "loss: the outputs are not a tensor");
}

TEST(Losses, TargetsAndOptionsThatDoNotFitAreRefused) {
  Batch b;
  const Output rows = placeholder(b.graph, DType::f32, Shape{5, 3}, "rows");
  const Output column = placeholder(b.graph, DType::i32, Shape{5, 1}, "column");
  const Output n = placeholder(b.graph, DType::f32, Shape{5}, "n");
  EXPECT_EQ(message_of([&] { losses::mean(Loss::hinge, rows, {}); }), "loss: the targets are not a tensor");
  EXPECT_EQ(message_of([&] { losses::mean(Loss::focal, rows, column); }),
            "loss: the outputs 'rows' [5,3] need a dimension of classes behind those of the targets 'column' [5,1]");
  EXPECT_EQ(message_of([&] { losses::mean(Loss::cosine_distance, n, n); }),
            "cosine_distance: the outputs 'n' are [5], but must be rows [n,...,c]");
  EXPECT_EQ(
      message_of([&] { losses::mean(Loss::generalized_cross_entropy, rows, b.of(Shape{5}, DType::i32), {.q = 0}); }),
      "generalized_cross_entropy: q is 0, but must be in (0, 1]");
  EXPECT_EQ(message_of([&] { losses::weighted_mean(n, rows); }),
            "weighted_mean: cannot compare 'n' and 'rows' of shapes [5] and [5,3]");
}

TEST(Metrics, SumsAreWide) {
  Batch b;
  const Output correct = metrics::correct_count(b.of(Shape{5, 3}), b.of(Shape{5}, DType::i32), "correct");
  EXPECT_EQ(correct.name(), "correct");
  EXPECT_EQ(correct.dtype(), DType::i64);
  EXPECT_EQ(correct.shape(), Shape{});
}

}  // namespace
}  // namespace troupe
