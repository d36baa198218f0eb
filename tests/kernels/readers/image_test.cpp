// JPEG and PNG images: what libjpeg and libpng write is decoded, and damage is an error.
#include "troupe/kernels/readers/image.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tests/error_of.hpp"
#include "tests/kernels/readers/image_files.hpp"

namespace troupe::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using Pixels = std::vector<std::uint8_t>;

Pixels pixels_of(const Tensor& image) {
  return {image.values<std::uint8_t>().begin(), image.values<std::uint8_t>().end()};
}

// Colours change slowly over it.
Pixels gradient(unsigned height, unsigned width, unsigned channels) {
  Pixels out;
  for (unsigned y = 0; y < height; ++y)
    for (unsigned x = 0; x < width; ++x)
      for (unsigned c = 0; c < channels; ++c)
        out.push_back(static_cast<std::uint8_t>(c == 0 ? 3 * y : c == 1 ? 2 * x : 200 - y - x));
  return out;
}

std::vector<unsigned> random_samples(unsigned count, int depth) {
  std::mt19937 random(7);
  std::vector<unsigned> out(count);
  for (unsigned& x : out) x = random() % (1U << depth);
  return out;
}

std::uint8_t grey(unsigned r, unsigned g, unsigned b) {
  return static_cast<std::uint8_t>(std::lround(0.299 * r + 0.587 * g + 0.114 * b));
}

int largest_difference(const Pixels& a, const Pixels& b) {
  int out = a.size() == b.size() ? 0 : 1000;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) out = std::max(out, std::abs(a[i] - b[i]));
  return out;
}

Error refused(const std::string& bytes, ImageOptions options = {}) {
  return error_of([&] { decode_image(bytes, "/dog.x", options); });
}

// A chunk of PNG, with its checksum.
std::string png_chunk(const std::string& name, const std::string& data) {
  const auto word = [](std::uint32_t x) {
    return std::string{static_cast<char>(x >> 24), static_cast<char>(x >> 16), static_cast<char>(x >> 8),
                       static_cast<char>(x)};
  };
  std::uint32_t crc = 0xffffffff;
  for (const char c : name + data) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? crc >> 1 ^ 0xedb88320 : crc >> 1;
  }
  return word(static_cast<std::uint32_t>(data.size())) + name + data + word(~crc);
}

// Up to the pixels, of which there are none.
std::string png_start(std::uint32_t height, std::uint32_t width) {
  std::string header;
  for (const std::uint32_t x : {width, height})
    for (const int shift : {24, 16, 8, 0}) header += static_cast<char>(x >> shift);
  header += std::string{8, 2, 0, 0, 0};
  return "\x89PNG\r\n\x1a\n" + png_chunk("IHDR", header) + png_chunk("IDAT", "x");
}

TEST(Image, JpegHasThePixelsOfLibjpeg) {
  for (const bool progressive : {false, true})
    for (const bool colored : {false, true}) {
      const Pixels drawn = gradient(45, 67, colored ? 3 : 1);
      const std::string file =
          jpeg_file(drawn, 45, 67, {.from = colored ? JCS_RGB : JCS_GRAYSCALE, .progressive = progressive});
      const std::int64_t stored = colored ? 3 : 1;
      EXPECT_EQ(image_info(file, "f"),
                (ImageInfo{.format = ImageFormat::jpeg, .height = 45, .width = 67, .channels = stored}));
      const Tensor image = decode_image(file, "f");
      EXPECT_EQ(image.shape(), (Shape{45, 67, stored}));
      EXPECT_EQ(pixels_of(image), jpeg_pixels(file, colored ? JCS_RGB : JCS_GRAYSCALE));
      EXPECT_LE(largest_difference(pixels_of(image), drawn), 8);
      EXPECT_EQ(pixels_of(decode_image(file, "f", {.channels = 1})), jpeg_pixels(file, JCS_GRAYSCALE));
      EXPECT_EQ(pixels_of(decode_image(file, "f", {.channels = 3})), jpeg_pixels(file, JCS_RGB));
    }
}

