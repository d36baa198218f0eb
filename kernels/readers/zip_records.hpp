// The records of zip archives: signatures, sizes, numbers (little-endian).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace troupe::zip {

inline constexpr std::uint64_t kLocal = 0x04034b50, kLocalBytes = 30;    // in front of a member
inline constexpr std::uint64_t kDescriptor = 0x08074b50;                 // behind one whose sizes were not known
inline constexpr std::uint64_t kMember = 0x02014b50, kMemberBytes = 46;  // in the directory
inline constexpr std::uint64_t kEnd = 0x06054b50, kEndBytes = 22;
inline constexpr std::uint64_t kWideEnd = 0x06064b50, kWideEndBytes = 56;
inline constexpr std::uint64_t kLocator = 0x07064b50, kLocatorBytes = 20;  // of the wide end
inline constexpr std::uint64_t kWideField = 1;                             // an extra field
// Instead of a number that is in a field or record of 64 bits.
inline constexpr std::uint64_t kWide16 = 0xffff, kWide32 = 0xffffffff;
inline constexpr std::uint16_t kStored = 0, kDeflated = 8;

// The number of `Bytes` bytes at `at`, which must be inside.
template <std::size_t Bytes>
std::uint64_t number(std::string_view bytes, std::size_t at) {
  std::uint64_t out = 0;
  for (std::size_t i = Bytes; i-- > 0;) out = out << 8 | static_cast<unsigned char>(bytes[at + i]);
  return out;
}

template <std::size_t Bytes>
void put(std::string& out, std::uint64_t value) {
  for (std::size_t i = 0; i < Bytes; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
}

}  // namespace troupe::zip
