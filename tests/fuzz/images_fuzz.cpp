#include "tests/fuzz/images_fuzz.hpp"

#include <cstdio>
#include <cstdlib>

#include "tests/kernels/readers/image_files.hpp"
#include <troupe/kernels/readers/image.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

constexpr std::int64_t kMaxFuzzedPixels = 1 << 16;

void promise_of_images(bool kept, const char* what, const std::string& why) {
  if (kept) return;
  std::fprintf(stderr, "broken promise of a reader of images: %s: %s\n", what, why.c_str());
  std::abort();
}

}  // namespace

std::size_t decode_image_of_stranger(std::string_view input) {
  if (input.empty()) return 0;
  constexpr int kChannels[] = {0, 1, 3};
  const ImageOptions options = {.channels = kChannels[static_cast<unsigned char>(input[0]) % 3],
                                .max_pixels = kMaxFuzzedPixels};
  const std::string_view bytes = input.substr(1);
  Tensor image;
  try {
    image = decode_image(bytes, "/image", options);
  } catch (const Error& error) {
    const Code code = error.code();
    promise_of_images(code == Code::data_loss || code == Code::unimplemented || code == Code::resource_exhausted,
                      "errors are of three codes", error.to_string());
    promise_of_images(error.message().starts_with("/image: "), "errors name the file", error.to_string());
    return 0;
  }
  const ImageInfo info = image_info(bytes, "/image");
  const std::int64_t channels = options.channels == 0 ? info.channels : options.channels;
  promise_of_images(image.shape() == Shape{info.height, info.width, channels}, "images are as their headers say",
                    image.shape().to_string());
  promise_of_images(info.height * info.width <= options.max_pixels, "pixels are limited", image.shape().to_string());
  unsigned sum = 0;  // a sanitizer sees bytes that were not written
  for (const std::uint8_t x : image.values<std::uint8_t>()) sum += x;
  promise_of_images(sum <= 255U * image.num_bytes(), "pixels are bytes", "");
  return static_cast<std::size_t>(info.height * info.width);
}

std::vector<std::string> image_seeds() {
  constexpr unsigned kSide = 12;
  using testing::jpeg_file;
  using testing::png_file;
  std::vector<std::uint8_t> pixels;
  for (unsigned i = 0; i < kSide * kSide * 4; ++i) pixels.push_back(static_cast<std::uint8_t>(i * 5));
  std::vector<std::string> files;
  for (const J_COLOR_SPACE from : {JCS_GRAYSCALE, JCS_RGB, JCS_CMYK})
    for (const bool progressive : {false, true})
      files.push_back(jpeg_file(pixels, kSide, kSide, {.from = from, .progressive = progressive}));
  for (const int type : {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_RGB, PNG_COLOR_TYPE_PALETTE, PNG_COLOR_TYPE_RGBA})
    for (const int depth : {2, 8, 16}) {
      if (type == PNG_COLOR_TYPE_PALETTE ? depth == 16 : type != PNG_COLOR_TYPE_GRAY && depth == 2) continue;
      std::vector<unsigned> samples;
      for (const std::uint8_t x : pixels) samples.push_back(x % (1U << depth));
      files.push_back(png_file(samples, kSide, kSide, {.type = type, .depth = depth, .interlaced = depth == 8}));
    }
  for (std::size_t i = 0; i < files.size(); ++i) files[i].insert(0, 1, static_cast<char>(i % 3));
  return files;
}

}  // namespace troupe
