#include "troupe/messages/bytes_text.hpp"

#include <fmt/core.h>

#include <array>

namespace troupe {

std::string bytes_text(std::uint64_t bytes) {
  constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1023.95 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.{}f} {}", value, value < 99.95 ? 1 : 0, kUnits[unit]);
}

}  // namespace troupe
