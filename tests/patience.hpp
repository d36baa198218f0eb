// How tests wait: for as long as a busy machine may take.
#pragma once

#include <chrono>
#include <functional>
#include <thread>

namespace troupe::testing {

// How long a test waits for what must come: long enough for a busy machine.
inline constexpr std::chrono::seconds kPatience{60};

// Asks again and again until it holds; false if it does not for so long.
inline bool eventually(const std::function<bool()>& holds, std::chrono::nanoseconds patience = kPatience) {
  for (const auto end = std::chrono::steady_clock::now() + patience; !holds(); std::this_thread::yield())
    if (std::chrono::steady_clock::now() > end) return false;
  return true;
}

// For what has a limit that runs out, before which something else must have happened: a busy machine may be too slow
// for any limit that is short. Tries with `limit`, then with twice that and so on; false if it holds with none.
inline bool holds_with_more_time(std::chrono::milliseconds limit,
                                 const std::function<bool(std::chrono::milliseconds limit)>& holds) {
  for (; limit < kPatience; limit *= 2)
    if (holds(limit)) return true;
  return false;
}

}  // namespace troupe::testing
