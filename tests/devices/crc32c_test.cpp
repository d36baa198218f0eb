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

}  // namespace
}  // namespace troupe::testing
