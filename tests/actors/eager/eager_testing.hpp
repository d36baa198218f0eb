// What tests of eager mode share.
#pragma once

#include <cstdint>
#include <string>

#include "tests/error_of.hpp"
#include <troupe/messages/tensor.hpp>

namespace troupe::testing {

// The message of the error that a function throws; "" if it returns.
template <class F>
std::string why_not(F&& f) {
  return error_of(f).message();
}

// f32, in [-0.5, 0.5), the same in every run.
inline Tensor numbers(const Shape& shape, int seed) {
  Tensor out(DType::f32, shape);
  std::uint32_t state = static_cast<std::uint32_t>(seed) * 2654435761u + 1;
  for (float& v : out.mutable_values<float>()) {
    state = state * 1664525u + 1013904223u;
    v = static_cast<float>(state >> 8) / (1 << 24) - 0.5f;
  }
  return out;
}

}  // namespace troupe::testing
