// How much of long tests is run.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace troupe::testing {

// Whether the environment has TROUPE_LONG_TESTS (tools/test.sh --long).
inline bool is_long_run() { return std::getenv("TROUPE_LONG_TESTS") != nullptr; }

// A tenth of `all` seeds; in a long run all of them.
inline std::uint64_t seeds(std::uint64_t all) { return is_long_run() ? all : std::max<std::uint64_t>(1, all / 10); }

}  // namespace troupe::testing
