// JSON as text.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace troupe {

// Dumps to one line, replacing invalid UTF-8 (names come from users).
inline std::string json_text(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace troupe
