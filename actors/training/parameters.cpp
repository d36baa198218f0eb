#include "troupe/actors/training/parameters.hpp"

#include <unistd.h>

#include <bit>
#include <limits>

#include <troupe/actors/base/sha256.hpp>
#include <troupe/devices/storage/file_system.hpp>
#include <troupe/graph/formats/serialize_proto.hpp>

namespace troupe {

static_assert(std::endian::native == std::endian::little, "elements are hashed in memory order");

std::string params_sha256(const Parameters& parameters) {
  Sha256 hash;
  for (const auto& [name, value] : parameters) {
    hash.add_text(name);
    hash.add_text(troupe::name(value.dtype()));
    hash.add_text(value.shape().to_string());
    hash.add(std::span(value.raw(), value.num_bytes()));
  }
  return hash.hex();
}

void save_parameters(const std::string& path, const Parameters& parameters) {
  proto::Parameters message;
  message.set_version(1);
  message.set_sha256(params_sha256(parameters));
  for (const auto& [name, value] : parameters) {
    proto::NamedTensor& entry = *message.add_parameter();
    entry.set_name(name);
    *entry.mutable_value() = to_proto(value);
  }
  std::string bytes;
  if (!message.SerializeToString(&bytes)) fail(Code::resource_exhausted, "the parameters for '{}' exceed 2 GiB", path);
  replace_file(posix_file_system(), path, bytes, std::to_string(::getpid()));
}

Parameters load_parameters(const std::string& path) {
  const std::string bytes = read_file(posix_file_system(), path, std::numeric_limits<int>::max());
  proto::Parameters message;
  if (!message.ParseFromString(bytes) || message.version() != 1)
    fail(Code::data_loss, "'{}' is not a parameter file, or is damaged", path);
  Parameters out;
  for (const proto::NamedTensor& entry : message.parameter()) {
    try {
      out.emplace(entry.name(), from_proto(entry.value()));
    } catch (const Error& error) {
      fail(Code::data_loss, "'{}' is damaged: parameter '{}': {}", path, entry.name(), error.message());
    }
  }
  if (params_sha256(out) != message.sha256()) fail(Code::data_loss, "'{}' is damaged: checksum mismatch", path);
  return out;
}

}  // namespace troupe
