#include "troupe/devices/storage/crc32c.hpp"

#include <gtest/gtest.h>

#include <string>

namespace troupe::testing {
namespace {

// RFC 3720, B.4.
TEST(Crc32c, HasTheValuesOfItsStandard) {
  std::string ascending;
  for (char c = 0; c < 32; ++c) ascending += c;
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(crc32c(ascending), 0x46dd794eu);
  EXPECT_EQ(crc32c(std::string_view()), 0u);
}

TEST(Crc32c, GoesOnFromAnyPlace) {
  std::string bytes;
  for (int i = 0; i < 100; ++i) bytes += static_cast<char>(i * i % 251);
  const auto of = [](std::string_view part, std::uint32_t before) {
    return crc32c(std::as_bytes(std::span(part)), before);
  };
  for (std::size_t size = 0; size <= bytes.size(); ++size) {
    std::uint32_t byte_by_byte = 0;
    for (std::size_t i = 0; i < size; ++i) byte_by_byte = of(std::string_view(bytes).substr(i, 1), byte_by_byte);
    for (std::size_t cut = 0; cut <= size; ++cut)
      ASSERT_EQ(of(std::string_view(bytes).substr(cut, size - cut), of(std::string_view(bytes).substr(0, cut), 0)),
                byte_by_byte);
  }
}

// One bit at a time: RFC 3720, the polynomial 0x1edc6f41 with its bits in reverse order.
std::uint32_t bit_by_bit(std::string_view bytes) {
  std::uint32_t state = ~0u;
  for (const char c : bytes) {
    state ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) state = (state >> 1) ^ ((state & 1) != 0 ? 0x82f63b78u : 0);
  }
  return ~state;
}

// Each length up to some blocks, and around the lengths from which on it is computed otherwise.
TEST(Crc32c, IsTheSameHoweverItIsComputed) {
  std::string bytes(40'000, '\0');
  std::uint32_t noise = 7;
  for (char& c : bytes) c = static_cast<char>((noise = noise * 1'664'525u + 1'013'904'223u) >> 24);
  const auto check = [&](std::size_t size) {
    const std::string_view part = std::string_view(bytes).substr(size % 67, size), rest = part.substr(size / 3);
    ASSERT_EQ(crc32c(part), bit_by_bit(part)) << size;
    ASSERT_EQ(crc32c(std::as_bytes(std::span(rest)), crc32c(part.substr(0, size / 3))), bit_by_bit(part)) << size;
  };
  for (std::size_t size = 0; size < 1200; ++size) check(size);
  for (std::size_t size = (16 << 10) - 70; size < (16 << 10) + 70; ++size) check(size);
  check(39'000);
}

}  // namespace
}  // namespace troupe::testing
