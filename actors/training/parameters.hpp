// Values of trained variables by name: their hash, and the file they are kept in.
#pragma once

#include <map>
#include <string>

#include <troupe/messages/tensor.hpp>

namespace troupe {

using Parameters = std::map<std::string, Tensor>;

// SHA-256, as 64 hex digits, over the parameters sorted by name: name, dtype and shape as text, each ended by a zero
// byte, and the elements in little-endian order.
std::string params_sha256(const Parameters& parameters);

// Writes a proto::Parameters: to a temporary file beside it, synced and renamed, so that `path` is whole or as it was.
// Throws what FileSystem does, naming the file and the reason; resource_exhausted above 2 GiB.
void save_parameters(const std::string& path, const Parameters& parameters);
// Throws what FileSystem does, and data_loss naming the file if it is damaged.
Parameters load_parameters(const std::string& path);

}  // namespace troupe
