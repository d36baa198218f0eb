// Limits of bodies of JSON; their bytes are limited by who reads them from a connection.
#pragma once

#include <cstddef>

namespace troupe {

struct JsonLimits {
  std::size_t most_elements = std::size_t{1} << 28;  // of the tensors of a body together
};

}  // namespace troupe
