// Values of trained variables by name, and their hash. Files: actors/model/values.hpp.
#pragma once

#include <map>
#include <string>

#include <troupe/messages/tensor.hpp>

namespace troupe {

using Parameters = std::map<std::string, Tensor>;

// SHA-256, as 64 hex digits, over the parameters sorted by name: name, dtype and shape as text, each ended by a zero
// byte, and the elements in little-endian order.
std::string params_sha256(const Parameters& parameters);

}  // namespace troupe
