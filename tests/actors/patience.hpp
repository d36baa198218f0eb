#pragma once

#include <chrono>

namespace troupe::testing {

// How long a test waits for what must come: long enough for a busy machine.
inline constexpr std::chrono::seconds kPatience{60};

}  // namespace troupe::testing
