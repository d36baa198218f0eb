#include "troupe/kernels/common/window.hpp"

#include <limits>
#include <utility>

#include <troupe/messages/error.hpp>

namespace troupe {

WindowAxis window_axis(std::string_view what, std::int64_t input, std::int64_t kernel, std::int64_t stride,
                       Padding padding) {
  constexpr std::int64_t kLimit = std::numeric_limits<std::int32_t>::max();
  if (kernel < 1 || kernel > kLimit || stride < 1 || stride > kLimit)
    invalid_argument("{}: window size {} and stride {} must both be from 1 to {}", what, kernel, stride, kLimit);
  WindowAxis axis{.input = input, .kernel = kernel, .stride = stride};
  if (padding == Padding::valid) {
    if (input < kernel)
      invalid_argument("{}: a VALID window of size {} does not fit an input of size {}; use SAME or a smaller window",
                       what, kernel, input);
    axis.output = (input - kernel) / stride + 1;
    return axis;
  }
  axis.output = input / stride + (input % stride != 0);
  const std::int64_t padded = input == 0 ? 0 : std::max<std::int64_t>(0, (axis.output - 1) * stride + kernel - input);
  axis.before = padded / 2;
  axis.after = padded - axis.before;
  return axis;
}

Padding parse_padding(std::string_view text) {
  static constexpr std::array<std::pair<std::string_view, Padding>, 2> kPaddings{
      {{"SAME", Padding::same}, {"VALID", Padding::valid}}};
  for (const auto& [name, padding] : kPaddings)
    if (text == name) return padding;
  invalid_argument("padding must be \"SAME\" or \"VALID\", not \"{}\"", text);
}

std::array<std::int64_t, 2> pair_attribute(const Attributes& attributes, std::string_view name) {
  const auto& values = attributes.integers(name);
  if (values.size() != 2)
    invalid_argument("attribute '{}' must have two integers (height, width), not {}", name, values.size());
  return {values[0], values[1]};
}

}  // namespace troupe
