// The end of a range of uniform values, for all device types.
#pragma once

#include <cmath>
#include <limits>
#include <type_traits>

#include <troupe/messages/element_types.hpp>

namespace troupe {

// The greatest value of T below `high`.
template <class T>
Compute<T> last_below(Compute<T> high) {
  if constexpr (!std::is_same_v<T, Compute<T>>) {
    T last(high);  // the bits of floats, without sign, are ordered like the floats
    while (static_cast<float>(last) >= high)
      last.bits = static_cast<std::uint16_t>(static_cast<float>(last) == 0 ? 0x8001
                                             : (last.bits & 0x8000) != 0   ? last.bits + 1
                                                                           : last.bits - 1);
    return static_cast<float>(last);
  } else {
    return std::nextafter(high, -std::numeric_limits<T>::infinity());
  }
}

}  // namespace troupe
