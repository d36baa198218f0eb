// Resized images, beside TensorFlow's tf.image.resize and beside sums in double.
#include "troupe/kernels/images/resize.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/error_of.hpp"
#include "tests/kernels/images/example_images.hpp"
#include <troupe/kernels/images/geometry.hpp>

namespace troupe::testing {
namespace {

using images::Box;
using images::Interpolation;
using images::ResizeOptions;
using images::Size;
using Numbers = std::vector<double>;

constexpr ResizeOptions kNearest{.interpolation = Interpolation::nearest};
constexpr ResizeOptions kBilinear{};
constexpr ResizeOptions kAntialias{.antialias = true};
constexpr ResizeOptions kArea{.interpolation = Interpolation::area};

// The weight of pixel i for pixel j of the result, but for a factor.
double weight_of(std::int64_t i, std::int64_t j, std::int64_t before, std::int64_t after, ResizeOptions options) {
  const double scale = static_cast<double>(before) / static_cast<double>(after);
  const double at = (static_cast<double>(j) + 0.5) * scale, middle = static_cast<double>(i) + 0.5;
  const double last = static_cast<double>(before) - 0.5;
  switch (options.interpolation) {
    case Interpolation::nearest:
      return std::floor(at) == static_cast<double>(i) ? 1 : 0;
    case Interpolation::area: {
      const double begin = static_cast<double>(j) * scale;
      return std::max(0.0, std::min(begin + scale, middle + 0.5) - std::max(begin, middle - 0.5));
    }
    case Interpolation::bilinear:
      break;
  }
  if (options.antialias && scale > 1) return std::max(0.0, 1 - std::abs(middle - at) / scale);
  return std::max(0.0, 1 - std::abs(middle - std::clamp(at, 0.5, last)));
}

Numbers reference(const Tensor& image, Size size, ResizeOptions options) {
  const Numbers x = numbers_of(image);
  const std::int64_t height = image.shape()[0], width = image.shape()[1], channels = image.shape()[2];
  Numbers out;
  for (std::int64_t y = 0; y < size.height; ++y)
    for (std::int64_t j = 0; j < size.width; ++j)
      for (std::int64_t c = 0; c < channels; ++c) {
        double sum = 0, weights = 0;
        for (std::int64_t p = 0; p < height; ++p)
          for (std::int64_t q = 0; q < width; ++q) {
            const double w =
                weight_of(p, y, height, size.height, options) * weight_of(q, j, width, size.width, options);
            sum += w * x[static_cast<std::size_t>((p * width + q) * channels + c)];
            weights += w;
          }
        out.push_back(sum / weights);
      }
  return out;
}

// tf.image.resize(stepped_image(5, 7, 1), (3, 4)), TensorFlow 2.21.
TEST(Resize, SmallerImagesAreThoseOfTensorFlow) {
  const std::pair<ResizeOptions, Numbers> cases[] = {
      {kNearest, {0, 74, 148, 222, 182, 44, 162, 24, 108, 14, 176, 82}},
      {kBilinear, {45.583, 116.75, 113.25, 173.75, 204.125, 51.375, 154.625, 97.875, 106.667, 71.333, 132, 86}},
      {kAntialias,
       {60.85, 125.766, 123.526, 157.721, 149.243, 134.053, 132.249, 117.709, 101.993, 110.646, 113.503, 91.435}},
      {kArea,
       {54.143, 125.114, 122.943, 164.657, 156.086, 125.571, 131.629, 115.743, 104.429, 104.086, 118.371, 88.771}}};
  for (const auto& [options, expected] : cases)
    EXPECT_LT(largest_difference(numbers_of(images::resize(stepped_image(5, 7, 1), {3, 4}, options)), expected), 2e-3)
        << images::name(options.interpolation) << options.antialias;
}

// Likewise to (6, 9).
TEST(Resize, LargerImagesAreThoseOfTensorFlow) {
  const std::pair<ResizeOptions, Numbers> cases[] = {
      {kNearest, {0,   37,  37,  74,  111, 148, 185, 185, 222, 91,  139, 139, 187, 235, 27,  75,  75,  123,
                  182, 241, 241, 44,  103, 162, 221, 221, 24,  182, 241, 241, 44,  103, 162, 221, 221, 24,
                  17,  87,  87,  157, 227, 41,  111, 111, 181, 108, 189, 189, 14,  95,  176, 1,   1,   82}},
      {kBilinear, {0,       24.667,  53.444,  82.222,  111,    139.778, 168.556, 197.333, 222,     68.25,   98.417,
                   133.611, 168.806, 204,     89.861,  82.389, 117.583, 147.75,  144.083, 180.361, 156.315, 115.676,
                   158,     117.361, 135.981, 128.528, 65.25,  113.25,  155.639, 138.722, 105.213, 154.667, 121.157,
                   146.907, 146.583, 89.417,  39.75,   88.25,  116.389, 137.417, 194,     101.25,  79.611,  107.75,
                   156.25,  108,     162,     111.222, 32,     95,      158,     78.778,  28,      82}},
      {kArea, {0,       26.429,  52.857,  79.286,  111,    142.714, 169.143, 195.571, 222,    72.8,    105.514,
               138.229, 170.943, 210.2,   73.914,  77.371, 110.086, 142.8,   145.6,   184.6,  157.771, 109,
               155.8,   114.829, 139.2,   134.314, 63.6,   116,     161.286, 140.743, 98.257, 152.6,   119.171,
               149.829, 151.229, 86.8,    35.2,    86.771, 116.4,   138.714, 200.6,   86.943, 80,      109.629,
               161.2,   108,     165.857, 114,     25.571, 95,      164.429, 76,      24.143, 82}}};
  for (const auto& [options, expected] : cases)
    EXPECT_LT(largest_difference(numbers_of(images::resize(stepped_image(5, 7, 1), {6, 9}, options)), expected), 2e-3)
        << images::name(options.interpolation) << options.antialias;
}

TEST(Resize, AnyChannelsAndSizesAreSumsOfThePixelsAround) {
  for (const std::int64_t channels : {1, 2, 3, 4, 5})
    for (const Size size : {Size{1, 1}, Size{4, 13}, Size{9, 3}, Size{23, 31}, Size{13, 11}})
      for (const ResizeOptions options : {kNearest, kBilinear, kAntialias, kArea}) {
        SCOPED_TRACE(fmt::format("{} channels to {} x {}, {} {}", channels, size.height, size.width,
                                 images::name(options.interpolation), options.antialias));
        const Tensor bytes = random_bytes(13, 11, channels);
        Tensor floats(DType::f32, bytes.shape());
        std::ranges::copy(bytes.values<std::uint8_t>(), floats.mutable_data<float>());
        const Numbers expected = reference(bytes, size, options);
        EXPECT_LT(largest_difference(numbers_of(images::resize(floats, size, options)), expected), 2e-4);
        EXPECT_LT(largest_difference(numbers_of(images::resize(bytes, size, options)), expected), 0.5 + 2e-4);
      }
}

TEST(Resize, LargestAndSmallestValuesStay) {
  for (const int value : {0, 1, 254, 255}) {
    Tensor image(DType::u8, Shape{37, 41, 3});
    std::ranges::fill(image.mutable_values<std::uint8_t>(), static_cast<std::uint8_t>(value));
    for (const Size size : {Size{7, 5}, Size{50, 60}})
      for (const ResizeOptions options : {kNearest, kBilinear, kAntialias, kArea})
        for (const double x : numbers_of(images::resize(image, size, options))) ASSERT_EQ(x, value);
  }
}

TEST(Resize, APartIsResizedAsIfItWereCroppedBefore) {
  const Tensor image = random_bytes(20, 30, 3);
  for (const Box box : {Box{0, 0, 20, 30}, Box{3, 5, 9, 11}, Box{19, 29, 1, 1}, Box{0, 10, 20, 7}})
    for (const ResizeOptions options : {kNearest, kBilinear, kAntialias, kArea})
      for (const Size size : {Size{6, 8}, Size{25, 33}})
        EXPECT_TRUE(bitwise_equal(images::resized_crop(image, box, size, options),
                                  images::resize(images::crop(image, box), size, options)));
}

TEST(Resize, ImagesOfThatSizeAreNotCopied) {
  const Tensor image = random_bytes(4, 6, 3);
  EXPECT_EQ(images::resize(image, {4, 6}).raw(), image.raw());
}

TEST(Resize, WhileItIsDecodedAnImageBecomesTheSame) {
  std::vector<unsigned> samples(70 * 50 * 3);
  for (std::size_t i = 0; i < samples.size(); ++i) samples[i] = static_cast<unsigned>(i * 7919 % 251);
  for (const std::string& file : {jpeg_of(random_bytes(75, 100, 3)), png_file(samples, 70, 50),
                                  png_file(samples, 70, 50, {.interlaced = true}), jpeg_of(random_bytes(3, 2, 3))})
    for (const ResizeOptions options : {kNearest, kBilinear, kAntialias, kArea})
      for (const Size size : {Size{1, 1}, Size{2, 90}, Size{32, 20}, Size{90, 70}, Size{70, 50}})
        for (const int channels : {1, 3})
          EXPECT_TRUE(bitwise_equal(images::decode_and_resize(file, "f", size, options, {.channels = channels}),
                                    images::resize(decode_image(file, "f", {.channels = channels}), size, options)));
}

TEST(Resize, DamageBehindTheLastRowThatCountsIsFound) {
  std::string file = jpeg_of(random_bytes(256, 64, 3));
  file.resize(file.size() - 2);  // without the end mark
  const Error error = error_of([&] { images::decode_and_resize(file, "/dog.jpg", {1, 1}, kNearest); });
  EXPECT_EQ(error.code(), Code::data_loss);
  EXPECT_THAT(error.to_string(), ::testing::HasSubstr("/dog.jpg: a damaged JPEG image"));
}

TEST(Resize, WhatIsNoImageOrBoxIsRefused) {
  const Tensor image = random_bytes(4, 6, 3);
  const auto message = [](auto&& f) { return error_of(f).to_string(); };
  EXPECT_EQ(message([&] { images::resize(image, {0, 5}); }), "invalid_argument: resize: an image of 0 x 5 pixels");
  EXPECT_EQ(message([&] {
              images::decode_and_resize(jpeg_of(image), "f", {5, -1});
            }),
            "invalid_argument: decode_and_resize: an image of 5 x -1 pixels");
  EXPECT_EQ(message([&] {
              images::resize(Tensor(DType::i32, Shape{4, 6, 3}), {1, 1});
            }),
            "invalid_argument: resize: an image is u8 or f32 [height, width, channels], not i32[4,6,3]");
  for (const Shape& shape : {Shape{4, 6}, Shape{1, 4, 6, 3}, Shape{0, 6, 3}, Shape{4, 6, 0}})
    EXPECT_EQ(error_of([&] { images::resize(Tensor(DType::u8, shape), {1, 1}); }).code(), Code::invalid_argument);
  constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
  for (const Box box : {Box{-1, 0, 2, 2}, Box{0, -1, 2, 2}, Box{3, 0, 2, 2}, Box{0, 5, 2, 2}, Box{0, 0, 0, 2},
                        Box{0, 0, 2, 0}, Box{kHuge, 0, 2, 2}, Box{0, 0, 2, kHuge}})
    EXPECT_EQ(error_of([&] { images::resized_crop(image, box, {1, 1}); }).code(), Code::invalid_argument);
}

}  // namespace
}  // namespace troupe::testing
