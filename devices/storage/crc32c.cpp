#include "troupe/devices/storage/crc32c.hpp"

#include <isa-l/crc.h>

#include <algorithm>

namespace troupe {

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t crc) {
  constexpr std::size_t kMost = 1u << 30;  // the library counts in int
  crc = ~crc;
  while (!bytes.empty()) {
    const std::size_t n = std::min(bytes.size(), kMost);
    auto* data = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(bytes.data()));  // only read
    crc = crc32_iscsi(data, static_cast<int>(n), crc);
    bytes = bytes.subspan(n);
  }
  return ~crc;
}

}  // namespace troupe
