// Division of 32-bit indexes by a divisor known before launch: a multiplication and a shift. Uses the scheme of
// Granlund and Montgomery, "Division by Invariant Integers using Multiplication" (1994), figure 4.1. For host and
// device.
#pragma once

#include <cstdint>

namespace troupe {

struct FastDivider {
  std::uint32_t divisor = 1;
  std::uint32_t multiplier = 1;
  std::uint32_t shift = 0;

  // Requires n < 2^31.
  constexpr std::uint32_t quotient(std::uint32_t n) const {
    const auto high = static_cast<std::uint32_t>((static_cast<std::uint64_t>(n) * multiplier) >> 32);
    return (high + n) >> shift;
  }
};

// Requires a divisor from 1 to 2^31.
constexpr FastDivider make_divider(std::uint32_t divisor) {
  std::uint32_t shift = 0;
  while ((std::uint64_t{1} << shift) < divisor) ++shift;
  const std::uint64_t excess = (std::uint64_t{1} << shift) - divisor;
  return {divisor, static_cast<std::uint32_t>((excess << 32) / divisor + 1), shift};
}

}  // namespace troupe
