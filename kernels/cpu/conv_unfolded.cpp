// Convolution by matrix products: an image is unfolded into a matrix with one row per window ("im2col"; Chellapilla et
// al., "High performance convolutional neural networks for document processing", 2006), for one group of channels at a
// time. Rows are in the order of the filter: [taps, in / groups], or [in / groups, taps] with channels first.
#include <algorithm>
#include <vector>

#include <troupe/kernels/cpu/conv_parts.hpp>
#include <troupe/kernels/cpu/gemm.hpp>

namespace troupe {
namespace {

// Calls fn(window, tap, pixel of the image or -1 if outside) for every tap of every window.
template <class Fn>
void for_each_tap(const ConvGeometry& g, Fn fn) {
  const auto inside = [](const WindowAxis& axis, std::int64_t at) { return at >= 0 && at < axis.input; };
  std::int64_t window = 0;
  for (std::int64_t oz = 0; oz < g.depth.output; ++oz)
    for (std::int64_t oy = 0; oy < g.rows.output; ++oy)
      for (std::int64_t ox = 0; ox < g.columns.output; ++ox, ++window) {
        std::int64_t tap = 0;
        for (std::int64_t kz = 0; kz < g.depth.kernel; ++kz)
          for (std::int64_t ky = 0; ky < g.rows.kernel; ++ky)
            for (std::int64_t kx = 0; kx < g.columns.kernel; ++kx, ++tap) {
              const std::int64_t z = g.depth.position(oz, kz), y = g.rows.position(oy, ky),
                                 x = g.columns.position(ox, kx);
              const bool in = inside(g.depth, z) && inside(g.rows, y) && inside(g.columns, x);
              fn(window, tap, in ? (z * g.rows.input + y) * g.columns.input + x : -1);
            }
      }
}

// Where channel c of a pixel or tap is: at * step + c * channel_step.
struct UnfoldSteps {
  std::int64_t pixel, pixel_channel, tap, tap_channel, group;
};
UnfoldSteps steps_of(const ConvGeometry& g) {
  if (g.channels_first)
    return {.pixel = 1,
            .pixel_channel = g.image_pixels(),
            .tap = 1,
            .tap_channel = g.taps(),
            .group = g.group_in() * g.image_pixels()};
  return {.pixel = g.in_channels, .pixel_channel = 1, .tap = g.group_in(), .tap_channel = 1, .group = g.group_in()};
}

template <class T>
void unfold(const ConvGeometry& g, const T* image, T* patches) {
  const UnfoldSteps s = steps_of(g);
  const std::int64_t channels = g.group_in(), size = g.patch_size();
  for_each_tap(g, [&](std::int64_t window, std::int64_t tap, std::int64_t pixel) {
    T* const to = patches + window * size + tap * s.tap;
    const T* const from = image + std::max<std::int64_t>(0, pixel) * s.pixel;
    for (std::int64_t c = 0; c < channels; ++c) to[c * s.tap_channel] = pixel < 0 ? T{0} : from[c * s.pixel_channel];
  });
}

// Adds patches to an image.
template <class T>
void fold(const ConvGeometry& g, const T* patches, T* image) {
  const UnfoldSteps s = steps_of(g);
  const std::int64_t channels = g.group_in(), size = g.patch_size();
  for_each_tap(g, [&](std::int64_t window, std::int64_t tap, std::int64_t pixel) {
    if (pixel < 0) return;
    const T* const from = patches + window * size + tap * s.tap;
    T* const to = image + pixel * s.pixel;
    for (std::int64_t c = 0; c < channels; ++c) to[c * s.pixel_channel] += from[c * s.tap_channel];
  });
}

// Calls fn(image, group) for every group of every image.
template <class Fn>
void for_each_group(const ConvGeometry& g, Fn fn) {
  for (std::int64_t i = 0; i < g.batch; ++i)
    for (std::int64_t group = 0; group < g.groups; ++group) fn(i, group);
}

template <class T>
std::vector<T> unfold_buffer(const ConvGeometry& g) {
  return std::vector<T>(static_cast<std::size_t>(g.windows() * g.patch_size()));
}

// Offsets of a group in a result and in a filter.
std::int64_t result_group(const ConvGeometry& g) { return g.group_out() * (g.channels_first ? g.windows() : 1); }
std::int64_t filter_group(const ConvGeometry& g) { return g.group_out() * (g.channels_first ? g.patch_size() : 1); }

}  // namespace

template <class T>
void unfolded_forward(const ConvGeometry& g, const T* x, const T* filter, T* y) {
  std::vector<T> patches = unfold_buffer<T>(g);
  const std::int64_t patch = g.patch_size(), windows = g.windows(), out = g.group_out();
  for_each_group(g, [&](std::int64_t i, std::int64_t group) {
    unfold(g, x + i * g.image_size() + group * steps_of(g).group, patches.data());
    const T* const f = filter + group * filter_group(g);
    T* const to = y + i * g.result_size() + group * result_group(g);
    if (g.channels_first)
      gemm<T>(out, windows, patch, {f, patch}, {patches.data(), patch, true}, to, windows);
    else
      gemm<T>(windows, out, patch, {patches.data(), patch}, {f, g.out_channels}, to, g.out_channels);
  });
}

template <class T>
void unfolded_backward_input(const ConvGeometry& g, const T* filter, const T* dy, T* dx) {
  std::vector<T> patches = unfold_buffer<T>(g);
  const std::int64_t patch = g.patch_size(), windows = g.windows(), out = g.group_out();
  std::fill_n(dx, g.batch * g.image_size(), T{0});
  for_each_group(g, [&](std::int64_t i, std::int64_t group) {
    const T* const f = filter + group * filter_group(g);
    const T* const from = dy + i * g.result_size() + group * result_group(g);
    if (g.channels_first)
      gemm<T>(windows, patch, out, {from, windows, true}, {f, patch}, patches.data(), patch);
    else
      gemm<T>(windows, patch, out, {from, g.out_channels}, {f, g.out_channels, true}, patches.data(), patch);
    fold(g, patches.data(), dx + i * g.image_size() + group * steps_of(g).group);
  });
}

template <class T>
void unfolded_backward_filter(const ConvGeometry& g, const T* x, const T* dy, T* d_filter) {
  std::vector<T> patches = unfold_buffer<T>(g);
  const std::int64_t patch = g.patch_size(), windows = g.windows(), out = g.group_out();
  for_each_group(g, [&](std::int64_t i, std::int64_t group) {
    unfold(g, x + i * g.image_size() + group * steps_of(g).group, patches.data());
    const T* const from = dy + i * g.result_size() + group * result_group(g);
    T* const to = d_filter + group * filter_group(g);
    if (g.channels_first)
      gemm<T>(out, patch, windows, {from, windows}, {patches.data(), patch}, to, patch, i > 0);
    else
      gemm<T>(patch, out, windows, {patches.data(), patch, true}, {from, g.out_channels}, to, g.out_channels, i > 0);
  });
}

template void unfolded_forward(const ConvGeometry&, const float*, const float*, float*);
template void unfolded_backward_input(const ConvGeometry&, const float*, const float*, float*);
template void unfolded_backward_filter(const ConvGeometry&, const float*, const float*, float*);

void conv_forward(const ConvGeometry& g, const double* x, const double* filter, double* y, KeptLayout* /*kept*/) {
  unfolded_forward(g, x, filter, y);
}
void conv_backward_input(const ConvGeometry& g, const double* filter, const double* dy, double* dx) {
  unfolded_backward_input(g, filter, dy, dx);
}
void conv_backward_filter(const ConvGeometry& g, const double* x, const double* dy, double* d_filter) {
  unfolded_backward_filter(g, x, dy, d_filter);
}

}  // namespace troupe
