#include "apps/environment.hpp"

#include <cstdlib>

#include <troupe/graph/verify.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {

bool parse_verify(std::string_view value) {
  if (value != "0" && value != "1")
    invalid_argument(
        "environment variable TROUPE_VERIFY is '{}': set it to 1 to verify graphs after each pass, or to 0", value);
  return value == "1";
}

void apply_environment() {
  if (const char* value = std::getenv("TROUPE_VERIFY")) verify_passes(parse_verify(value));
}

}  // namespace troupe
