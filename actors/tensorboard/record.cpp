#include "troupe/actors/tensorboard/record.hpp"

#include <bit>

#include <troupe/devices/storage/crc32c.hpp>

namespace troupe {
namespace {

template <class T>
void append(std::string& out, T number) {
  for (std::size_t i = 0; i < sizeof(T); ++i) out += static_cast<char>((number >> (8 * i)) & 0xff);
}

}  // namespace

std::uint32_t masked_crc32c(std::string_view bytes) { return std::rotr(crc32c(bytes), 15) + 0xa282ead8u; }

std::string record_of(std::string_view data) {
  std::string out;
  out.reserve(data.size() + 16);
  append(out, static_cast<std::uint64_t>(data.size()));
  append(out, masked_crc32c(out));
  out += data;
  append(out, masked_crc32c(data));
  return out;
}

}  // namespace troupe
