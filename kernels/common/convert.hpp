// Conversion of single elements, as in Cast. GPU kernels call it too.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

namespace troupe {

// Neither `x` nor To is f16 or bf16 (use float). Float to integer: rounds towards 0,
// clamps to the limits of To, and maps NaN to 0.
template <class To, class From>
constexpr To convert(From x) {
  if constexpr (std::is_same_v<To, bool>) {
    return x != From{0};
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    // 2^(bits - sign): exact in any floating type, unlike the largest integer.
    constexpr From kEnd = static_cast<From>(std::uint64_t{1} << (std::numeric_limits<To>::digits - 1)) * From{2};
    constexpr From kBegin = static_cast<From>(std::numeric_limits<To>::min());
    if (x != x) return To{0};
    if (x >= kEnd) return std::numeric_limits<To>::max();
    if (x <= kBegin) return std::numeric_limits<To>::min();
    return static_cast<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

}  // namespace troupe
