// How a convolution is done on a GPU: plain functions, tested without one.
//
// Three ways, tried in this order:
//   product   1 x 1 windows at every pixel are matrix products of images as they lie: by cuBLASLt, without moving an
//             element
//   cudnn     by an engine of cuDNN's graph API, which takes images NHWC and filters as [out, height, width, in]: ours
//             [height, width, in, out] are transposed on the way (cuDNN takes strides of ours without a word, and names
//             the same engines; what they read then is not documented). Padding that differs between the two ends goes
//             to cuDNN as it is; where no engine has it, images are padded by a copy
//   unfolded  a row of a matrix for each window, and matrix products: f64, and what no engine of cuDNN does
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>

#include <troupe/kernels/common/conv_geometry.hpp>
#include <troupe/kernels/cuda/product_plan.hpp>

namespace troupe {

enum class ConvDirection : std::uint8_t { forward, backward_input, backward_filter };

// All that a plan of cuDNN is chosen by.
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

// Each pixel gives one result, of itself alone.
inline bool is_product(const ConvGeometry& g) {
  return g.rows.kernel == 1 && g.columns.kernel == 1 && g.rows.stride == 1 && g.columns.stride == 1;
}

// cuDNN counts in 32 bits here and there; no engine of f64 takes NHWC.
inline bool fits_cudnn(DType dtype, const ConvGeometry& g) {
  constexpr std::int64_t kLimit = std::int64_t{1} << 31;
  return dtype != DType::f64 && g.batch * g.image_size() < kLimit && g.batch * g.result_size() < kLimit &&
         g.filter_size() < kLimit;
}

inline bool pads_evenly(const ConvGeometry& g) {
  return g.rows.before == g.rows.after && g.columns.before == g.columns.after;
}

// The same convolution of an image that has its padding already.
inline ConvGeometry padded(ConvGeometry g) {
  for (WindowAxis* axis : {&g.rows, &g.columns}) {
    axis->input += axis->before + axis->after;
    axis->before = axis->after = 0;
  }
  return g;
}

// Rows of a matrix that has a row for each window, and elements of a row.
inline std::int64_t windows_of_image(const ConvGeometry& g) { return g.rows.output * g.columns.output; }

// Images that are unfolded at once: fixed by shapes, for about 256 MiB.
inline std::int64_t images_at_once(const ConvGeometry& g, std::size_t element_bytes) {
  constexpr std::int64_t kBytes = std::int64_t{256} << 20;
  const std::int64_t image = windows_of_image(g) * g.patch_size() * static_cast<std::int64_t>(element_bytes);
  return std::clamp<std::int64_t>(kBytes / std::max<std::int64_t>(1, image), 1, std::max<std::int64_t>(1, g.batch));
}

// Of memory that begins so many bytes after an aligned address.
inline std::uint32_t alignment_after(std::int64_t bytes) {
  constexpr std::int64_t kMost = kBufferAlignment;
  return static_cast<std::uint32_t>(bytes == 0 ? kMost : std::min(kMost, bytes & -bytes));
}

}  // namespace troupe

template <>
struct std::hash<troupe::ConvKey> {
  std::size_t operator()(const troupe::ConvKey& key) const {
    const troupe::WindowAxis &r = key.geometry.rows, &c = key.geometry.columns;
    return troupe::hash_of(key.direction, key.dtype, key.bias, key.relu, key.tf32, key.deterministic,
                           key.geometry.batch, key.geometry.in_channels, key.geometry.out_channels, r.input, r.kernel,
                           r.stride, r.output, r.before, c.input, c.kernel, c.stride, c.output, c.before);
  }
};
