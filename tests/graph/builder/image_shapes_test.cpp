// Shapes of resized and sampled images, and of random values drawn by inputs.
#include <gtest/gtest.h>

#include "tests/graph/messages.hpp"
#include <troupe/graph/builder/builder.hpp>

namespace troupe {
namespace {

using testing::message_of;

constexpr std::int64_t kOpen = kUnknown;

class ImageShapes : public ::testing::Test {
 protected:
  Output x(const Shape& shape) { return placeholder(g_, DType::f32, shape); }
  Output list(std::int64_t count) { return placeholder(g_, DType::i64, Shape{count}); }
  Graph g_;
};

TEST_F(ImageShapes, ResizedAxesHaveTheSizesGiven) {
  EXPECT_EQ(resize(x({kOpen, 4, 5, 3}), {8, 2}).shape(), (Shape{kOpen, 8, 2, 3}));
  EXPECT_EQ(resize(x({kOpen, 4, 5, 3}), list(2)).shape(), (Shape{kOpen, kOpen, kOpen, 3}));
  EXPECT_EQ(resize(x({1, 3, kOpen, 5}), {8, 2}, {.axes = {2, 3}}).shape(), (Shape{1, 3, 8, 2}));
  EXPECT_FALSE(resize(placeholder(g_, DType::f32), {8, 2}).shape().has_rank());
  EXPECT_EQ(resize_by(x({1, 4, kOpen, 3}), {2.5, 3}).shape(), (Shape{1, 10, kOpen, 3}));
  EXPECT_EQ(resize_by(x({1, 4, 5, 3}), x({2})).shape(), (Shape{1, kOpen, kOpen, 3}));
  const ResizeOptions keep{.aspect = AspectPolicy::not_larger};
  EXPECT_EQ(resize(x({1, 4, 8, 3}), {8, 8}, keep).shape(), (Shape{1, 4, 8, 3}));
  EXPECT_EQ(resize(x({1, kOpen, 8, 3}), {8, 8}, keep).shape(), (Shape{1, kOpen, kOpen, 3}));
  EXPECT_EQ(message_of([&] {
              resize(x({1, 4, 5, 3}), {2}, {.name = "n"});
            }),
            "Resize 'n': there are 1 sizes for 2 axes");
  EXPECT_EQ(message_of([&] {
              resize_by(x({1, 4, 5, 3}), {0.0, 1.0}, {.name = "n"});
            }),
            "Resize 'n': a scale is 0, but must be positive");
  EXPECT_EQ(message_of([&] {
              resize(x({1, 4}), {2, 2}, {.axes = {1, -1}, .name = "n"});
            }),
            "Resize 'n': an axis is given twice");
}

TEST_F(ImageShapes, SamplesHaveThePlacesSizes) {
  EXPECT_EQ(grid_sample(x({kOpen, 3, 4, 5}), x({2, kOpen, 7, 2})).shape(), (Shape{2, 3, kOpen, 7}));
  EXPECT_EQ(message_of([&] {
              grid_sample(x({2, 3, 4, 5}), x({2, 3, 4, 3}), {.name = "n"});
            }),
            "GridSample 'n': the number of coordinates of a place and 2 differ: 3 and 2");
  EXPECT_EQ(message_of([&] {
              grid_sample(x({2, 3, 4, 5}), x({2, 3, 4, 2}), {.padding = "wrap", .name = "n"});
            }),
            "GridSample 'n': attribute 'padding' is 'wrap', but must be one of zeros, border, reflection");
  EXPECT_EQ(crop_and_resize(x({2, 4, 5, 3}), x({kOpen, 4}), list(6), {7, 8}).shape(), (Shape{6, 7, 8, 3}));
  EXPECT_EQ(crop_and_resize(x({2, 4, 5, 3}), x({6, 4}), list(6), list(2)).shape(), (Shape{6, kOpen, kOpen, 3}));
  EXPECT_EQ(roi_align(x({2, 3, 4, 5}), x({kOpen, 4}), list(6), {.output_height = 7, .output_width = 8}).shape(),
            (Shape{6, 3, 7, 8}));
  EXPECT_EQ(max_roi_pool(x({2, 3, 4, 5}), x({6, 5}), 7, 8).shape(), (Shape{6, 3, 7, 8}));
  EXPECT_EQ(non_max_suppression(x({2, 9, 4}), x({2, 5, 9}), 3).shape(), (Shape{kOpen, 3}));
  EXPECT_EQ(non_max_suppression_of_one(x({9, 4}), x({9}), 3).shape(), (Shape{kOpen}));
}

TEST_F(ImageShapes, DrawnValuesHaveTheShapesOfTheirInputs) {
  EXPECT_EQ(bernoulli(x({2, kOpen})).shape(), (Shape{2, kOpen}));
  EXPECT_EQ(random_gamma(x({2, kOpen})).shape(), (Shape{2, kOpen}));
  EXPECT_EQ(multinomial(x({kOpen, 5}), 7).shape(), (Shape{kOpen, 7}));
  EXPECT_EQ(multinomial(x({2, 5}), placeholder(g_, DType::i64, Shape{})).shape(), (Shape{2, kOpen}));
  EXPECT_EQ(random_permutation(g_, 7).shape(), (Shape{7}));
  EXPECT_EQ(shuffle(x({kOpen, 5})).shape(), (Shape{kOpen, 5}));
  EXPECT_EQ(random_integers(g_, Shape{3}, 0, 9).dtype(), DType::i64);
  EXPECT_EQ(message_of([&] {
              multinomial(x({2, 5}), -1, {.name = "n"});
            }),
            "Multinomial 'n': 'count' is -1: it must not be negative");
}

}  // namespace
}  // namespace troupe
