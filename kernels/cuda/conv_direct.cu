// Device part of conv_launch.hpp: convolutions by their definition.
#include <troupe/kernels/cuda/conv_launch.hpp>
#include <troupe/kernels/cuda/element_types.cuh>
#include <troupe/kernels/cuda/launch.cuh>

namespace troupe {
namespace {

using device::Compute;
using device::kBlockThreads;
using device::widen;

struct Place {
  std::int64_t image, channel, at[3];
};

// Sizes of an image or result, to find elements.
struct Layout {
  std::int64_t channels, sizes[3];
  bool channels_first;

  __device__ std::int64_t pixel(const std::int64_t (&at)[3]) const {
    return (at[0] * sizes[1] + at[1]) * sizes[2] + at[2];
  }
  __device__ std::int64_t pixels() const { return sizes[0] * sizes[1] * sizes[2]; }
  __device__ std::int64_t element(std::int64_t image, std::int64_t channel, std::int64_t pixel) const {
    return channels_first ? (image * channels + channel) * pixels() + pixel
                          : (image * pixels() + pixel) * channels + channel;
  }
  __device__ Place place(std::int64_t element) const {
    Place out{};
    std::int64_t pixel = 0;
    if (channels_first) {
      pixel = element % pixels();
      out.channel = element / pixels() % channels;
    } else {
      out.channel = element % channels;
      pixel = element / channels % pixels();
    }
    out.image = element / (channels * pixels());
    out.at[2] = pixel % sizes[2];
    out.at[1] = pixel / sizes[2] % sizes[1];
    out.at[0] = pixel / (sizes[2] * sizes[1]);
    return out;
  }
};

struct Direct {
  DirectSizes s;
  Layout image, result;

