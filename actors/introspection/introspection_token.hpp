// Derives the token of a cluster's introspectors from the key of the cluster's token (HMAC-SHA256). It grants
// inspection only.
#pragma once

#include <string>

namespace troupe {

// Returns "" for "".
std::string introspection_token(const std::string& cluster_token, const std::string& cluster);

}  // namespace troupe
