// Sliding windows of convolution and pooling: sizes along one spatial axis.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include <troupe/graph/builder/padding.hpp>
#include <troupe/messages/attributes.hpp>

namespace troupe {

// Window o covers the input positions [o * stride - before, o * stride - before + kernel) that exist.
struct WindowAxis {
  std::int64_t input = 0;
  std::int64_t kernel = 0;
  std::int64_t stride = 1;
  std::int64_t output = 0;
  std::int64_t before = 0;  // padding
  std::int64_t after = 0;

  bool operator==(const WindowAxis&) const = default;
  std::int64_t begin(std::int64_t o) const { return std::max<std::int64_t>(0, o * stride - before); }
  std::int64_t end(std::int64_t o) const { return std::min(input, o * stride - before + kernel); }
};

// Throws invalid_argument for a kernel or stride below 1 or above 2^31 - 1, and for a VALID window larger than the
// input. `what` begins the message.
WindowAxis window_axis(std::string_view what, std::int64_t input, std::int64_t kernel, std::int64_t stride,
                       Padding padding);

// Parses "SAME" or "VALID"; throws invalid_argument for any other text.
Padding parse_padding(std::string_view text);

// Reads the attribute `name`, a list of two integers (height, width); throws invalid_argument for any other count.
std::array<std::int64_t, 2> pair_attribute(const Attributes& attributes, std::string_view name);

}  // namespace troupe
