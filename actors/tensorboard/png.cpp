#include "troupe/actors/tensorboard/png.hpp"

#include <zlib.h>

#include <array>
#include <limits>

#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

constexpr std::array<char, 4> kColorTypes = {0, 4, 2, 6};  // by channels
constexpr std::int64_t kMostPixels = std::int64_t{1} << 28;

void append_u32(std::string& out, std::uint32_t number) {  // big-endian
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>((number >> shift) & 0xff);
}

const Bytef* bytes_in(std::string_view text) { return reinterpret_cast<const Bytef*>(text.data()); }

// Length, type, data, CRC-32 of type and data.
void append_chunk(std::string& out, std::string_view type, std::string_view data) {
  append_u32(out, static_cast<std::uint32_t>(data.size()));
  const std::size_t begin = out.size();
  out += type;
  out += data;
  const std::string_view checked = std::string_view(out).substr(begin);
  append_u32(out, static_cast<std::uint32_t>(::crc32(0, bytes_in(checked), static_cast<uInt>(checked.size()))));
}

std::string compressed(const std::string& data) {
  uLongf size = ::compressBound(data.size());
  std::string out(size, '\0');
  const int result = ::compress2(reinterpret_cast<Bytef*>(out.data()), &size, bytes_in(data), data.size(), 6);
  if (result != Z_OK) fail(Code::internal, "zlib cannot compress an image: error {}", result);
  out.resize(size);
  return out;
}

}  // namespace

std::string png_of(std::span<const std::uint8_t> pixels, std::int64_t height, std::int64_t width,
                   std::int64_t channels) {
  if (channels < 1 || channels > 4) invalid_argument("an image has 1 to 4 channels, not {}", channels);
  if (height < 1 || width < 1 || height > kMostPixels / width)
    invalid_argument("an image of {} x {} pixels cannot be written: at least 1, at most 2^28 of them", height, width);
  const std::int64_t row = width * channels;
  if (static_cast<std::int64_t>(pixels.size()) != height * row)
    invalid_argument("an image of {} x {} x {} has {} values", height, width, channels, pixels.size());
  std::string rows;
  rows.reserve(static_cast<std::size_t>(height * (row + 1)));
  for (std::int64_t y = 0; y < height; ++y) {
    rows += '\0';  // the row's filter: none
    rows.append(reinterpret_cast<const char*>(pixels.data() + y * row), static_cast<std::size_t>(row));
  }
  std::string header;
  append_u32(header, static_cast<std::uint32_t>(width));
  append_u32(header, static_cast<std::uint32_t>(height));
  header += {8, kColorTypes[static_cast<std::size_t>(channels - 1)], 0, 0, 0};
  std::string out = "\x89PNG\r\n\x1a\n";
  append_chunk(out, "IHDR", header);
  append_chunk(out, "IDAT", compressed(rows));
  append_chunk(out, "IEND", "");
  return out;
}

}  // namespace troupe
