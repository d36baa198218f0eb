// CRC-32C (Castagnoli), as RFC 3720 has it: what tensors and manifests of checkpoints are checked with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace troupe {

// Of `before` and `bytes` behind it, where `crc` is that of `before`; 0 of nothing.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t crc = 0);
inline std::uint32_t crc32c(std::string_view text) { return crc32c(std::as_bytes(std::span(text))); }

}  // namespace troupe
