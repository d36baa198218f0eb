// How much of long simulations is run.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace troupe::testing {

// A tenth of `all` seeds, or all of them where the environment has TROUPE_LONG_TESTS (tools/test.sh --long).
inline std::uint64_t seeds(std::uint64_t all) {
  return std::getenv("TROUPE_LONG_TESTS") ? all : std::max<std::uint64_t>(1, all / 10);
}

}  // namespace troupe::testing
