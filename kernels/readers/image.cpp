#include "troupe/kernels/readers/image.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include <troupe/kernels/readers/image_formats.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

constexpr std::string_view kJpegStart = "\xff\xd8\xff";
constexpr std::string_view kPngStart = "\x89PNG\r\n\x1a\n";

[[noreturn]] void damaged_image(const std::string& what, ImageFormat format, std::string_view why) {
  fail(Code::data_loss, "{}: a damaged {} image: {}", what, name(format), why);
}

ImageFormat format_of_image(std::string_view bytes, const std::string& what) {
  if (bytes.starts_with(kJpegStart)) return ImageFormat::jpeg;
  if (bytes.starts_with(kPngStart)) return ImageFormat::png;
  if (kJpegStart.starts_with(bytes) || kPngStart.starts_with(bytes))
    fail(Code::data_loss, "{}: has {} bytes: not an image, or cut short", what, bytes.size());
  std::string start;
  for (const char c : bytes.substr(0, 4)) start += fmt::format(" {:02x}", static_cast<unsigned char>(c));
  fail(Code::unimplemented, "{}: begins with bytes{}: neither a JPEG (ff d8 ff) nor a PNG image (89 50 4e 47)", what,
       start);
}

// With its header read.
std::unique_ptr<ImageDecoder> open_image(std::string_view bytes, const std::string& what) {
  const ImageFormat format = format_of_image(bytes, what);
  std::unique_ptr<ImageDecoder> decoder = format == ImageFormat::jpeg ? jpeg_decoder(bytes) : png_decoder(bytes);
  if (!decoder->read_header()) damaged_image(what, format, decoder->message());
  if (const std::string reason = decoder->unsupported(); !reason.empty())
    fail(Code::unimplemented, "{}: a {} image with {}", what, name(format), reason);
  return decoder;
}

// As libjpeg and ITU-R BT.601 do.
std::uint8_t grey_of(unsigned red, unsigned green, unsigned blue) {
  return static_cast<std::uint8_t>((19595 * red + 38470 * green + 7471 * blue + 32768) >> 16);
}

std::uint8_t scaled(unsigned a, unsigned b) { return static_cast<std::uint8_t>((a * b + 127) / 255); }

// Pixels of ImageDecoder with other channels: 4 to 3 or 1, or 3 to 1.
Tensor with_channels(const Tensor& from, std::int64_t channels) {
  const Shape& shape = from.shape();
  Tensor to(DType::u8, Shape{shape[0], shape[1], channels});
  const std::uint8_t* x = from.values<std::uint8_t>().data();
  std::uint8_t* y = to.mutable_data<std::uint8_t>();
  for (std::int64_t i = shape[0] * shape[1]; i > 0; --i, x += shape[2], y += channels) {
    std::uint8_t rgb[3] = {x[0], x[1], x[2]};
    if (shape[2] == 4)
      for (std::uint8_t& color : rgb) color = scaled(color, x[3]);
    if (channels == 1) {
      *y = grey_of(rgb[0], rgb[1], rgb[2]);
    } else {
      std::copy_n(rgb, 3, y);
    }
  }
  return to;
}

}  // namespace

std::string_view name(ImageFormat format) { return format == ImageFormat::jpeg ? "JPEG" : "PNG"; }

ImageInfo image_info(std::string_view bytes, const std::string& what) { return open_image(bytes, what)->info(); }

Tensor decode_image(std::string_view bytes, const std::string& what, ImageOptions options) {
  if (options.channels != 0 && options.channels != 1 && options.channels != 3)
    invalid_argument("{}: images are decoded to 1 or 3 channels, or 0 for those stored, not to {}", what,
                     options.channels);
  const std::unique_ptr<ImageDecoder> decoder = open_image(bytes, what);
  const ImageInfo info = decoder->info();
  // Both are below 2^31.
  if (info.height * info.width > options.max_pixels)
    fail(Code::resource_exhausted, "{}: a {} image of {} x {} pixels, more than the limit of {}", what,
         name(info.format), info.height, info.width, options.max_pixels);
  if (const std::uint64_t least = decoder->least_bytes(); least > bytes.size())
    damaged_image(what, info.format,
                  fmt::format("{} x {} pixels take at least {} bytes, but it has {}", info.height, info.width, least,
                              bytes.size()));
  int stored = 0;
  if (!decoder->start(options.channels, stored)) damaged_image(what, info.format, decoder->message());
  Tensor pixels(DType::u8, Shape{info.height, info.width, stored});
  if (!decoder->read_pixels(pixels.mutable_data<std::uint8_t>())) damaged_image(what, info.format, decoder->message());
  const std::int64_t channels = options.channels == 0 ? info.channels : options.channels;
  return stored == channels ? pixels : with_channels(pixels, channels);
}

}  // namespace troupe
