// Colours of images, beside TensorFlow's tf.image.
#include "troupe/kernels/images/color.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/error_of.hpp"
#include "tests/kernels/images/example_images.hpp"

namespace troupe::testing {
namespace {

using Numbers = std::vector<double>;

Tensor example() { return stepped_image(2, 3, 3, 1 / 255.0f); }

// f32 results are the expected ones, u8 ones the nearest to them in [0, 1].
void expect_colors(Tensor (*function)(const Tensor&, double), double argument, const Numbers& expected) {
  EXPECT_LT(largest_difference(numbers_of(function(example(), argument)), expected), 6e-4);
  Numbers bytes;
  for (const double x : expected) bytes.push_back(std::clamp(x, 0.0, 1.0) * 255);
  EXPECT_LT(largest_difference(numbers_of(function(bytes_of(stepped_image(2, 3, 3)), argument)), bytes), 0.5 + 0.15);
}

// tf.image of TensorFlow 2.21, of stepped_image(2, 3, 3) / 255.
TEST(Color, BrightnessContrastSaturationAndHueAreThoseOfTensorFlow) {
  expect_colors(images::adjust_brightness, 0.25,
                {0.25, 0.458, 0.666, 0.395, 0.603, 0.811, 0.54, 0.748, 0.956, 0.607, 0.815, 1.023, 0.795, 1.003, 1.211,
                 0.983, 1.191, 0.395});
  expect_colors(images::adjust_contrast, 1.5,
                {-0.173, 0.035, 0.327, 0.045, 0.253, 0.544, 0.263, 0.471, 0.762, 0.363, 0.571, 0.862, 0.645, 0.853,
                 1.144, 0.927, 1.135, -0.079});
  expect_colors(images::adjust_saturation, 0.4,
                {0.249, 0.333, 0.416, 0.395, 0.478, 0.561, 0.54, 0.623, 0.706, 0.606, 0.689, 0.773, 0.795, 0.878, 0.961,
                 0.858, 0.941, 0.623});
  expect_colors(images::adjust_saturation, 3,
                {0, 0.208, 0.416, 0, 0.28, 0.561, 0, 0.353, 0.706, 0, 0.386, 0.773, 0, 0.48, 0.961, 0.695, 0.941, 0});
  expect_colors(images::adjust_hue, 0.2,
                {0.291, 0, 0.416, 0.436, 0.145, 0.561, 0.581, 0.29, 0.706, 0.648, 0.357, 0.773, 0.836, 0.545, 0.961,
                 0.145, 0.941, 0.512});
  expect_colors(images::adjust_hue, -0.45,
                {0.416, 0.333, 0, 0.561, 0.478, 0.145, 0.706, 0.623, 0.29, 0.773, 0.689, 0.357, 0.961, 0.878, 0.545,
                 0.592, 0.145, 0.941});
}

TEST(Color, AllHuesComeBackAfterAWholeTurn) {
  const Tensor image = random_bytes(16, 16, 3);
  EXPECT_TRUE(bitwise_equal(images::adjust_hue(image, 1), image));
  EXPECT_TRUE(bitwise_equal(images::adjust_hue(images::adjust_hue(image, -3), 3), image));
  EXPECT_TRUE(bitwise_equal(images::adjust_saturation(image, 1), image));
  EXPECT_TRUE(bitwise_equal(images::adjust_contrast(image, 1), image));
  for (const double x : numbers_of(images::adjust_hue(Tensor::zeros(DType::u8, Shape{2, 2, 3}), 0.3))) EXPECT_EQ(x, 0);
}

TEST(Color, GreyIsThatOfBt601) {
  const Tensor grey = images::rgb_to_grayscale(Tensor::of<std::uint8_t>(Shape{1, 2, 3}, {255, 255, 255, 10, 20, 30}));
  EXPECT_EQ(grey.shape(), (Shape{1, 2, 1}));
  EXPECT_EQ(numbers_of(grey), (Numbers{255, 18}));  // 2.99 + 11.74 + 3.42 = 18.15
  EXPECT_NEAR(numbers_of(images::rgb_to_grayscale(Tensor::of<float>(Shape{1, 1, 3}, {0.1f, 0.2f, 0.3f})))[0], 0.1815,
              1e-6);
}

TEST(Color, NormalizedChannelsHaveMeanAndDeviationOfTheirOwn) {
  for (const std::int64_t channels : {1, 2, 3, 4})
    for (const std::int64_t width : {1, 5, 16, 37}) {
      std::vector<float> mean, std;
      for (std::int64_t c = 0; c < channels; ++c) {
        mean.push_back(0.3f + 0.1f * static_cast<float>(c));
        std.push_back(0.5f + static_cast<float>(c));
      }
      const Tensor bytes = random_bytes(3, width, channels);
      Numbers expected = numbers_of(bytes);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        const std::size_t c = i % static_cast<std::size_t>(channels);
        expected[i] = (expected[i] / 255 - static_cast<double>(mean[c])) / static_cast<double>(std[c]);
      }
      EXPECT_LT(largest_difference(numbers_of(images::normalize(bytes, mean, std)), expected), 1e-6);
      Tensor floats(DType::f32, bytes.shape());
      for (std::int64_t i = 0; i < bytes.num_elements(); ++i)
        floats.mutable_data<float>()[i] = static_cast<float>(bytes.data<std::uint8_t>()[i]) / 255;
      EXPECT_LT(largest_difference(numbers_of(images::normalize(floats, mean, std)), expected), 1e-6);
    }
  EXPECT_EQ(numbers_of(images::normalize(Tensor::of<std::uint8_t>(Shape{1, 1, 2}, {255, 0}), {1}, {0.5f})),
            (Numbers{0, -2}));
}

TEST(Color, ArgumentsThatCannotBeAreRefused) {
  const Tensor image = example(), grey = stepped_image(2, 2, 1);
  const float nan = std::nanf("");
  const auto refused = [](auto&& f) { return error_of(f).code() == Code::invalid_argument; };
  EXPECT_TRUE(refused([&] { images::adjust_brightness(image, static_cast<double>(nan)); }));
  EXPECT_TRUE(refused([&] { images::adjust_contrast(image, static_cast<double>(nan)); }));
  EXPECT_TRUE(refused([&] { images::adjust_saturation(image, -0.1); }));
  EXPECT_TRUE(refused([&] { images::adjust_hue(image, static_cast<double>(nan)); }));
  EXPECT_TRUE(refused([&] { images::adjust_brightness(Tensor(DType::f64, Shape{1, 1, 3}), 0); }));
  EXPECT_EQ(error_of([&] { images::adjust_hue(grey, 0.1); }).to_string(),
            "invalid_argument: adjust_hue: an image has 1 channels, but must have red, green and blue");
  EXPECT_TRUE(refused([&] { images::adjust_saturation(grey, 1); }));
  EXPECT_TRUE(refused([&] { images::rgb_to_grayscale(grey); }));
  EXPECT_EQ(error_of([&] {
              images::normalize(image, {0, 0}, {1});
            }).to_string(),
            "invalid_argument: normalize: 2 values of mean for 3 channels");
  for (const float std : {0.0f, -1.0f, nan, std::numeric_limits<float>::infinity()})
    EXPECT_TRUE(refused([&] { images::normalize(image, {0}, {std}); }));
  EXPECT_TRUE(refused([&] { images::normalize(image, {nan}, {1}); }));
}

}  // namespace
}  // namespace troupe::testing
