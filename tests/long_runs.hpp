// How much of long tests is run.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace troupe::testing {

// Whether the environment has TROUPE_LONG_TESTS (tools/test.sh --long).
inline bool is_long_run() { return std::getenv("TROUPE_LONG_TESTS") != nullptr; }

// A tenth of `all` seeds; in a long run all of them, and with TROUPE_LONG_TESTS=N N times as many.
inline std::uint64_t seeds(std::uint64_t all) {
  if (!is_long_run()) return std::max<std::uint64_t>(1, all / 10);
  return all * std::max<std::uint64_t>(1, std::strtoull(std::getenv("TROUPE_LONG_TESTS"), nullptr, 10));
}

}  // namespace troupe::testing