  // A filter's element: [taps, in, out] or [out, in, taps].
  __device__ std::int64_t weight(std::int64_t tap, std::int64_t in, std::int64_t out) const {
    const std::int64_t taps = s.axes[0].kernel * s.axes[1].kernel * s.axes[2].kernel;
    return s.channels_first ? (out * s.group_in + in) * taps + tap : (tap * s.group_in + in) * result.channels + out;
  }
};

// Calls fn(tap, pixel of the image) for the elements of a window, in order.
template <class Fn>
__device__ inline void for_taps(const Direct& d, const std::int64_t (&window)[3], Fn fn) {
  const DirectAxis *z = &d.s.axes[0], *y = &d.s.axes[1], *x = &d.s.axes[2];
  std::int64_t tap = 0;
  for (std::int64_t kz = 0; kz < z->kernel; ++kz)
    for (std::int64_t ky = 0; ky < y->kernel; ++ky)
      for (std::int64_t kx = 0; kx < x->kernel; ++kx, ++tap) {
        const std::int64_t at[3] = {window[0] * z->stride - z->before + kz * z->dilation,
                                    window[1] * y->stride - y->before + ky * y->dilation,
                                    window[2] * x->stride - x->before + kx * x->dilation};
        if (at[0] < 0 || at[0] >= z->input || at[1] < 0 || at[1] >= y->input || at[2] < 0 || at[2] >= x->input)
          continue;
        fn(tap, d.image.pixel(at));
      }
}

// The window of which `at` is tap `k`; -1 if there is none.
__device__ inline std::int64_t window_of(const DirectAxis& axis, std::int64_t at, std::int64_t k) {
  const std::int64_t start = at + axis.before - k * axis.dilation;
  if (start < 0 || start % axis.stride != 0) return -1;
  const std::int64_t window = start / axis.stride;
  return window < axis.output ? window : -1;
}

__device__ inline std::int64_t thread_item() {
  return static_cast<std::int64_t>(blockIdx.x) * kBlockThreads + threadIdx.x;
}
__device__ inline std::int64_t thread_step() { return static_cast<std::int64_t>(gridDim.x) * kBlockThreads; }

template <class T>
__global__ void __launch_bounds__(kBlockThreads)
    direct_forward(Direct d, const T* x, const T* filter, T* y, std::int64_t count) {
  for (std::int64_t i = thread_item(); i < count; i += thread_step()) {
    const Place to = d.result.place(i);
    const std::int64_t first = to.channel / d.s.group_out * d.s.group_in;
    Compute<T> sum{0};
    for_taps(d, to.at, [&](std::int64_t tap, std::int64_t pixel) {
      for (std::int64_t c = 0; c < d.s.group_in; ++c)
        sum += widen(x[d.image.element(to.image, first + c, pixel)]) * widen(filter[d.weight(tap, c, to.channel)]);
    });
    y[i] = device::narrow<T>(sum);
  }
}

template <class T>
__global__ void __launch_bounds__(kBlockThreads)
    direct_backward_input(Direct d, const T* filter, const T* dy, T* dx, std::int64_t count) {
  for (std::int64_t i = thread_item(); i < count; i += thread_step()) {
    const Place to = d.image.place(i);
    const std::int64_t group = to.channel / d.s.group_in, in = to.channel % d.s.group_in;
    Compute<T> sum{0};
    std::int64_t tap = 0;
    for (std::int64_t kz = 0; kz < d.s.axes[0].kernel; ++kz)
      for (std::int64_t ky = 0; ky < d.s.axes[1].kernel; ++ky)
        for (std::int64_t kx = 0; kx < d.s.axes[2].kernel; ++kx, ++tap) {
          const std::int64_t window[3] = {window_of(d.s.axes[0], to.at[0], kz), window_of(d.s.axes[1], to.at[1], ky),
                                          window_of(d.s.axes[2], to.at[2], kx)};
          if (window[0] < 0 || window[1] < 0 || window[2] < 0) continue;
          const std::int64_t pixel = d.result.pixel(window);
          for (std::int64_t o = group * d.s.group_out; o < (group + 1) * d.s.group_out; ++o)
            sum += widen(dy[d.result.element(to.image, o, pixel)]) * widen(filter[d.weight(tap, in, o)]);
        }
    dx[i] = device::narrow<T>(sum);
  }
}

// An item for each (tap, input channel of the group, output channel).
template <class T>
__global__ void __launch_bounds__(kBlockThreads)
    direct_backward_filter(Direct d, const T* x, const T* dy, T* d_filter, std::int64_t count) {
  const DirectAxis *z = &d.s.axes[0], *y = &d.s.axes[1], *w = &d.s.axes[2];
  for (std::int64_t i = thread_item(); i < count; i += thread_step()) {
    const std::int64_t out = i % d.result.channels, in = i / d.result.channels % d.s.group_in,
                       tap = i / (d.result.channels * d.s.group_in);
    const std::int64_t kx = tap % w->kernel, ky = tap / w->kernel % y->kernel, kz = tap / (w->kernel * y->kernel);
    const std::int64_t channel = out / d.s.group_out * d.s.group_in + in;
    Compute<T> sum{0};
    for (std::int64_t n = 0; n < d.s.batch; ++n)
      for (std::int64_t oz = 0; oz < z->output; ++oz)
        for (std::int64_t oy = 0; oy < y->output; ++oy)
          for (std::int64_t ox = 0; ox < w->output; ++ox) {
            const std::int64_t at[3] = {oz * z->stride - z->before + kz * z->dilation,
                                        oy * y->stride - y->before + ky * y->dilation,
                                        ox * w->stride - w->before + kx * w->dilation};
            if (at[0] < 0 || at[0] >= z->input || at[1] < 0 || at[1] >= y->input || at[2] < 0 || at[2] >= w->input)
              continue;
            const std::int64_t window[3] = {oz, oy, ox};
            sum += widen(x[d.image.element(n, channel, d.image.pixel(at))]) *
                   widen(dy[d.result.element(n, out, d.result.pixel(window))]);
          }
    d_filter[d.weight(tap, in, out)] = device::narrow<T>(sum);
  }
}

Direct direct_of(const DirectSizes& s) {
  const DirectAxis *z = &s.axes[0], *y = &s.axes[1], *x = &s.axes[2];
  return {s,
          {s.groups * s.group_in, {z->input, y->input, x->input}, s.channels_first},
          {s.groups * s.group_out, {z->output, y->output, x->output}, s.channels_first}};
}
std::int64_t elements(const DirectSizes& s, std::int64_t channels, std::int64_t DirectAxis::*size) {
  return s.batch * s.groups * channels * s.axes[0].*size * s.axes[1].*size * s.axes[2].*size;
}
dim3 grid_of(std::int64_t count) { return dim3(device::blocks_for(count, kBlockThreads)); }

}  // namespace

cudaError_t launch_direct_forward(DType dtype, const DirectSizes& s, const void* x, const void* filter, void* y,
                                  cudaStream_t stream) {
  const std::int64_t count = elements(s, s.group_out, &DirectAxis::output);
  return device::dispatch(device::FloatElements{}, dtype, [&]<class T>() {
    return device::launch(direct_forward<T>, grid_of(count), dim3(kBlockThreads), stream, direct_of(s),
                          static_cast<const T*>(x), static_cast<const T*>(filter), static_cast<T*>(y), count);
  });
}

cudaError_t launch_direct_backward_input(DType dtype, const DirectSizes& s, const void* filter, const void* dy,
                                         void* dx, cudaStream_t stream) {
  const std::int64_t count = elements(s, s.group_in, &DirectAxis::input);
  return device::dispatch(device::FloatElements{}, dtype, [&]<class T>() {
    return device::launch(direct_backward_input<T>, grid_of(count), dim3(kBlockThreads), stream, direct_of(s),
                          static_cast<const T*>(filter), static_cast<const T*>(dy), static_cast<T*>(dx), count);
  });
}

cudaError_t launch_direct_backward_filter(DType dtype, const DirectSizes& s, const void* x, const void* dy,
                                          void* d_filter, cudaStream_t stream) {
  const std::int64_t count =
      s.axes[0].kernel * s.axes[1].kernel * s.axes[2].kernel * s.group_in * s.groups * s.group_out;
  return device::dispatch(device::FloatElements{}, dtype, [&]<class T>() {
    return device::launch(direct_backward_filter<T>, grid_of(count), dim3(kBlockThreads), stream, direct_of(s),
                          static_cast<const T*>(x), static_cast<const T*>(dy), static_cast<T*>(d_filter), count);
  });
}

}  // namespace troupe
