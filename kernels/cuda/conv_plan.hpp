// Choice of a convolution algorithm on a GPU: plain functions, testable without a GPU.
//
// Ways, tried in this order:
//   product   1 x 1 windows with stride 1 are matrix products of the images in place: by cuBLASLt, without a copy
//   cudnn     by an engine of cuDNN's graph API. It takes images NHWC and filters [out, height, width, in]; ours
//             [height, width, in, out] are transposed first (cuDNN silently accepts our strides and lists the same
//             engines, but what they then read is undocumented). Asymmetric padding is passed to cuDNN; if no engine
//             supports it, a copy pads the images
//   unfolded  a matrix with one row per window, then matrix products: for f64 and convolutions without an engine; with
//             groups, dilations, three dimensions or channels first instead by their definition, one thread per element
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>

#include <troupe/kernels/common/conv_geometry.hpp>
#include <troupe/kernels/cuda/product_plan.hpp>

namespace troupe {

enum class ConvDirection : std::uint8_t { forward, backward_input, backward_filter };

// Everything that the choice of a cuDNN plan depends on.
struct ConvKey {
  ConvDirection direction = ConvDirection::forward;
  DType dtype = DType::invalid;
  bool bias = false;  // added to the result; forward only
  bool relu = false;
  bool tf32 = false;
  bool deterministic = true;
  ConvGeometry geometry;

  bool operator==(const ConvKey&) const = default;
};

// True if each pixel alone determines one result.
inline bool is_product(const ConvGeometry& g) {
  const auto alone = [](const WindowAxis& a) {
    return a.kernel == 1 && a.stride == 1 && a.before == 0 && a.after == 0;
  };
  return g.groups == 1 && !g.channels_first && alone(g.depth) && alone(g.rows) && alone(g.columns);
}
// True if unfolded images do it; otherwise kernels that follow the definition do.
inline bool unfolds(const ConvGeometry& g) { return g.plain() && !g.dilated(); }

// cuDNN uses 32-bit counts in places; no f64 engine takes NHWC.
inline bool fits_cudnn(DType dtype, const ConvGeometry& g) {
  constexpr std::int64_t kLimit = std::int64_t{1} << 31;
  return dtype != DType::f64 && g.batch * g.image_size() < kLimit && g.batch * g.result_size() < kLimit &&
         g.filter_size() < kLimit;
}

inline bool pads_evenly(const ConvGeometry& g) {
  return g.depth.before == g.depth.after && g.rows.before == g.rows.after && g.columns.before == g.columns.after;
}

// The same convolution of an already padded image.
inline ConvGeometry padded(ConvGeometry g) {
  for (WindowAxis* axis : {&g.rows, &g.columns}) {
    axis->input += axis->before + axis->after;
    axis->before = axis->after = 0;
  }
  return g;
}

// Rows per image of the matrix with one row per window, and elements per row.
inline std::int64_t windows_of_image(const ConvGeometry& g) { return g.windows(); }

// Images unfolded at once: depends only on shapes, targets about 256 MiB.
inline std::int64_t images_at_once(const ConvGeometry& g, std::size_t element_bytes) {
  constexpr std::int64_t kBytes = std::int64_t{256} << 20;
  const std::int64_t image = windows_of_image(g) * g.patch_size() * static_cast<std::int64_t>(element_bytes);
  return std::clamp<std::int64_t>(kBytes / std::max<std::int64_t>(1, image), 1, std::max<std::int64_t>(1, g.batch));
}

// Alignment of memory that starts `bytes` bytes after an aligned address.
inline std::uint32_t alignment_after(std::int64_t bytes) {
  constexpr std::int64_t kMost = kBufferAlignment;
  return static_cast<std::uint32_t>(bytes == 0 ? kMost : std::min(kMost, bytes & -bytes));
}

}  // namespace troupe

template <>
struct std::hash<troupe::ConvKey> {
  std::size_t operator()(const troupe::ConvKey& key) const {
    const troupe::WindowAxis &d = key.geometry.depth, &r = key.geometry.rows, &c = key.geometry.columns;
    return troupe::hash_of(key.direction, key.dtype, key.bias, key.relu, key.tf32, key.deterministic,
                           key.geometry.batch, key.geometry.in_channels, key.geometry.out_channels, r.input, r.kernel,
                           r.stride, r.output, r.before, c.input, c.kernel, c.stride, c.output, c.before, d.input,
                           d.kernel, d.stride, d.before, d.dilation, r.dilation, c.dilation, key.geometry.groups,
                           key.geometry.channels_first);
  }
};
