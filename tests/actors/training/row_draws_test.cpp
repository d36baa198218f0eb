// Rows of an initial value, one by one, and the places of those that are kept.
#include <gtest/gtest.h>

#include <random>

#include "tests/error_of.hpp"
#include <troupe/actors/training/row_draws.hpp>
#include <troupe/actors/training/row_places.hpp>
#include <troupe/graph/builder/builder.hpp>
#include <troupe/troupe.hpp>

namespace troupe {
namespace {

// Width 7: rows begin in the middle of a block of random values.
TEST(RowDraws, HaveTheBitsOfTheWhole) {
  Task task({.threads = 1});
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16})
    for (const std::int64_t width : {7, 8}) {
      Graph g;
      const Shape shape{50, width};
      const Output values[] = {random_uniform(g, shape, -0.5, 0.5, {.dtype = dtype, .seed = 3}),
                               random_normal(g, shape, 1, 2, {.dtype = dtype}),
                               truncated_normal(g, shape, 0, 0.05, {.dtype = dtype}),
                               identity(initializers::constant(0.1)(g, {.dtype = dtype, .shape = shape}), "same")};
      Session session(task, g, {.seed = 5});
      for (const Output& value : values) {
        const Tensor whole = session.run({}, std::vector<Output>{value}, {}, {.random_step = 0})[0];
        const RowDraws draws(g, {value.node, value.index}, 5);
        Tensor one_by_one(dtype, shape);
        for (std::int64_t row = 0; row < 50; ++row)
          draws.draw(row, one_by_one.mutable_raw() + static_cast<std::size_t>(row) * draws.row_bytes());
        EXPECT_TRUE(bitwise_equal(one_by_one, whole)) << value.source().op->name << " " << name(dtype) << " " << width;
      }
    }
}

TEST(RowDraws, OfOtherInitialValuesAreRefused) {
  Graph g;
  const Output sum = random_normal(g, Shape{5, 2}, 0, 1) + 1.0;
  EXPECT_NE(testing::error_of([&] {
              RowDraws(g, {sum.node, sum.index}, 1);
            })
                .message()
                .find("one by one"),
            std::string::npos);
}

TEST(RowPlaces, AreInTheOrderOfTheFirstUpdates) {
  RowPlaces places;
  EXPECT_EQ(places.find(3), -1);
  std::mt19937_64 random(2);
  std::vector<std::int64_t> order;
  for (int i = 0; i < 5000; ++i) {
    const auto row = static_cast<std::int64_t>(random() % 3000) << 20;
    const auto before = places.size();
    const std::int64_t place = places.place(row);
    if (place == before) order.push_back(row);
    EXPECT_EQ(order.at(static_cast<std::size_t>(place)), row);
  }
  EXPECT_EQ(std::vector<std::int64_t>(places.rows().begin(), places.rows().end()), order);
  for (std::size_t i = 0; i < order.size(); ++i) EXPECT_EQ(places.find(order[i]), static_cast<std::int64_t>(i));
  EXPECT_EQ(places.find(1), -1);
}

}  // namespace
}  // namespace troupe
