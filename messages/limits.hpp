// Limits on untrusted input, checked before anything is allocated for it.
#pragma once

#include <cstdint>

namespace troupe {

struct Limits {
  std::uint64_t max_body = 1u << 20;            // bytes of all fields of one frame
  std::uint64_t max_tensor_bytes = 2ull << 30;  // of one tensor, in memory and as payload
  std::uint64_t max_payload = 4ull << 30;       // of all tensors of one frame
};

}  // namespace troupe
