// Settings from environment variables.
#pragma once

#include <string_view>

namespace troupe {

// Applies TROUPE_VERIFY: "1" verifies graphs after each pass (graph/verify.hpp), "0" does not; unset leaves the build's
// default. Throws invalid_argument for other values.
void apply_environment();

// Parses the value of TROUPE_VERIFY.
bool parse_verify(std::string_view value);

}  // namespace troupe