TEST(Image, CmykOfJpegBecomesRgb) {
  const Pixels light = gradient(16, 24, 4);  // of Adobe's programs: 255 is no ink
  Pixels ink, rgb, greys;
  for (const std::uint8_t x : light) ink.push_back(static_cast<std::uint8_t>(255 - x));
  for (std::size_t i = 0; i < light.size(); i += 4) {
    for (std::size_t c = 0; c < 3; ++c)
      rgb.push_back(static_cast<std::uint8_t>(std::lround(light[i + c] * light[i + 3] / 255.0)));
    greys.push_back(grey(rgb[rgb.size() - 3], rgb[rgb.size() - 2], rgb[rgb.size() - 1]));
  }
  const std::string of_adobe = jpeg_file(light, 16, 24, {.from = JCS_CMYK});
  const std::string of_others = jpeg_file(ink, 16, 24, {.from = JCS_CMYK, .adobe = false});
  EXPECT_EQ(image_info(of_adobe, "f").channels, 3);
  for (const std::string& file : {of_adobe, of_others}) {
    EXPECT_LE(largest_difference(pixels_of(decode_image(file, "f")), rgb), 8);
    EXPECT_LE(largest_difference(pixels_of(decode_image(file, "f", {.channels = 1})), greys), 8);
  }
}

TEST(Image, RowsAreDecodedInPartsAsAtOnce) {
  const auto samples = random_samples(20 * 16 * 3, 8);
  for (const std::string& file :
       {jpeg_file(gradient(20, 16, 3), 20, 16), jpeg_file(gradient(20, 16, 3), 20, 16, {.progressive = true}),
        jpeg_file(gradient(20, 16, 4), 20, 16, {.from = JCS_CMYK}), png_file(samples, 20, 16),
        png_file(samples, 20, 16, {.interlaced = true})})
    for (const int channels : {1, 3}) {
      ImageRows rows(file, "f", {.channels = channels});
      EXPECT_EQ(rows.info().channels, channels);
      Pixels parts(static_cast<std::size_t>(20 * 16 * channels));
      std::int64_t row = 0;
      for (const std::int64_t count : {1, 0, 7, 8, 4}) {
        rows.read(parts.data() + row * 16 * channels, count);
        row += count;
      }
      EXPECT_EQ(parts, pixels_of(decode_image(file, "f", {.channels = channels})));
      EXPECT_EQ(error_of([&] { rows.read(parts.data(), 1); }).to_string(),
                "invalid_argument: f: 1 rows behind the first 20 of 20");
      EXPECT_EQ(error_of([&] { rows.read(parts.data(), -1); }).code(), Code::invalid_argument);
    }
}

