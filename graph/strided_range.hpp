// Ranges of indices as NumPy and ONNX define them: negative begins and ends count from the end, and those outside a
// dimension are clamped. Shared by shape functions and kernels.
#pragma once

#include <algorithm>
#include <cstdint>

#include <troupe/messages/error.hpp>

namespace troupe {

// Indices begin, begin + stride, ..., `count` of them, all inside the dimension.
struct StridedRange {
  std::int64_t begin = 0;
  std::int64_t stride = 1;
  std::int64_t count = 0;
};

// The indices [begin:end:stride] of a dimension of `size`. Throws invalid_argument for a stride of 0.
inline StridedRange strided_range(std::int64_t begin, std::int64_t end, std::int64_t stride, std::int64_t size) {
  if (stride == 0) invalid_argument("a stride is 0");
  const std::int64_t low = stride > 0 ? 0 : -1, high = stride > 0 ? size : size - 1;
  const auto clamped = [&](std::int64_t i) { return std::clamp(i < 0 ? i + size : i, low, high); };
  const std::int64_t from = clamped(begin), to = clamped(end);
  const std::int64_t distance = stride > 0 ? to - from : from - to;
  if (distance <= 0) return {0, stride, 0};
  const auto step = stride > 0 ? static_cast<std::uint64_t>(stride) : 0 - static_cast<std::uint64_t>(stride);
  return {from, stride, static_cast<std::int64_t>((static_cast<std::uint64_t>(distance) - 1) / step + 1)};
}

}  // namespace troupe
