#include "troupe/actors/training/parameters.hpp"

#include <bit>

#include <troupe/actors/base/sha256.hpp>

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

}  // namespace troupe
