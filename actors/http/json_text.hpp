// JSON as text.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace troupe {

// On one line; bytes that are no UTF-8 (names come from users) are replaced.
inline std::string json_text(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace troupe
