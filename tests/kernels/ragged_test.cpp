// Ragged tensors (graph/builder/ragged.hpp): compositions, compared with lists.
#include "troupe/graph/builder/ragged.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "tests/error_of.hpp"
#include "tests/kernels/evaluate_graph.hpp"
#include <troupe/graph/builder/builder.hpp>

namespace troupe::testing {
namespace {

class RaggedTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!kernel_target().on_host())
      GTEST_SKIP() << "a composition has no kernel: those of its ops are tested on GPUs by themselves";
  }
  Output longs(std::initializer_list<std::int64_t> values) { return constant(g, Tensor::vector<std::int64_t>(values)); }
  std::string text(Output x) { return evaluator.run(x).to_string(100); }

  Graph g;
  GraphEvaluator evaluator;
  // [[1, 2], [], [3, 4, 5]], and the same as pairs.
  const Ragged x = ragged_from_row_lengths(constant(g, {1.0f, 2.0f, 3.0f, 4.0f, 5.0f}), longs({2, 0, 3}));
  const Ragged pairs{constant(g, Tensor::of<float>(Shape{3, 2}, {1, 2, 3, 4, 5, 6})), longs({0, 2, 3})};
};

TEST_F(RaggedTest, LengthsBecomeRowSplits) {
  EXPECT_EQ(text(x.row_splits), "i64[4] = 0 2 2 5");
  EXPECT_EQ(text(ragged_row_lengths(x)), "i64[3] = 2 0 3");
  EXPECT_EQ(text(ragged_from_row_lengths(x.values, longs({})).row_splits), "i64[1] = 0");
  EXPECT_EQ(text(ragged_row_lengths({x.values, longs({0})})), "i64[0] =");
}

TEST_F(RaggedTest, RowsAreFilledToTheLongest) {
  EXPECT_EQ(text(ragged_to_tensor(x)), "f32[3,3] = 1 2 0 0 0 0 3 4 5");
  EXPECT_EQ(text(ragged_to_tensor(x, {.default_value = constant(g, -1.0f)})), "f32[3,3] = 1 2 -1 -1 -1 -1 3 4 5");
  EXPECT_EQ(text(ragged_to_tensor(pairs)), "f32[2,2,2] = 1 2 3 4 5 6 0 0");
  const Ragged words = string_split(constant(g, Tensor::vector<std::string>({"a b", "", "c"})));
  EXPECT_EQ(text(ragged_to_tensor(words)), "string[3,2] = a b   c ");
  EXPECT_EQ(text(ragged_to_tensor({constant(g, Tensor(DType::i64, Shape{0})), longs({0, 0, 0})})), "i64[2,0] =");
  EXPECT_EQ(text(ragged_to_tensor({constant(g, Tensor(DType::i64, Shape{0})), longs({0})})), "i64[0,0] =");
}

TEST_F(RaggedTest, ATensorGivesTheBeginningsOfItsRows) {
  const Output dense = constant(g, Tensor::of<std::int64_t>(Shape{3, 2}, {1, 2, 3, 4, 5, 6}));
  const Ragged begun = ragged_from_tensor(dense, longs({1, 0, 2}));
  EXPECT_EQ(text(begun.values), "i64[3] = 1 5 6");
  EXPECT_EQ(text(begun.row_splits), "i64[4] = 0 1 1 3");
  EXPECT_EQ(text(ragged_to_tensor(begun)), "i64[3,2] = 1 0 0 0 5 6");
}

TEST_F(RaggedTest, RowsAreReduced) {
  EXPECT_EQ(text(ragged_sum(x)), "f32[3] = 3 0 12");
  EXPECT_EQ(text(ragged_mean(x)), "f32[3] = 1.5 0 4");
  EXPECT_EQ(text(ragged_mean(pairs)), "f32[2,2] = 2 3 5 6");
  const Ragged integers{longs({7, -3, 9}), longs({0, 0, 3})};
  EXPECT_EQ(text(ragged_max(integers)), fmt::format("i64[2] = {} 9", std::numeric_limits<std::int64_t>::min()));
  EXPECT_EQ(text(ragged_min(integers)), fmt::format("i64[2] = {} -3", std::numeric_limits<std::int64_t>::max()));
}

TEST_F(RaggedTest, RowSplitsThatAreNoneAreErrors) {
  for (const Output& splits : {longs({0, 4}), longs({0, 3, 1, 5}), longs({1, 5}), longs({})})
    EXPECT_EQ(error_of([&] { text(ragged_sum({x.values, splits})); }).code(), Code::invalid_argument);
  EXPECT_EQ(error_of([&] {
              ragged_to_tensor({placeholder(g, DType::f32), longs({0, 1})});
            }).message(),
            "ragged_to_tensor: the values are f32[?...]: their rank must be known, and at least 1");
}

}  // namespace
}  // namespace troupe::testing
