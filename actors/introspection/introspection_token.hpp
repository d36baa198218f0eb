// Makes the token that the introspectors of a cluster ask for, of the key of the cluster's token (HMAC-SHA256). It lets
// its owner look, and nothing else.
#pragma once

#include <string>

namespace troupe {

// "" for "".
std::string introspection_token(const std::string& cluster_token, const std::string& cluster);

}  // namespace troupe
