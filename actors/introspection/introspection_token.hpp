// What the introspectors of a cluster ask for: derived from the key of the cluster's token (HMAC-SHA256), which it does
// not tell. Who has it may look, and nothing else.
#pragma once

#include <string>

namespace troupe {

// "" for "".
std::string introspection_token(const std::string& cluster_token, const std::string& cluster);

}  // namespace troupe
