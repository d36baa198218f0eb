// Time, as classes that are told it count it.
#pragma once

#include <cstdint>

namespace troupe {

using Nanoseconds = std::int64_t;  // of a steady clock

inline constexpr Nanoseconds kMicrosecond = 1'000, kMillisecond = 1'000'000, kSecond = 1'000'000'000;

}  // namespace troupe
