// Settings that programs take from the environment.
#pragma once

#include <string_view>

namespace troupe {

// TROUPE_VERIFY: "1" verifies graphs after each pass (graph/verify.hpp), "0" does not; if it is not set, the build
// decides. Throws invalid_argument for other values.
void apply_environment();

// The value of TROUPE_VERIFY.
bool parse_verify(std::string_view value);

}  // namespace troupe
