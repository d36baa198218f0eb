// Shapes of slices, pads and reorders, whose arguments are tensors that may be known.
#include <gtest/gtest.h>

#include <limits>

#include "tests/graph/messages.hpp"
#include <troupe/graph/builder/builder.hpp>

namespace troupe {
namespace {

using testing::message_of;

constexpr std::int64_t kAny = kUnknown;
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

class SliceShapes : public ::testing::Test {
 protected:
  Output x(const Shape& shape) { return placeholder(g_, DType::f32, shape); }
  Output list(std::int64_t count) { return placeholder(g_, DType::i64, Shape{count}); }
  Output unknown_rank() { return placeholder(g_, DType::f32); }
  Graph g_;
};

TEST_F(SliceShapes, ABoxHasTheSizesGiven) {
  EXPECT_EQ(slice(x({5, kAny}), {1, 2}, {-1, -1}).shape(), (Shape{4, kAny}));
  EXPECT_EQ(slice(x({kAny, kAny}), {1, 2}, {3, -1}).shape(), (Shape{3, kAny}));
  EXPECT_EQ(slice(x({5, 6}), list(2), {3, -1}).shape(), (Shape{3, kAny}));
  EXPECT_EQ(slice(x({5, 6}), {0, 0}, list(2)).shape(), Shape::unknown(2));
  EXPECT_EQ(slice(unknown_rank(), list(2), {3, 4}).shape(), (Shape{3, 4}));
  EXPECT_FALSE(slice(unknown_rank(), list(kAny), list(kAny)).shape().has_rank());
  EXPECT_EQ(message_of([&] { slice(x({5}), {2}, {4}, "n"); }),
            "Slice 'n': slice [2, 6) of dimension 0 is out of range for [5]");
  EXPECT_EQ(message_of([&] { slice(x({5}), {6}, {-1}, "n"); }),
            "Slice 'n': slice [6, end) of dimension 0 is out of range for [5]");
  EXPECT_EQ(message_of([&] { slice(x({5}), {kMost}, {2}, "n"); }),
            "Slice 'n': a dimension of 9223372036854775807 + 2 overflows");
  EXPECT_EQ(message_of([&] {
              slice(x({5}), {1, 1}, {2, 2}, "n");
            }),
            "Slice 'n': 'begin' has 2 entries where there must be 1");
  const auto grad = [&](const Shape& dy, std::int64_t begin) {
    const Output from = constant<std::int64_t>(g_, {begin});
    return add_op("SliceGrad", {x(dy), x({5}), from}, {}, "n").shape();
  };
  EXPECT_EQ(message_of([&] { grad({3}, 3); }),
            "SliceGrad 'n': a slice [3] from 3 in dimension 0 is out of range for [5]");
  EXPECT_EQ(grad({2}, 3), (Shape{5}));
}

TEST_F(SliceShapes, StridesAreClampedLikeNumPys) {
  EXPECT_EQ(strided_slice(x({10, 4}), {1}, {kMost}, {.strides = IntegersArg{3}}).shape(), (Shape{3, 4}));
  EXPECT_EQ(strided_slice(x({10, 4}), {-1}, {0}, {.strides = IntegersArg{-2}, .axes = IntegersArg{-1}}).shape(),
            (Shape{10, 2}));
  EXPECT_EQ(strided_slice(x({kAny, 4}), {1, 0}, {kMost, 2}).shape(), (Shape{kAny, 2}));
  EXPECT_EQ(strided_slice(x({kAny}), {3}, {2}).shape(), (Shape{0}));
  EXPECT_EQ(strided_slice(x({8, 4}), list(1), {2}).shape(), (Shape{kAny, 4}));
  EXPECT_EQ(strided_slice(x({8, 4}), {1}, {2}, {.axes = list(1)}).shape(), Shape::unknown(2));
  EXPECT_EQ(message_of([&] { strided_slice(x({3}), {0}, {1}, {.strides = IntegersArg{0}, .name = "n"}); }),
            "StridedSlice 'n': a stride is 0");
  EXPECT_EQ(message_of([&] {
              strided_slice(x({3}), {0, 0}, {1, 1}, {.name = "n"});
            }),
            "StridedSlice 'n': there are 2 axes, but 'x' is [3]");
}

// x[..., 1:, None, -1] and others, as TensorFlow writes them.
TEST_F(SliceShapes, MasksOfTensorFlowAreComposed) {
  const Output t = x({2, 3, 4, 5});
  EXPECT_EQ(strided_slice(t, {0, 1, 0, -1}, {0, 0, 0, 0},
                          {.end_mask = 2, .ellipsis_mask = 1, .new_axis_mask = 4, .shrink_axis_mask = 8})
                .shape(),
            (Shape{2, 3, 3, 1}));
  EXPECT_EQ(strided_slice(t, {1, 0, 0}, {0, 0, 2}, {.new_axis_mask = 2, .shrink_axis_mask = 1}).shape(),
            (Shape{1, 2, 4, 5}));
  EXPECT_EQ(strided_slice(t, {0, 9}, {0, 0}, {.strides = IntegersArg{-1, 1}, .begin_mask = 1, .end_mask = 1}).shape(),
            (Shape{2, 0, 4, 5}));
  EXPECT_EQ(strided_slice(t, list(1), list(1), {.shrink_axis_mask = 1}).shape(), (Shape{3, 4, 5}));
  EXPECT_EQ(strided_slice(t, {0}, {0}, {.ellipsis_mask = 1}).shape(), t.shape());
}

TEST_F(SliceShapes, PadsAndTiles) {
  EXPECT_EQ(pad(x({2, kAny}), {1, 1}, {0, 2}).shape(), (Shape{3, kAny}));
  EXPECT_EQ(pad(x({5, 3}), {-1, 0}, {-2, 1}).shape(), (Shape{2, 4}));
  EXPECT_EQ(pad_list(x({5, 3}), list(4)).shape(), Shape::unknown(2));
  EXPECT_EQ(pad_list(unknown_rank(), list(4)).shape(), Shape::unknown(2));
  EXPECT_EQ(message_of([&] { pad(x({2}), {-3}, {4}, {.name = "n"}); }),
            "Pad 'n': pads of -3 and 4 crop more than dimension 0 of [2]");
  EXPECT_EQ(message_of([&] {
              pad(x({2}), {0, 0}, {0, 0}, {.name = "n"});
            }),
            "Pad 'n': 'pads' has 4 entries where there must be 2");
  EXPECT_EQ(tile(x({2, kAny}), {3, 2}).shape(), (Shape{6, kAny}));
  EXPECT_EQ(tile(x({2, 3}), list(2)).shape(), Shape::unknown(2));
  EXPECT_EQ(message_of([&] { tile(x({1ll << 40}), {1ll << 40}, "n"); }),
            "Tile 'n': a dimension of 1099511627776 x 1099511627776 overflows");
  const auto grad = [&](const Shape& dy) {
    const Output times = constant<std::int64_t>(g_, {3});
    return add_op("TileGrad", {x(dy), x({2}), times}, {}, "n").shape();
  };
  EXPECT_EQ(message_of([&] { grad({5}); }), "TileGrad 'n': the sizes of 'dy' and of the tiled 'x' differ: 5 and 6");
  EXPECT_EQ(grad({6}), (Shape{2}));
}

TEST_F(SliceShapes, OrdersDiagonalsAndBlocks) {
  EXPECT_EQ(message_of([&] { reverse(x({2, 3}), {0, -2}, "n"); }), "Reverse 'n': axis 0 is given twice");
  EXPECT_EQ(repeat(x({2, 3}), 4, 1).shape(), (Shape{2, 12}));
  EXPECT_EQ(repeat(x({2, 3}), {1, 0, 5}, -1).shape(), (Shape{2, 6}));
  EXPECT_EQ(repeat(x({kAny, 3}), list(kAny), 0).shape(), (Shape{kAny, 3}));
  EXPECT_EQ(diag_part(x({2, 3, 5}), 3).shape(), (Shape{2, 2}));
  EXPECT_EQ(diag_part(x({2, 3, 5}), -9).shape(), (Shape{2, 0}));
  EXPECT_EQ(diag(x({kAny, 3}), -2).shape(), (Shape{kAny, 5, 5}));
  EXPECT_EQ(message_of([&] {
              set_diag(x({3, 3}), x({2}), 0, "n");
            }),
            "SetDiag 'n': the shapes of 'the diagonal of x' and 'diagonal' differ: [3] and [2]");
  EXPECT_EQ(depth_to_space(x({kAny, 8, 3, 5}), 2).shape(), (Shape{kAny, 2, 6, 10}));
  EXPECT_EQ(space_to_depth(x({1, 6, kAny, 3}), 3, {.channels_last = true}).shape(), (Shape{1, 2, kAny, 27}));
  EXPECT_EQ(message_of([&] {
              depth_to_space(x({1, 6, 3, 5}), 2, {.name = "n"});
            }),
            "DepthToSpace 'n': the number of channels, 6, is not divisible by 4");
  EXPECT_EQ(space_to_batch(x({2, 3, 4, 5}), {2, 2}, {1, 0, 0, 0}).shape(), (Shape{8, 2, 2, 5}));
  EXPECT_EQ(batch_to_space(x({8, 2, kAny, 5}), {2, 2}, {1, 0, 0, 0}).shape(), (Shape{2, 3, kAny, 5}));
  EXPECT_EQ(flatten(x({2, kAny, 4}), 2).shape(), (Shape{kAny, 4}));
  EXPECT_EQ(flatten(x({2, 3, 4}), -1).shape(), (Shape{6, 4}));
  const Outputs grid = meshgrid({x({2}), x({3})});
  EXPECT_EQ(grid[1].shape(), (Shape{2, 3}));
}

}  // namespace
}  // namespace troupe
