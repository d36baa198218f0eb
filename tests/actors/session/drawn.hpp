// Pseudo-random values, the same in each run.
#pragma once

#include <cstdint>

#include <troupe/messages/tensor.hpp>

namespace troupe::testing {

// f32, uniform in [low, high).
inline Tensor drawn(const Shape& shape, std::uint64_t seed, float low, float high) {
  Tensor out(DType::f32, shape);
  std::uint64_t state = seed * 0x9e3779b97f4a7c15ull + 1;
  for (float& x : out.mutable_values<float>()) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    x = low + (high - low) * static_cast<float>(state >> 40) / static_cast<float>(1 << 24);
  }
  return out;
}

}  // namespace troupe::testing