TEST(Image, PngOfAllTypesAndDepthsIsExact) {
  constexpr unsigned kHeight = 11, kWidth = 13;
  for (const int type : {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_RGB, PNG_COLOR_TYPE_PALETTE, PNG_COLOR_TYPE_GRAY_ALPHA,
                         PNG_COLOR_TYPE_RGBA})
    for (const int depth : {1, 2, 4, 8, 16})
      for (const bool interlaced : {false, true})
        for (const bool transparent : {false, true}) {
          const bool palette = type == PNG_COLOR_TYPE_PALETTE, alpha = (type & PNG_COLOR_MASK_ALPHA) != 0;
          if (palette ? depth == 16 : type != PNG_COLOR_TYPE_GRAY && depth < 8) continue;
          if (alpha && transparent) continue;
          SCOPED_TRACE(fmt::format("type {} depth {} {}{}", type, depth, interlaced, transparent));
          const unsigned n = png_samples(type);
          std::vector<unsigned> samples = random_samples(kHeight * kWidth * n, depth);
          for (unsigned i = 0; i < 2 * n; ++i) samples[i] = 1;
          Pixels stored, greys, colors;
          const auto byte = [&](unsigned sample) {
            return static_cast<std::uint8_t>(depth == 16 ? sample >> 8 : sample * 255 / ((1U << depth) - 1));
          };
          for (std::size_t i = 0; i < samples.size(); i += n) {
            const png_color entry = png_palette(samples[i]);
            const bool colored = (type & PNG_COLOR_MASK_COLOR) != 0;
            const Pixels rgb = palette   ? Pixels{entry.red, entry.green, entry.blue}
                               : colored ? Pixels{byte(samples[i]), byte(samples[i + 1]), byte(samples[i + 2])}
                                         : Pixels(3, byte(samples[i]));
            stored.insert(stored.end(), rgb.begin(), colored ? rgb.end() : rgb.begin() + 1);
            const bool is_clear = std::all_of(&samples[i], &samples[i] + n, [](unsigned x) { return x == 1; });
            if (alpha) stored.push_back(byte(samples[i + n - 1]));
            if (transparent) stored.push_back(is_clear ? 0 : 255);
            colors.insert(colors.end(), rgb.begin(), rgb.end());
            greys.push_back(colored ? grey(rgb[0], rgb[1], rgb[2]) : rgb[0]);
          }
          const std::string file =
              png_file(samples, kHeight, kWidth,
                       {.type = type, .depth = depth, .interlaced = interlaced, .transparent = transparent});
          const Tensor image = decode_image(file, "f");
          EXPECT_EQ(image.shape(), (Shape{kHeight, kWidth, image_info(file, "f").channels}));
          EXPECT_EQ(pixels_of(image), stored);
          EXPECT_EQ(pixels_of(decode_image(file, "f", {.channels = 3})), colors);
          EXPECT_LE(largest_difference(pixels_of(decode_image(file, "f", {.channels = 1})), greys),
                    (type & PNG_COLOR_MASK_COLOR) != 0 ? 1 : 0);
        }
}

TEST(Image, EveryCutIsAnError) {
  const Pixels small = gradient(9, 17, 3);
  const std::vector<unsigned> samples(small.begin(), small.end());
  for (const std::string& file : {jpeg_file(small, 9, 17), jpeg_file(small, 9, 17, {.progressive = true}),
                                  png_file(samples, 9, 17), png_file(samples, 9, 17, {.interlaced = true})}) {
    EXPECT_EQ(refused(file).code(), Code::ok);
    for (std::size_t size = 0; size < file.size(); ++size) {
      const Error error = refused(file.substr(0, size));
      ASSERT_EQ(error.code(), Code::data_loss) << size << " of " << file.size();
      ASSERT_THAT(error.message(), StartsWith("/dog.x: "));
    }
  }
}

TEST(Image, FlippedBitsDoNoMoreThanFail) {
  const Pixels small = gradient(16, 16, 3);
  const std::vector<unsigned> samples(small.begin(), small.end());
  std::mt19937 random(3);
  int errors = 0;
  for (const std::string& file : {jpeg_file(small, 16, 16), jpeg_file(small, 16, 16, {.progressive = true}),
                                  jpeg_file(gradient(16, 16, 4), 16, 16, {.from = JCS_CMYK}), png_file(samples, 16, 16),
                                  png_file(samples, 16, 16, {.interlaced = true})})
    for (int round = 0; round < 1000; ++round) {
      std::string bad = file;
      for (int flips = 0; flips < 3; ++flips) bad[random() % bad.size()] ^= static_cast<char>(1 << random() % 8);
      if (refused(bad, {.channels = round % 2 * 3, .max_pixels = 1 << 16}).code() != Code::ok) ++errors;
    }
  EXPECT_GT(errors, 1000);
}

