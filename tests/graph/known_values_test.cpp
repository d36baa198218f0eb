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

using Values = std::vector<std::optional<std::int64_t>>;

Values known(Output x) {
  const auto found = known_integers(*x.graph, {x.node, x.index});
  return found ? found->values : Values{-999};
}

TEST(KnownValues, ListsAreCutJoinedAndRepeated) {
  Graph g;
  const Output dims = shape_of(placeholder(g, DType::f32, Shape{kUnknown, 3, 5, 7}));
  const auto unknown = std::nullopt;
  EXPECT_EQ(known(strided_slice(dims, {-1}, {-100}, {.strides = IntegersArg{-2}})), (Values{7, 3}));
  EXPECT_EQ(known(strided_slice(dims, {1}, {0}, {.shrink_axis_mask = 1})), (Values{3}));
  EXPECT_EQ(known(split(dims, 0, 2)[1]), (Values{5, 7}));
  EXPECT_EQ(known(split_sizes(dims, 0, {1, 3})[0]), (Values{unknown}));
  EXPECT_EQ(known(unstack(dims, 0)[2]), (Values{5}));
  EXPECT_TRUE(unstack(dims, 0)[2].shape().is_scalar());
  EXPECT_EQ(known(reverse(dims, 0)), (Values{7, 5, 3, unknown}));
  EXPECT_EQ(known(tile(slice(dims, {2}, {2}), {2})), (Values{5, 7, 5, 7}));
  EXPECT_EQ(known(pad_list(slice(dims, {1}, {3}), {1, -2}, {.value = 1})), (Values{1, 3}));
  EXPECT_EQ(known(broadcast_to(slice(dims, {1}, {1}), {3})), (Values{3, 3, 3}));
  EXPECT_EQ(known(fill(constant<std::int64_t>(g, {2}), constant<std::int64_t>(g, 7))), (Values{7, 7}));
  EXPECT_EQ(known(expand_dims(squeeze(slice(dims, {1}, {1}), 0), 0)), (Values{3}));
  EXPECT_EQ(known(pad_list(dims, {1, 1}, {.mode = PadMode::edge})), (Values{-999}));
}

}  // namespace
}  // namespace troupe
