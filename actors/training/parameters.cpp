#include "troupe/actors/training/parameters.hpp"

#include <troupe/actors/training/parameter_hash.hpp>

namespace troupe {

std::string params_sha256(const Parameters& parameters) { return params_sha256(parameters, {}); }

}  // namespace troupe
