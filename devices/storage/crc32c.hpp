// CRC-32C (Castagnoli) as in RFC 3720: the checksum of checkpoint tensors, manifests and TFRecord files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace troupe {

// The checksum of `before` followed by `bytes`, where `crc` is that of `before`; 0 for nothing.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t crc = 0);
inline std::uint32_t crc32c(std::string_view text) { return crc32c(std::as_bytes(std::span(text))); }

}  // namespace troupe
