// Convolution by matrix products: an image is unfolded into a matrix with one row per window ("im2col"; Chellapilla et
// al., "High performance convolutional neural networks for document processing", 2006).
#include <algorithm>
#include <vector>

#include <troupe/kernels/cpu/conv_parts.hpp>
#include <troupe/kernels/cpu/gemm.hpp>

namespace troupe {
namespace {

// Calls fn(image row or -1 if outside, likewise the column, offset in `patches`) for every tap of every window.
template <class Fn>
void for_each_tap(const ConvGeometry& g, Fn fn) {
  std::int64_t at = 0;
  for (std::int64_t oy = 0; oy < g.rows.output; ++oy)
    for (std::int64_t ox = 0; ox < g.columns.output; ++ox)
      for (std::int64_t ky = 0; ky < g.rows.kernel; ++ky)
        for (std::int64_t kx = 0; kx < g.columns.kernel; ++kx, at += g.in_channels) {
          const std::int64_t y = oy * g.rows.stride - g.rows.before + ky;
          const std::int64_t x = ox * g.columns.stride - g.columns.before + kx;
          const bool inside = y >= 0 && y < g.rows.input && x >= 0 && x < g.columns.input;
          fn(inside ? (y * g.columns.input + x) * g.in_channels : -1, at);
        }
}

std::vector<double> unfold_buffer(const ConvGeometry& g) {
  return std::vector<double>(static_cast<std::size_t>(g.rows.output * g.columns.output * g.patch_size()));
}

void unfold(const ConvGeometry& g, const double* image, double* patches) {
  for_each_tap(g, [&](std::int64_t pixel, std::int64_t at) {
    if (pixel < 0)
      std::fill_n(patches + at, g.in_channels, 0.0);
    else
      std::copy_n(image + pixel, g.in_channels, patches + at);
  });
}

void fold(const ConvGeometry& g, const double* patches, double* image) {
  std::fill_n(image, g.image_size(), 0.0);
  for_each_tap(g, [&](std::int64_t pixel, std::int64_t at) {
    if (pixel < 0) return;
    for (std::int64_t c = 0; c < g.in_channels; ++c) image[pixel + c] += patches[at + c];
  });
}

}  // namespace

void conv_forward(const ConvGeometry& g, const double* x, const double* filter, double* y) {
  std::vector<double> patches = unfold_buffer(g);
  for (std::int64_t i = 0; i < g.batch; ++i) {
    unfold(g, x + i * g.image_size(), patches.data());
    gemm<double>(g.rows.output * g.columns.output, g.out_channels, g.patch_size(), {patches.data(), g.patch_size()},
                 {filter, g.out_channels}, y + i * g.result_size(), g.out_channels);
  }
}

void conv_backward_input(const ConvGeometry& g, const double* filter, const double* dy, double* dx) {
  std::vector<double> patches = unfold_buffer(g);
  for (std::int64_t i = 0; i < g.batch; ++i) {
    gemm<double>(g.rows.output * g.columns.output, g.patch_size(), g.out_channels,
                 {dy + i * g.result_size(), g.out_channels}, {filter, g.out_channels, true}, patches.data(),
                 g.patch_size());
    fold(g, patches.data(), dx + i * g.image_size());
  }
}

void conv_backward_filter(const ConvGeometry& g, const double* x, const double* dy, double* d_filter) {
  std::vector<double> patches = unfold_buffer(g);
  for (std::int64_t i = 0; i < g.batch; ++i) {
    unfold(g, x + i * g.image_size(), patches.data());
    gemm<double>(g.patch_size(), g.out_channels, g.rows.output * g.columns.output,
                 {patches.data(), g.patch_size(), true}, {dy + i * g.result_size(), g.out_channels}, d_filter,
                 g.out_channels, i > 0);
  }
}

}  // namespace troupe
