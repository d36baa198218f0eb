// The arguments of Resize: its modes, and the size and scale of a resized dimension. Shape functions and kernels share
// it. All functions throw invalid_argument.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <string_view>

#include <troupe/messages/error.hpp>

namespace troupe {

enum class ResizeMode : std::uint8_t { nearest, linear, cubic };
enum class ResizeCoordinates : std::uint8_t {
  half_pixel,
  half_pixel_symmetric,
  pytorch_half_pixel,
  align_corners,
  asymmetric,
  tf_half_pixel_for_nn,
  tf_crop_and_resize,
};
enum class NearestMode : std::uint8_t { round_prefer_floor, round_prefer_ceil, floor, ceil };
enum class AspectPolicy : std::uint8_t { stretch, not_larger, not_smaller };

inline constexpr std::array<std::string_view, 3> kResizeModes{"nearest", "linear", "cubic"};
inline constexpr std::array<std::string_view, 7> kResizeCoordinates{
    "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
    "asymmetric", "tf_half_pixel_for_nn", "tf_crop_and_resize"};
inline constexpr std::array<std::string_view, 4> kNearestModes{"round_prefer_floor", "round_prefer_ceil", "floor",
                                                               "ceil"};
inline constexpr std::array<std::string_view, 3> kAspectPolicies{"stretch", "not_larger", "not_smaller"};

// The value of an enumeration from its name in one of these lists.
template <class Enum, std::size_t kCount>
Enum resize_choice(const std::array<std::string_view, kCount>& names, std::string_view attribute,
                   std::string_view text) {
  for (std::size_t i = 0; i < kCount; ++i)
    if (names[i] == text) return static_cast<Enum>(i);
  std::string all;
  for (const std::string_view name : names) all += (all.empty() ? "" : ", ") + std::string(name);
  invalid_argument("'{}' is '{}', but must be one of {}", attribute, text, all);
}

struct ResizedDim {
  std::int64_t size = 0;
  double scale = 1;  // need not be size / size before
};

// ONNX: floor(size * scale), computed in floats.
inline ResizedDim resized_by_scale(std::int64_t size, float scale) {
  if (!(scale > 0)) invalid_argument("a scale is {}, but must be positive", scale);
  const float product = std::floor(static_cast<float>(size) * scale);
  if (!(product < 0x1p62f)) invalid_argument("{} times {} is too large for a dimension", size, scale);
  return {scale == 1 ? size : static_cast<std::int64_t>(product), scale};
}

// Dimensions `sizes` resized to `wanted`: exactly, or so that their proportions stay and none is larger, or none
// smaller.
inline void resize_to(std::span<const std::int64_t> sizes, std::span<const std::int64_t> wanted, AspectPolicy policy,
                      std::span<ResizedDim> out) {
  double common = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (wanted[i] < 0) invalid_argument("a size is {}: it must not be negative", wanted[i]);
    const double scale = sizes[i] == 0 ? 1 : static_cast<double>(wanted[i]) / static_cast<double>(sizes[i]);
    out[i] = {wanted[i], scale};
    if (i == 0 || (policy == AspectPolicy::not_larger ? scale < common : scale > common)) common = scale;
  }
  if (policy == AspectPolicy::stretch) return;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const double size = std::floor(common * static_cast<double>(sizes[i]) + 0.5);
    if (!(size < 0x1p62)) invalid_argument("{} times {} is too large for a dimension", sizes[i], common);
    out[i] = {static_cast<std::int64_t>(size), common};
  }
}

}  // namespace troupe
