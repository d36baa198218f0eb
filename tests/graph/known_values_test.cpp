// Values that are known before a graph runs.
#include <gtest/gtest.h>

#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/known_values.hpp>

namespace troupe {
namespace {

// As an exporter writes x.view(batch, -1, heads): the dimensions are computed.
TEST(KnownValues, ShapesThatAreComputedAreKnownAsFarAsTheirParts) {
  Graph g;
  const Output x = placeholder(g, DType::f32, Shape{kUnknown, 12, 6});
  const Output dims = shape_of(x);
  const Output batch = slice(dims, {0}, {1}), rows = gather(dims, constant<std::int64_t>(g, 1));
  const Output half = stack({rows / constant<std::int64_t>(g, 2)}, 0);
  const Output to = concat({batch, half, constant<std::int64_t>(g, {-1})}, 0);
  const auto known = known_integers(g, {to.node, to.index});
  ASSERT_TRUE(known);
  EXPECT_EQ(known->values, (std::vector<std::optional<std::int64_t>>{std::nullopt, 6, -1}));
  EXPECT_EQ(reshape(x, to).shape(), (Shape{kUnknown, 6, kUnknown}));
  const Output y = placeholder(g, DType::f32, Shape{2, 12, 6});
  EXPECT_EQ(reshape(y, concat({slice(shape_of(y), {0}, {1}), constant<std::int64_t>(g, {-1})}, 0)).shape(),
            (Shape{2, 72}));
  EXPECT_FALSE(known_tensor(g, {to.node, to.index}));
  EXPECT_FALSE(known_integers(g, {x.node, x.index}));
}

}  // namespace
}  // namespace troupe
