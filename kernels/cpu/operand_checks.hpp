// Checks of operands for which integer ops are undefined.
#pragma once

#include <algorithm>

#include <troupe/messages/tensor.hpp>

namespace troupe {

// Throws invalid_argument if an integer of `b`, which divides those of `a`, is 0.
template <class T>
void check_divisor(const Tensor& a, const Tensor& b) {
  if (broadcast(a.shape(), b.shape()).num_elements() == 0) return;
  const auto values = b.values<T>();
  if (const auto it = std::ranges::find(values, T{0}); it != values.end())
    invalid_argument("integer division by zero: divisor {} of {} is 0", it - values.begin(), b.shape().to_string());
}

}  // namespace troupe
