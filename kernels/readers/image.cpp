#include "troupe/kernels/readers/image.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

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
void convert_pixels(const std::uint8_t* from, std::int64_t from_channels, std::uint8_t* to, std::int64_t channels,
                    std::int64_t count) {
  for (; count > 0; --count, from += from_channels, to += channels) {
    std::uint8_t rgb[3] = {from[0], from[1], from[2]};
    if (from_channels == 4)
      for (std::uint8_t& color : rgb) color = scaled(color, from[3]);
    if (channels == 1) {
      *to = grey_of(rgb[0], rgb[1], rgb[2]);
    } else {
      std::copy_n(rgb, 3, to);
    }
  }
}

}  // namespace

std::string_view name(ImageFormat format) { return format == ImageFormat::jpeg ? "JPEG" : "PNG"; }

ImageInfo image_info(std::string_view bytes, const std::string& what) { return open_image(bytes, what)->info(); }

ImageRows::ImageRows(std::string_view bytes, std::string what, ImageOptions options) : what_(std::move(what)) {
  if (options.channels != 0 && options.channels != 1 && options.channels != 3)
    invalid_argument("{}: images are decoded to 1 or 3 channels, or 0 for those stored, not to {}", what_,
                     options.channels);
  decoder_ = open_image(bytes, what_);
  info_ = decoder_->info();
  // Both are below 2^31.
  if (info_.height * info_.width > options.max_pixels)
    fail(Code::resource_exhausted, "{}: a {} image of {} x {} pixels, more than the limit of {}", what_,
         name(info_.format), info_.height, info_.width, options.max_pixels);
  if (const std::uint64_t least = decoder_->least_bytes(); least > bytes.size())
    damaged_image(what_, info_.format,
                  fmt::format("{} x {} pixels take at least {} bytes, but it has {}", info_.height, info_.width, least,
                              bytes.size()));
  int stored = 0;
  if (!decoder_->start(options.channels, stored)) damaged_image(what_, info_.format, decoder_->message());
  stored_ = stored;
  if (options.channels != 0) info_.channels = options.channels;
}

ImageRows::~ImageRows() = default;

void ImageRows::read(std::uint8_t* to, std::int64_t rows) {
  if (rows < 0 || rows > info_.height - read_)
    invalid_argument("{}: {} rows behind the first {} of {}", what_, rows, read_, info_.height);
  if (rows == 0) return;
  const auto stored_bytes = static_cast<std::size_t>(info_.width * stored_);
  const bool all_at_once = decoder_->in_passes() && rows < info_.height;
  if (all_at_once && read_ == 0) {
    buffer_.resize(static_cast<std::size_t>(info_.height) * stored_bytes);
    decode(buffer_.data(), info_.height);
  }
  const std::uint8_t* from =
      buffer_.empty() ? nullptr : buffer_.data() + static_cast<std::size_t>(read_) * stored_bytes;
  if (!all_at_once) {
    if (stored_ != info_.channels) buffer_.resize(static_cast<std::size_t>(rows) * stored_bytes);
    std::uint8_t* const decoded = stored_ == info_.channels ? to : buffer_.data();
    decode(decoded, rows);
    from = decoded;
  }
  read_ += rows;
  if (stored_ != info_.channels)
    convert_pixels(from, stored_, to, info_.channels, rows * info_.width);
  else if (from != to)
    std::copy_n(from, static_cast<std::size_t>(rows) * stored_bytes, to);
}

void ImageRows::decode(std::uint8_t* to, std::int64_t rows) {
  if (!decoder_->read_rows(to, rows)) damaged_image(what_, info_.format, decoder_->message());
}

Tensor decode_image(std::string_view bytes, const std::string& what, ImageOptions options) {
  ImageRows rows(bytes, what, options);
  Tensor pixels(DType::u8, Shape{rows.info().height, rows.info().width, rows.info().channels});
  rows.read(pixels.mutable_data<std::uint8_t>(), rows.info().height);
  return pixels;
}

}  // namespace troupe
