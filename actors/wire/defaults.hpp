// Default limits and timeouts of connections.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace troupe::wire {

inline constexpr std::uint64_t kDefaultWindow = 64ull << 20;  // bytes
inline constexpr std::size_t kDefaultMaxStrangers = 64;
inline constexpr std::size_t kDefaultMaxConnections = 1024;
inline constexpr std::chrono::milliseconds kDefaultHandshakeTimeout{5000};
inline constexpr std::chrono::milliseconds kDefaultDownAfter{10000};

}  // namespace troupe::wire