TEST(Image, DimensionsAreCheckedBeforePixelsAreAllocated) {
  EXPECT_EQ(image_info(png_start(100'000, 100'000), "f").width, 100'000);
  EXPECT_EQ(refused(png_start(100'000, 100'000)).to_string(),
            "resource_exhausted: /dog.x: a PNG image of 100000 x 100000 pixels, more than the limit of 268435456");
  EXPECT_EQ(refused(png_start(0x7fffffff, 0x7fffffff)).code(), Code::resource_exhausted);
  EXPECT_THAT(
      refused(png_start(16'000, 16'000)).to_string(),
      StartsWith("data_loss: /dog.x: a damaged PNG image: 16000 x 16000 pixels take at least 744186 bytes, but it "
                 "has "));
  std::string jpeg = jpeg_file(gradient(16, 16, 3), 16, 16);
  EXPECT_EQ(refused(jpeg, {.max_pixels = 255}).to_string(),
            "resource_exhausted: /dog.x: a JPEG image of 16 x 16 pixels, more than the limit of 255");
  EXPECT_EQ(refused(jpeg, {.max_pixels = 256}).code(), Code::ok);
  const std::size_t frame = jpeg.find("\xff\xc0");
  jpeg[frame + 5] = jpeg[frame + 7] = 0x3c;  // 15376 x 15376
  EXPECT_THAT(refused(jpeg).to_string(),
              StartsWith("data_loss: /dog.x: a damaged JPEG image: 15376 x 15376 pixels take at least "));
}

TEST(Image, ErrorsSayWhatIsWrong) {
  EXPECT_EQ(refused("GIF89a...").to_string(),
            "unimplemented: /dog.x: begins with bytes 47 49 46 38: neither a JPEG (ff d8 ff) nor a PNG image (89 50 4e "
            "47)");
  EXPECT_EQ(refused("").to_string(), "data_loss: /dog.x: has 0 bytes: not an image, or cut short");
  EXPECT_EQ(refused("", {.channels = 4}).code(), Code::invalid_argument);
  std::string png = png_file(random_samples(48, 8), 4, 4);
  png[png.find("IEND") - 5] ^= 1;
  EXPECT_THAT(refused(png).message(), HasSubstr("a damaged PNG image: IDAT: CRC error"));
  std::string jpeg = jpeg_file(gradient(16, 16, 3), 16, 16);
  jpeg.insert(jpeg.size() - 2, 40, 'x');  // of which libjpeg warns
  EXPECT_THAT(refused(jpeg).message(), HasSubstr("a damaged JPEG image: Corrupt JPEG data: "));
  jpeg.replace(jpeg.size() - 42, 42, "\xff\xd9 a trailer");
  EXPECT_EQ(refused(jpeg).code(), Code::ok);
}

TEST(Image, AJpegWithoutTheScanOfAComponentIsRefused) {
  const std::string whole = jpeg_file(gradient(16, 16, 3), 16, 16,
                                      {.scans = {{1, {0}, 0, 63, 0, 0}, {1, {1}, 0, 63, 0, 0}, {1, {2}, 0, 63, 0, 0}}});
  EXPECT_EQ(refused(whole).code(), Code::ok);
  const std::string bad = whole.substr(0, whole.rfind("\xff\xda")) + "\xff\xd9";
  EXPECT_EQ(refused(bad).message(), "/dog.x: a damaged JPEG image: component 2 has no data");
}

// Each scan takes a pass over the image.
TEST(Image, ProgressiveImagesOfManyScansAreRefused) {
  std::string jpeg = jpeg_file(gradient(8, 8, 1), 8, 8,
                               {.from = JCS_GRAYSCALE, .scans = {{1, {0}, 0, 0, 0, 0}, {1, {0}, 1, 63, 0, 0}}});
  const std::size_t last = jpeg.rfind("\xff\xda");
  const std::string scan = jpeg.substr(last, jpeg.size() - 2 - last);
  const auto add = [&](int scans) {
    for (int i = 0; i < scans; ++i) jpeg.insert(jpeg.size() - 2, scan);
  };
  add(498);
  EXPECT_EQ(refused(jpeg).code(), Code::ok);
  add(1);
  EXPECT_EQ(refused(jpeg).message(), "/dog.x: a damaged JPEG image: more than 500 scans");
}

}  // namespace
}  // namespace troupe::testing
