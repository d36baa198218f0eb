#include <gtest/gtest.h>

#include "tests/graph/messages.hpp"
#include <troupe/graph/layers/resnet.hpp>

namespace troupe {
namespace {

using testing::message_of;

std::int64_t parameters(const std::vector<Sequential::Summary>& rows) {
  std::int64_t total = 0;
  for (const Sequential::Summary& row : rows) total += row.parameters;
  return total;
}

TEST(ResNet50, HasTheParametersAndStagesOfThePaper) {
  const auto rows = resnet50().summary(Shape{2, 224, 224, 3});
  EXPECT_EQ(parameters(rows), 25'557'032);
  std::vector<std::string> shapes;
  for (const Sequential::Summary& row : rows)
    if (shapes.empty() || !shapes.back().ends_with(row.output.to_string()))
      shapes.push_back(row.name + " " + row.output.to_string());
  EXPECT_EQ(shapes,
            (std::vector<std::string>{"conv2d [2,112,112,64]", "max_pool [2,56,56,64]", "residual [2,56,56,256]",
                                      "residual_3 [2,28,28,512]", "residual_7 [2,14,14,1024]",
                                      "residual_13 [2,7,7,2048]", "global_average_pool [2,2048]", "dense [2,1000]"}));
  EXPECT_EQ(rows.size(), 3u + 16u + 2u);
}

// v1.5: in the blocks that halve the image, the 3x3 convolution does.
TEST(ResNet50, TheMiddleConvolutionHasTheStride) {
  Graph graph;
  VariablePool pool;
  LayerContext context{.graph = graph, .variables = pool};
  resnet50().apply(context, placeholder(graph, DType::f32, Shape{1, 224, 224, 3}));
  const auto strides = [&](const char* node) { return graph.get(node).attributes.integers("strides"); };
  for (const char* block : {"residual_3", "residual_7", "residual_13"}) {
    EXPECT_EQ(strides(fmt::format("{}/conv2d/Conv", block).c_str()), (Integers{1, 1})) << block;
    EXPECT_EQ(strides(fmt::format("{}/conv2d_1/Conv", block).c_str()), (Integers{2, 2})) << block;
    EXPECT_EQ(strides(fmt::format("{}/shortcut/conv2d/Conv", block).c_str()), (Integers{2, 2})) << block;
  }
  EXPECT_EQ(strides("residual/shortcut/conv2d/Conv"), (Integers{1, 1}));
  EXPECT_FALSE(graph.find("residual_1/shortcut/conv2d/Conv"));
  EXPECT_EQ(pool.trainable().size(), 161u);  // 53 convolutions, 53 scales and offsets, and the dense layer
  EXPECT_EQ(pool.all().size(), 161u + 2 * 53);
}

TEST(ResNet, OtherSizesFollowTheOptions) {
  const auto rows = resnet({.blocks = {1, 2}, .width = 8, .classes = 10}).summary(Shape{kUnknown, 32, 32, 3});
  EXPECT_EQ(rows.back().output, (Shape{kUnknown, 10}));
  EXPECT_EQ(rows[5].output, (Shape{kUnknown, 4, 4, 64}));
  EXPECT_EQ(message_of([] { resnet({.blocks = {2, 0}}); }), "resnet: a stage must have at least one block, not 0");
  EXPECT_EQ(message_of([] { resnet({.blocks = {}}); }), "resnet: the number of stages must be 1 to 16, not 0");
  EXPECT_EQ(message_of([] { resnet({.width = 0}); }), "conv2d: filters must be at least 1, not 0");
}

}  // namespace
}  // namespace troupe
