// Values of trained variables by name: their hash and their file.
#pragma once

#include <map>
#include <string>

#include <troupe/messages/tensor.hpp>

namespace troupe {

using Parameters = std::map<std::string, Tensor>;

// SHA-256, as 64 hex digits, over the parameters sorted by name: name, dtype and shape as text, each ended by a zero
// byte, and the elements in little-endian order.
std::string params_sha256(const Parameters& parameters);

// Writes a proto::Parameters atomically: to a temporary file beside `path`, synced and renamed. Throws FileSystem's
// errors, naming the file and the reason, and resource_exhausted above 2 GiB.
void save_parameters(const std::string& path, const Parameters& parameters);
// Throws FileSystem's errors, and data_loss naming the file if it is damaged.
Parameters load_parameters(const std::string& path);

}  // namespace troupe
