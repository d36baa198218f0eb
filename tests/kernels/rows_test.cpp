// Rows of tables in pieces: distinct ones with their places, sums by row, and the table again.
#include <gtest/gtest.h>

#include <random>

#include "tests/error_of.hpp"
#include "tests/kernels/evaluate_graph.hpp"
#include <troupe/graph/builder/builder.hpp>
#include <troupe/kernels/common/row_groups.hpp>

namespace troupe {
namespace {

using Rows = std::vector<std::int64_t>;

Rows rows_in(const Tensor& t) {
  const auto values = t.values<std::int64_t>();
  return {values.begin(), values.end()};
}
Tensor vector_of(const Rows& rows) { return Tensor::of<std::int64_t>(Shape{std::ssize(rows)}, rows); }

std::vector<Tensor> evaluate(const Outputs& outputs) {
  std::vector<Endpoint> fetches;
  for (const Output& output : outputs) fetches.push_back({output.node, output.index});
  return testing::GraphEvaluator().run(*outputs.front().graph, {}, fetches);
}

std::vector<Tensor> distinct(const std::vector<Rows>& ids, std::int64_t pieces, std::int64_t rows) {
  Graph g;
  Outputs inputs;
  for (const Rows& each : ids) inputs.push_back(constant(g, vector_of(each)));
  return evaluate(add_outputs("DistinctRows", inputs, {{"K", pieces}, {"rows", rows}}));
}

TEST(DistinctRows, OfOnePieceAreAscending) {
  const auto out = distinct({{7, 3, 7, 0}}, 1, 10);
  EXPECT_EQ(rows_in(out[0]), (Rows{0, 3, 7}));
  EXPECT_EQ(rows_in(out[1]), (Rows{2, 1, 2, 0}));
}

// Of three pieces the first has rows 0, 3, 6, 9, the second 1, 4, 7.
TEST(DistinctRows, OfSeveralPiecesAreOnesOfEach) {
  const auto out = distinct({{7, 3, 7, 0}, {9, 4}}, 3, 10);
  EXPECT_EQ(rows_in(out[0]), (Rows{0, 1, 3}));
  EXPECT_EQ(rows_in(out[1]), (Rows{1, 2}));
  EXPECT_EQ(rows_in(out[2]), Rows{});
  EXPECT_EQ(rows_in(out[3]), (Rows{4, 1, 4, 0}));
  EXPECT_EQ(rows_in(out[4]), (Rows{2, 3}));
}

TEST(DistinctRows, RefuseIdsThatTheTableDoesNotHave) {
  for (const std::int64_t bad : {10L, -1L})
    EXPECT_EQ(testing::error_of([&] { distinct({{3, bad}}, 2, 10); }).code(), Code::invalid_argument) << bad;
}

std::vector<Tensor> sums(const Rows& indices, const Tensor& values, std::int64_t pieces, std::int64_t rows) {
  Graph g;
  const Output i = constant(g, vector_of(indices)), v = constant(g, values);
  return evaluate(add_outputs("SumRows", {i, v}, {{"K", pieces}, {"rows", rows}}));
}

TEST(SumRows, AddsTheValuesOfARowInOrder) {
  // (1e8 + -1e8) + 1 = 1 in this order alone.
  const auto out = sums({4, 1, 4, 4}, Tensor::of<float>(Shape{4, 2}, {1e8F, 1, 5, 6, -1e8F, 2, 1, 3}), 2, 5);
  EXPECT_EQ(rows_in(out[0]), Rows{2});
  EXPECT_EQ(rows_in(out[1]), Rows{0});
  EXPECT_TRUE(bitwise_equal(out[2], Tensor::of<float>(Shape{1, 2}, {1, 6})));
  EXPECT_TRUE(bitwise_equal(out[3], Tensor::of<float>(Shape{1, 2}, {5, 6})));
}

// 256 + 1 + 1 is 258 in f32, and 256 if each sum is rounded to bf16.
TEST(SumRows, RoundsSumsOfSixteenBitsOnce) {
  const Tensor values = Tensor::of<BFloat16>(Shape{3, 1}, {BFloat16(256.0F), BFloat16(1.0F), BFloat16(1.0F)});
  const auto out = sums({0, 0, 0}, values, 1, 0);
  EXPECT_EQ(static_cast<float>(out[1].data<BFloat16>()[0]), 258.0F);
}

TEST(SumRows, OfNoneAreNone) {
  const auto out = sums({}, Tensor(DType::f32, Shape{0, 3}), 2, 5);
  EXPECT_EQ(out[2].shape(), (Shape{0, 3}));
  EXPECT_EQ(out[3].shape(), (Shape{0, 3}));
}

TEST(JoinRows, DealsThePiecesBack) {
  Graph g;
  const Output a = constant(g, Tensor::of<float>(Shape{3, 1}, {0, 2, 4}));
  const Output b = constant(g, Tensor::of<float>(Shape{2, 1}, {1, 3}));
  const auto out = evaluate(add_outputs("JoinRows", {a, b}, {{"rows", std::int64_t{5}}}));
  EXPECT_TRUE(bitwise_equal(out[0], Tensor::of<float>(Shape{5, 1}, {0, 1, 2, 3, 4})));
}

TEST(RowGroups, AreThoseOfAStableSort) {
  std::mt19937_64 random(1);
  for (const std::int64_t rows :
       {std::int64_t{3}, std::int64_t{70'000}, std::int64_t{20'000'000}, std::int64_t{1} << 40})
    for (const std::size_t count : {0u, 1u, 100u, 5000u}) {
      Rows given;
      for (std::size_t i = 0; i < count; ++i)
        given.push_back(static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(rows)));
      Rows order(count);
      std::iota(order.begin(), order.end(), 0);
      std::ranges::stable_sort(order, {}, [&](std::int64_t i) { return given[static_cast<std::size_t>(i)]; });
      const RowGroups groups = group_rows(given);
      EXPECT_EQ(groups.order, order) << rows << " " << count;
      std::ranges::sort(given);
      given.erase(std::ranges::unique(given).begin(), given.end());
      EXPECT_EQ(groups.rows, given) << rows << " " << count;
      EXPECT_EQ(groups.begins.size(), given.size() + 1);
    }
}

}  // namespace
}  // namespace troupe
