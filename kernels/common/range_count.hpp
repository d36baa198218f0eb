// Length of a Range.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <troupe/messages/error.hpp>

namespace troupe {

// Number of elements of start, start + delta, ... before limit. Throws invalid_argument if the range is endless.
template <class T>
std::int64_t range_count(T start, T limit, T delta) {
  if (delta == T{0}) invalid_argument("Range: delta is 0");
  if constexpr (std::is_integral_v<T>) {
    if (delta > 0 ? start >= limit : start <= limit) return 0;
    // Unsigned: the distance between two i64 may not fit an i64.
    const std::uint64_t distance = delta > 0 ? static_cast<std::uint64_t>(limit) - static_cast<std::uint64_t>(start)
                                             : static_cast<std::uint64_t>(start) - static_cast<std::uint64_t>(limit);
    const std::uint64_t step = delta > 0 ? static_cast<std::uint64_t>(delta) : 0 - static_cast<std::uint64_t>(delta);
    const std::uint64_t count = (distance - 1) / step + 1;
    if (count > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      invalid_argument("Range: too many elements");
    return static_cast<std::int64_t>(count);
  } else {
    const double count =
        std::ceil((static_cast<double>(limit) - static_cast<double>(start)) / static_cast<double>(delta));
    if (!(count < 0x1p62)) invalid_argument("Range: {} to {} by {} has no finite length", start, limit, delta);
    return count > 0 ? static_cast<std::int64_t>(count) : 0;
  }
}

}  // namespace troupe
