// Crops, borders, mirrored and rotated images.
#include "troupe/kernels/images/geometry.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numbers>

#include "tests/error_of.hpp"
#include "tests/kernels/images/example_images.hpp"

namespace troupe::testing {
namespace {

using images::Box;
using images::Size;
using ::testing::ElementsAre;

// u8 [height, width, 1] with pixels 10 y + x.
Tensor numbered(std::int64_t height, std::int64_t width) {
  Tensor out(DType::u8, Shape{height, width, 1});
  for (std::int64_t i = 0; i < out.num_elements(); ++i)
    out.mutable_data<std::uint8_t>()[i] = static_cast<std::uint8_t>(10 * (i / width) + i % width);
  return out;
}

TEST(Geometry, CropsTakeABox) {
  const Tensor image = numbered(4, 5);
  EXPECT_THAT(numbers_of(images::crop(image, {1, 2, 2, 3})), ElementsAre(12, 13, 14, 22, 23, 24));
  EXPECT_THAT(numbers_of(images::center_crop(image, {2, 2})), ElementsAre(11, 12, 21, 22));  // 1 before, 2 behind
  EXPECT_EQ(images::crop(image, {0, 0, 4, 5}).raw(), image.raw());
  EXPECT_EQ(error_of([&] {
              images::center_crop(image, {5, 2});
            }).to_string(),
            "invalid_argument: crop: a box of 5 x 2 pixels at row 0, column 1 does not lie in an image of 4 x 5");
  EXPECT_EQ(error_of([&] { images::crop(image, {3, 0, 2, 1}); }).code(), Code::invalid_argument);
}

TEST(Geometry, BordersHaveAValue) {
  EXPECT_THAT(numbers_of(images::pad(numbered(2, 2), {.top = 1, .bottom = 0, .left = 2, .right = 1}, 7)),
              ElementsAre(7, 7, 7, 7, 7, 7, 7, 0, 1, 7, 7, 7, 10, 11, 7));
  EXPECT_EQ(images::pad(stepped_image(2, 3, 3), {.bottom = 2}).shape(), (Shape{4, 3, 3}));
  EXPECT_EQ(error_of([] { images::pad(numbered(2, 2), {.left = -1}); }).to_string(),
            "invalid_argument: pad: a border of -1 pixels");
  for (const float value : {-1.0f, 256.0f, 0.5f})
    EXPECT_EQ(error_of([&] { images::pad(numbered(2, 2), {.left = 1}, value); }).code(), Code::invalid_argument);
}

TEST(Geometry, FlipsMirrorPixels) {
  for (const std::int64_t channels : {1, 2, 3, 4})
    for (const std::int64_t width : {1, 2, 3, 20})
      for (const bool floats : {false, true}) {
        const Tensor image = floats ? stepped_image(3, width, channels) : bytes_of(stepped_image(3, width, channels));
        const std::vector<double> x = numbers_of(image);
        std::vector<double> mirrored, upside_down;
        for (std::int64_t i = 0; i < 3; ++i)
          for (std::int64_t j = 0; j < width; ++j)
            for (std::int64_t c = 0; c < channels; ++c) {
              const auto at = [&](std::int64_t row, std::int64_t column) {
                return x[static_cast<std::size_t>((row * width + column) * channels + c)];
              };
              mirrored.push_back(at(i, width - 1 - j));
              upside_down.push_back(at(2 - i, j));
            }
        EXPECT_EQ(numbers_of(images::flip_left_right(image)), mirrored);
        EXPECT_EQ(numbers_of(images::flip_up_down(image)), upside_down);
      }
}

TEST(Geometry, QuarterTurnsMovePixels) {
  const Tensor image = numbered(3, 3);
  EXPECT_THAT(numbers_of(images::rotate(image, 90)), ElementsAre(2, 12, 22, 1, 11, 21, 0, 10, 20));
  EXPECT_THAT(numbers_of(images::rotate(image, -180)), ElementsAre(22, 21, 20, 12, 11, 10, 2, 1, 0));
  EXPECT_TRUE(bitwise_equal(images::rotate(image, 0), image));
}

TEST(Geometry, RotatedPixelsLieBetweenFour) {
  constexpr double kDegrees = 33;
  constexpr std::int64_t kHeight = 9, kWidth = 12;
  const Tensor image = stepped_image(kHeight, kWidth, 3);
  const std::vector<double> x = numbers_of(image);
  const double a = kDegrees * std::numbers::pi / 180;
  std::vector<double> expected;
  for (double i = 0; i < kHeight; ++i)
    for (double j = 0; j < kWidth; ++j)
      for (std::int64_t c = 0; c < 3; ++c) {
        // Turned clockwise, back to where it came from.
        const double right = j - (kWidth - 1) / 2.0, up = (kHeight - 1) / 2.0 - i;
        const double from_x = (kWidth - 1) / 2.0 + std::cos(a) * right + std::sin(a) * up;
        const double from_y = (kHeight - 1) / 2.0 - (std::cos(a) * up - std::sin(a) * right);
        double sum = 0, weights = 0;
        for (std::int64_t p = 0; p < kHeight; ++p)
          for (std::int64_t q = 0; q < kWidth; ++q) {
            const double w = std::max(0.0, 1 - std::abs(from_y - static_cast<double>(p))) *
                             std::max(0.0, 1 - std::abs(from_x - static_cast<double>(q)));
            sum += w * x[static_cast<std::size_t>((p * kWidth + q) * 3 + c)];
            weights += w;
          }
        expected.push_back(sum + (1 - weights) * 100);
      }
  EXPECT_LT(largest_difference(numbers_of(images::rotate(image, kDegrees, 100)), expected), 1e-3);
  EXPECT_LT(largest_difference(numbers_of(images::rotate(bytes_of(image), kDegrees, 100)), expected), 0.501);
  EXPECT_EQ(error_of([&] { images::rotate(image, std::nan("")); }).code(), Code::invalid_argument);
  EXPECT_EQ(error_of([&] { images::rotate(bytes_of(image), 1, 300); }).code(), Code::invalid_argument);
}

}  // namespace
}  // namespace troupe::testing
