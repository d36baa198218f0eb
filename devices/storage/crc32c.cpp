#include "troupe/devices/storage/crc32c.hpp"

#include <isa-l/crc.h>

#include <algorithm>
#include <cstring>
#ifdef __SSE4_2__
#include <immintrin.h>
#endif

namespace troupe {

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t crc) {
  constexpr std::size_t kMost = 1u << 30;  // the library counts in int
  crc = ~crc;
#ifdef __SSE4_2__
  // The library takes 10 ns to begin.
  if (bytes.size() == sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), sizeof word);
    return ~static_cast<std::uint32_t>(_mm_crc32_u64(crc, word));
  }
#endif
  while (!bytes.empty()) {
    const std::size_t n = std::min(bytes.size(), kMost);
    auto* data = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(bytes.data()));  // only read
    crc = crc32_iscsi(data, static_cast<int>(n), crc);
    bytes = bytes.subspan(n);
  }
  return ~crc;
}

}  // namespace troupe
