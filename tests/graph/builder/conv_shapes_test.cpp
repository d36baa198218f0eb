// Shapes of convolutions and pools, made by their builder functions.
#include <gtest/gtest.h>

#include "tests/graph/messages.hpp"
#include <troupe/graph/builder/builder.hpp>

namespace troupe {
namespace {

// Builds of placeholders of these shapes; the result's shape or the error.
std::string shape_of_result(const std::vector<Shape>& shapes, const std::function<Output(const Outputs&)>& build) {
  Graph graph;
  Outputs inputs;
  for (const Shape& shape : shapes) inputs.push_back(placeholder(graph, DType::f32, shape));
  std::string text;
  const std::string error = testing::message_of([&] { text = build(inputs).shape().to_string(); });
  return error == "no error" ? text : error;
}

std::string convolved(const Shape& x, const Shape& filter, ConvOptions options) {
  options.name = "n";
  return shape_of_result({x, filter}, [&](const Outputs& in) { return conv(in[0], in[1], options); });
}

TEST(ConvShapes, OfOneToThreeDimensions) {
  const std::int64_t u = kUnknown;
  EXPECT_EQ(convolved({2, 9, 3}, {3, 3, 8}, {}), "[2,9,8]");
  EXPECT_EQ(convolved({u, 9, 3}, {3, 3, 8}, {.strides = {2}, .padding = Padding::valid}), "[?,4,8]");
  EXPECT_EQ(convolved({2, 9, 8, 7, 3}, {3, 3, 2, 3, 8}, {.padding = Padding::valid}), "[2,7,6,6,8]");
  EXPECT_EQ(convolved({2, 9, u, 4}, {3, 3, 2, 6}, {.strides = {2, 1}, .dilations = {2, 1}, .groups = 2}), "[2,5,?,6]");
  EXPECT_EQ(
      convolved(
          {2, 4, 9, 8}, {6, 2, 3, 2},
          {.groups = 2, .padding = Padding::explicit_pads, .pads = {1, 0, 1, 2}, .format = DataFormat::channels_first}),
      "[2,6,9,9]");
  EXPECT_EQ(convolved(Shape::unknown_rank(), {3, 3, 8}, {}), "[?,?,8]");
  EXPECT_EQ(convolved(Shape::unknown_rank(), Shape::unknown_rank(), {}), "[?...]");
}

TEST(ConvShapes, RefuseWhatDoesNotFit) {
  EXPECT_EQ(convolved({2, 9, 4}, {3, 4, 6}, {.groups = 2}),
            "Conv 'n': the input has 4 channels, but the filter is for 2 groups of 4: [2,9,4] and [3,4,6]");
  EXPECT_EQ(convolved({2, 9, 4}, {3, 2, 5}, {.groups = 2}),
            "Conv 'n': the filter's 5 output channels are no 2 equal groups: [3,2,5]");
  EXPECT_EQ(convolved({2, 9, 4}, {3, 2, 5}, {.groups = 0}), "Conv 'n': attribute 'groups' is 0, not at least 1");
  EXPECT_EQ(convolved({2, 4}, {4, 4}, {}),
            "Conv 'n': images have a batch, channels and 1 to 3 spatial dimensions, not 0");
  EXPECT_EQ(convolved({2, 9, 4}, {3, 4, 4}, {.pads = {1, 1}}),
            "Conv 'n': attribute 'pads' is for padding EXPLICIT, not SAME");
  EXPECT_EQ(convolved({2, 9, 4}, {3, 4, 4}, {.padding = Padding::explicit_pads, .pads = {1, -1}}),
            "Conv 'n': attribute 'pads' has -1, which is not from 0 to 2147483647");
  EXPECT_EQ(
      convolved({2, 9, 4}, {3, 4, 4}, {.padding = Padding::explicit_pads, .pads = {1}}),
      "Conv 'n': attribute 'pads' must have 1 integer (width) before the image and as many after it, not 1 numbers");
  EXPECT_EQ(convolved({2, 9, 4}, {3, 4, 4}, {.dilations = {5}, .padding = Padding::valid}),
            "Conv 'n': width: a window of 11 is larger than the input's 9; use padding SAME or a smaller window");
}

TEST(ConvShapes, OfDepthwiseAndSeparableFilters) {
  EXPECT_EQ(shape_of_result({{2, 9, 8, 3}, {3, 3, 3, 2}},
                            [](const Outputs& in) {
                              return depthwise_conv2d(in[0], in[1], {.strides = {2, 2}});
                            }),
            "[2,5,4,6]");
  EXPECT_EQ(shape_of_result({{2, 9, 8, 3}, {3, 3, 3, 2}, {1, 1, 6, 5}},
                            [](const Outputs& in) { return separable_conv2d(in[0], in[1], in[2]); }),
            "[2,9,8,5]");
  EXPECT_EQ(
      shape_of_result({{2, 9, 8, 3}, {3, 3, 4, 2}}, [](const Outputs& in) { return depthwise_conv2d(in[0], in[1]); }),
      "depthwise_conv2d: the input has 3 channels, but the filter is for 4: [2,9,8,3] and [3,3,4,2]");
  EXPECT_EQ(shape_of_result({{2, 9, 8}, {3, 3, 4}}, [](const Outputs& in) { return conv2d(in[0], in[1]); }),
            "conv2d: x must have 4 dimensions, but its shape is [2,9,8]");
}

TEST(ConvShapes, OfTransposedConvolutions) {
  const auto transposed = [](const Shape& x, const Shape& filter, ConvTransposeOptions options, Integers sizes = {}) {
    options.name = "n";
    return shape_of_result({x, filter},
                           [&](const Outputs& in) { return conv_transpose(in[0], in[1], sizes, options); });
  };
  EXPECT_EQ(transposed({2, 5, 4, 3}, {3, 3, 6, 3}, {.strides = {2, 3}}), "[2,10,12,6]");
  EXPECT_EQ(transposed({2, 5, 3}, {3, 6, 3}, {.strides = {2}, .padding = Padding::valid, .output_padding = {1}}),
            "[2,12,6]");
  EXPECT_EQ(transposed({2, 4, 5}, {4, 3, 3},
                       {.strides = {2},
                        .dilations = {2},
                        .groups = 2,
                        .padding = Padding::explicit_pads,
                        .pads = {1, 0},
                        .format = DataFormat::channels_first}),
            "[2,6,12]");
  EXPECT_EQ(transposed({kUnknown, 5, 3}, {3, 6, 3}, {.strides = {2}}, {9}), "[?,9,6]");
  EXPECT_EQ(transposed({2, 5, 3}, {3, 6, 3}, {.strides = {2}}, {11}),
            "ConvTranspose 'n': width: an output of 11 is convolved to 6, not to the input's 5");
  EXPECT_EQ(transposed({2, 5, 3}, {3, 6, 3}, {.strides = {2}, .output_padding = {2}}),
            "ConvTranspose 'n': width: an output padding of 2, which is not from 0 to stride 2 - 1");
}

TEST(PoolShapes, OfPadsDilationsAndCeilings) {
  const auto pooled = [](const Shape& x, PoolOptions options) {
    options.name = "n";
    return shape_of_result({x}, [&](const Outputs& in) { return max_pool_with_indices(in[0], options).indices; });
  };
  EXPECT_EQ(pooled({2, 4, 4, 1}, {.ksize = {3, 3}, .padding = Padding::explicit_pads}), "[2,1,1,1]");
  EXPECT_EQ(pooled({2, 4, 4, 1}, {.ksize = {3, 3}, .padding = Padding::explicit_pads, .ceil_mode = true}), "[2,2,2,1]");
  // A last window that would begin after the image does not count.
  EXPECT_EQ(pooled({2, 3, 1}, {.ksize = {1}, .strides = {3}, .padding = Padding::explicit_pads, .ceil_mode = true}),
            "[2,1,1]");
  EXPECT_EQ(pooled({2, 1, 8, 9, 7}, {.ksize = {2, 2, 2},
                                     .strides = {},
                                     .dilations = {1, 2, 3},
                                     .padding = Padding::valid,
                                     .format = DataFormat::channels_first}),
            "[2,1,7,7,4]");
  EXPECT_EQ(pooled({2, 4, 4}, {}), "MaxPoolWithIndices 'n': 'x' must have rank 4, but its shape is [2,4,4]");
  EXPECT_EQ(shape_of_result({{2, 8, 7, 3}}, [](const Outputs& in) { return global_avg_pool(in[0]); }), "[2,1,1,3]");
  EXPECT_EQ(shape_of_result({{2, 3, 8, 7}},
                            [](const Outputs& in) { return global_lp_pool(in[0], 2, DataFormat::channels_first); }),
            "[2,3,1,1]");
}

}  // namespace
}  // namespace troupe
