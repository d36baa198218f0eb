// Sliding windows of convolution and pooling: their attributes, and sizes along spatial axes. Shared by shape
// functions, where sizes may be unknown, and kernels.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/graph/builder/padding.hpp>
#include <troupe/messages/attributes.hpp>
#include <troupe/messages/shape.hpp>

namespace troupe {

// Tap k of window o is at input position o * stride - before + k * dilation, if that exists.
struct WindowAxis {
  std::int64_t input = 1;
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t dilation = 1;
  std::int64_t output = 1;
  std::int64_t before = 0;  // padding
  std::int64_t after = 0;

  bool operator==(const WindowAxis&) const = default;
  std::int64_t reach() const { return (kernel - 1) * dilation + 1; }
  std::int64_t position(std::int64_t o, std::int64_t tap) const { return o * stride - before + tap * dilation; }
  // The taps of window o that exist: [first_tap, end_tap).
  std::int64_t first_tap(std::int64_t o) const {
    const std::int64_t start = o * stride - before;
    return start >= 0 ? 0 : (-start + dilation - 1) / dilation;
  }
  std::int64_t end_tap(std::int64_t o) const {
    const std::int64_t left = input - (o * stride - before);
    return left <= 0 ? 0 : std::min(kernel, (left + dilation - 1) / dilation);
  }
  // Input positions of a window that is not dilated: [begin, end).
  std::int64_t begin(std::int64_t o) const { return std::max<std::int64_t>(0, o * stride - before); }
  std::int64_t end(std::int64_t o) const { return std::min(input, o * stride - before + kernel); }
};

// Axes of every window op; those that an image of fewer dimensions lacks have size 1.
inline constexpr int kMaxSpatial = 3;

// The attributes that window ops share. An empty list has the default for each axis.
struct WindowOptions {
  std::vector<std::int64_t> kernel{};     // "ksize" of pools; a convolution has its filter's
  std::vector<std::int64_t> strides{};    // default 1
  std::vector<std::int64_t> dilations{};  // default 1
  Padding padding = Padding::valid;
  std::vector<std::int64_t> pads{};  // of Padding::explicit_pads: before each axis, then after each; default 0
  bool ceil_mode = false;            // with explicit pads: a last window may reach over the end
  DataFormat format = DataFormat::channels_last;

  bool channels_first() const { return format == DataFormat::channels_first; }
  // Of an image or result: the axes of channels, and the first of `spatial`.
  int channel_axis(int rank) const { return channels_first() ? 1 : rank - 1; }
  int spatial_axis() const { return channels_first() ? 2 : 1; }
};

// Reads those of "ksize", "strides", "dilations", "padding", "pads", "ceil_mode" and "data_format" that exist.
WindowOptions window_options(const Attributes& attributes);

// Throws invalid_argument unless the lists are for `spatial` axes, and their values from 1 (pads: 0) to 2^31 - 1.
void check_window_options(const WindowOptions& options, int spatial);

// Sizes along axis `axis` of `spatial`. With an unknown input or kernel, so is the output, and padding is not set.
// Throws invalid_argument for a kernel below 1 or above 2^31 - 1, and for a window that reaches over the padded input.
WindowAxis window_axis(const WindowOptions& options, int axis, int spatial, std::int64_t input, std::int64_t kernel);

// The axis whose output is `output`: of a transposed convolution, where that is given and `input` is the result, chosen
// by the options if it is kUnknown. Throws invalid_argument if `input` does not have that output.
WindowAxis transposed_axis(const WindowOptions& options, int axis, int spatial, std::int64_t output,
                           std::int64_t kernel, std::int64_t output_padding, std::int64_t input);

}  // namespace troupe
