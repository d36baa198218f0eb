// Bytes as hexadecimal text, for tests of formats.
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>

namespace troupe::testing {

inline std::string hex_of(std::string_view bytes) {
  std::string out;
  for (const unsigned char c : bytes) out += fmt::format("{:02x}", c);
  return out;
}

inline std::string bytes_of(std::string_view hex) {
  std::string out;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    out += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  return out;
}

}  // namespace troupe::testing
