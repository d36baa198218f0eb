#include "troupe/kernels/cpu/pool.hpp"

#include <algorithm>
#include <limits>
#include <type_traits>

#include <troupe/kernels/common/tensor_checks.hpp>
#include <troupe/kernels/cpu/families.hpp>
#include <troupe/kernels/cpu/low_precision.hpp>
#include <troupe/kernels/cpu/scratch.hpp>
#include <troupe/kernels/cpu/typed_kernels.hpp>

namespace troupe {
namespace {

// Minimum input elements per part.
constexpr std::int64_t kPartElements = std::int64_t{1} << 14;

// Positions along an axis: begin, begin + step, ... below end.
struct Positions {
  std::int64_t begin, end, step;
  bool pair() const { return end - begin == 2 && step == 1; }
};
Positions positions_of(const WindowAxis& axis, std::int64_t o) {
  if (axis.dilation == 1) return {axis.begin(o), axis.end(o), 1};
  return {axis.position(o, axis.first_tap(o)), axis.position(o, axis.end_tap(o) - 1) + 1, axis.dilation};
}
struct Window {
  Positions depth, rows, columns;
};

// Calls fn(offset of the pixel in its image) for each element of a window, in row-major order.
template <class Fn>
void for_elements(const PoolGeometry& g, const Window& w, Fn fn) {
  for (std::int64_t z = w.depth.begin; z < w.depth.end; z += w.depth.step)
    for (std::int64_t y = w.rows.begin; y < w.rows.end; y += w.rows.step)
      for (std::int64_t x = w.columns.begin; x < w.columns.end; x += w.columns.step) fn(g.pixel(z, y, x));
}

// Calls fn(offset of the result pixel in its image, window) for every window of one image.
template <class Fn>
void for_each_window(const PoolGeometry& g, Fn fn) {
  std::int64_t at = 0;
  for (std::int64_t z = 0; z < g.depth.output; ++z)
    for (std::int64_t y = 0; y < g.rows.output; ++y) {
      const Positions depth = positions_of(g.depth, z), rows = positions_of(g.rows, y);
      for (std::int64_t x = 0; x < g.columns.output; ++x, at += g.channels)
        fn(at, Window{depth, rows, positions_of(g.columns, x)});
    }
}

// Images of one channel, where the windows of a row take the place of channels: calls begin(offset of the row of
// results, z, y), then tap(offset of the row, first window, number of windows, offset in the image of the first's
// element) for each tap, in row-major order, and end(...) as begin.
template <class Begin, class Tap, class End>
void for_each_row(const PoolGeometry& g, Begin begin, Tap tap, End end) {
  const WindowAxis& w = g.columns;
  std::int64_t at = 0;
  for (std::int64_t z = 0; z < g.depth.output; ++z)
    for (std::int64_t y = 0; y < g.rows.output; ++y, at += w.output) {
      begin(at, z, y);
      const Positions depth = positions_of(g.depth, z), rows = positions_of(g.rows, y);
      for (std::int64_t iz = depth.begin; iz < depth.end; iz += depth.step)
        for (std::int64_t iy = rows.begin; iy < rows.end; iy += rows.step)
          for (std::int64_t k = 0; k < w.kernel; ++k) {
            const std::int64_t shift = k * w.dilation - w.before;  // position of window 0's element
            const std::int64_t first = shift >= 0 ? 0 : (-shift + w.stride - 1) / w.stride;
            const std::int64_t last = w.input <= shift ? 0 : std::min(w.output, (w.input - 1 - shift) / w.stride + 1);
            if (first < last) tap(at, first, last - first, g.pixel(iz, iy, first * w.stride + shift));
          }
      end(at, z, y);
    }
}

// Calls fn(integral constant of the stride, or the stride): loops with stride 1 or 2 get code of their own.
template <class Fn>
void with_stride(std::int64_t stride, Fn fn) {
  if (stride == 1) return fn(std::integral_constant<std::int64_t, 1>{});
  if (stride == 2) return fn(std::integral_constant<std::int64_t, 2>{});
  fn(stride);
}

// Loops over channels, written so that the compiler can vectorise them.
template <class T>
void take_larger(const T* __restrict x, T* __restrict best, std::int64_t n) {
  for (std::int64_t c = 0; c < n; ++c) best[c] = ((x[c] > best[c]) | (x[c] != x[c])) ? x[c] : best[c];
}
template <class T, class Stride>
void take_larger(const T* __restrict x, Stride step, T* __restrict best, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    const T value = x[i * step];
    best[i] = ((value > best[i]) | (value != value)) ? value : best[i];
  }
}
template <class T>
void add(const T* __restrict x, T* __restrict sum, std::int64_t n) {
  for (std::int64_t c = 0; c < n; ++c) sum[c] += x[c];
}
// Moves the remaining dy to the channels where x is the maximum.
template <class T>
void give_to_maximum(const T* __restrict x, const T* __restrict y, T* __restrict left, T* __restrict dx,
                     std::int64_t n) {
  for (std::int64_t c = 0; c < n; ++c) {
    const bool hit = (x[c] == y[c]) | (x[c] != x[c]);
    dx[c] += hit ? left[c] : T{0};
    left[c] = hit ? T{0} : left[c];
  }
}

// Windows of 2 x 2, the common case, in one pass: the same comparisons in the same order.
template <class T>
T larger(T x, T best) {
  return ((x > best) | (x != x)) ? x : best;
}
template <class T>
void max_of_four(const T* __restrict top, const T* __restrict bottom, std::int64_t n, T* __restrict y) {
  for (std::int64_t c = 0; c < n; ++c)
    y[c] = larger(bottom[n + c], larger(bottom[c], larger(top[n + c], larger(top[c], top[c]))));
}
// Writes dx where give_to_maximum adds to it, so windows must not overlap.
template <class T>
void give_to_first_of_four(const T* __restrict top, const T* __restrict bottom, const T* __restrict y,
                           const T* __restrict dy, std::int64_t n, T* __restrict dx_top, T* __restrict dx_bottom) {
  const auto take = [](T x, T maximum, T& left) {
    const bool hit = (x == maximum) | (x != x);
    const T given = hit ? left : T{0};
    left = hit ? T{0} : left;
    return given;
  };
  for (std::int64_t c = 0; c < n; ++c) {
    T left = dy[c];
    dx_top[c] = take(top[c], y[c], left);
    dx_top[n + c] = take(top[n + c], y[c], left);
    dx_bottom[c] = take(bottom[c], y[c], left);
    dx_bottom[n + c] = take(bottom[n + c], y[c], left);
  }
}

template <class T>
constexpr T kLowest = -std::numeric_limits<T>::infinity();

template <class T>
void max_rows(const PoolGeometry& g, const T* x, T* y) {
  with_stride(g.columns.stride, [&](auto stride) {
    for_each_row(
        g, [&](std::int64_t at, auto...) { std::fill_n(y + at, g.columns.output, kLowest<T>); },
        [&](std::int64_t at, std::int64_t first, std::int64_t n, std::int64_t from) {
          take_larger(x + from, stride, y + at + first, n);
        },
        [](auto...) {});
  });
}

template <class T>
void max_image(const PoolGeometry& g, const T* x, T* y) {
  for_each_window(g, [&](std::int64_t at, const Window& w) {
    const std::int64_t corner = g.pixel(w.depth.begin, w.rows.begin, w.columns.begin);
    if (w.rows.pair() && w.columns.pair() && w.depth.end - w.depth.begin == 1)
      return max_of_four(x + corner, x + corner + g.pixel(1, 0), g.channels, y + at);
    std::fill_n(y + at, g.channels, kLowest<T>);
    for_elements(g, w, [&](std::int64_t pixel) { take_larger(x + pixel, y + at, g.channels); });
  });
}

// Numbers that the sums of a row's windows are divided by, at least 1.
class Counts {
 public:
  explicit Counts(const PoolGeometry& g, Divisor divisor) : geometry_(g), divisor_(divisor) {}
  std::int64_t rows(std::int64_t z, std::int64_t y) const {
    return taps_counted(geometry_.depth, divisor_, z) * taps_counted(geometry_.rows, divisor_, y);
  }
  std::int64_t column(std::int64_t x) const { return taps_counted(geometry_.columns, divisor_, x); }

 private:
  const PoolGeometry& geometry_;
  Divisor divisor_;
};

template <class T>
void avg_rows(const PoolGeometry& g, Divisor divisor, const T* x, T* y) {
  const Counts counts(g, divisor);
  with_stride(g.columns.stride, [&](auto stride) {
    for_each_row(
        g, [&](std::int64_t at, auto...) { std::fill_n(y + at, g.columns.output, T{0}); },
        [&](std::int64_t at, std::int64_t first, std::int64_t n, std::int64_t from) {
          const T* const values = x + from;
          T* const sums = y + at + first;
          for (std::int64_t i = 0; i < n; ++i) sums[i] += values[i * stride];
        },
        [&](std::int64_t at, std::int64_t oz, std::int64_t oy) {
          const std::int64_t rows = counts.rows(oz, oy);
          for (std::int64_t o = 0; o < g.columns.output; ++o)
            y[at + o] /= static_cast<T>(std::max<std::int64_t>(1, rows * counts.column(o)));
        });
  });
}

// Calls fn(offset of the result pixel, window, what its sum is divided by).
template <class Fn>
void for_counted_windows(const PoolGeometry& g, Divisor divisor, Fn fn) {
  const Counts counts(g, divisor);
  std::int64_t at = 0;
  for (std::int64_t z = 0; z < g.depth.output; ++z)
    for (std::int64_t y = 0; y < g.rows.output; ++y) {
      const Positions depth = positions_of(g.depth, z), rows = positions_of(g.rows, y);
      const std::int64_t of_rows = counts.rows(z, y);
      for (std::int64_t x = 0; x < g.columns.output; ++x, at += g.channels)
        fn(at, Window{depth, rows, positions_of(g.columns, x)}, std::max<std::int64_t>(1, of_rows * counts.column(x)));
    }
}

template <class T>
void avg_image(const PoolGeometry& g, Divisor divisor, const T* x, T* y) {
  for_counted_windows(g, divisor, [&](std::int64_t at, const Window& w, std::int64_t count) {
    std::fill_n(y + at, g.channels, T{0});
    for_elements(g, w, [&](std::int64_t pixel) { add(x + pixel, y + at, g.channels); });
    const auto divided = static_cast<T>(count);
    for (std::int64_t c = 0; c < g.channels; ++c) y[at + c] /= divided;
  });
}

// Returns whether 2 x 2 windows cover every element exactly once.
bool tiled_by_two(const PoolGeometry& g) {
  const auto tiled = [](const WindowAxis& axis) {
    return axis.kernel == 2 && axis.stride == 2 && axis.dilation == 1 && axis.before == 0 &&
           axis.output * 2 == axis.input;
  };
  return tiled(g.rows) && tiled(g.columns) && g.depth == WindowAxis{};
}

template <class T>
void max_grad_rows(const PoolGeometry& g, const T* x, const T* y, const T* dy, T* dx) {
  std::fill_n(dx, g.image_size(), T{0});
  const ScratchArray<T> rest(g.columns.output);
  with_stride(g.columns.stride, [&](auto stride) {
    for_each_row(
        g, [&](std::int64_t at, auto...) { std::copy_n(dy + at, g.columns.output, rest.data()); },
        [&](std::int64_t at, std::int64_t first, std::int64_t n, std::int64_t from) {
          const T *const values = x + from, *const maxima = y + at + first;
          T *const left = rest.data() + first, *const to = dx + from;
          for (std::int64_t i = 0; i < n; ++i) {
            const T value = values[i * stride];
            const bool hit = (value == maxima[i]) | (value != value);
            to[i * stride] += hit ? left[i] : T{0};
            left[i] = hit ? T{0} : left[i];
          }
        },
        [](auto...) {});
  });
}

template <class T>
void max_grad_image(const PoolGeometry& g, const T* x, const T* y, const T* dy, T* dx) {
  if (tiled_by_two(g))
    return for_each_window(g, [&](std::int64_t at, const Window& w) {
      const std::int64_t upper = g.pixel(w.rows.begin, w.columns.begin), lower = upper + g.pixel(1, 0);
      give_to_first_of_four(x + upper, x + lower, y + at, dy + at, g.channels, dx + upper, dx + lower);
    });
  std::fill_n(dx, g.image_size(), T{0});
  const ScratchArray<T> rest(g.channels);
  for_each_window(g, [&](std::int64_t at, const Window& w) {
    std::copy_n(dy + at, g.channels, rest.data());
    for_elements(g, w,
                 [&](std::int64_t pixel) { give_to_maximum(x + pixel, y + at, rest.data(), dx + pixel, g.channels); });
  });
}

template <class T>
void avg_grad_rows(const PoolGeometry& g, Divisor divisor, const T* dy, T* dx) {
  std::fill_n(dx, g.image_size(), T{0});
  const Counts counts(g, divisor);
  const ScratchArray<T> share(g.columns.output);
  with_stride(g.columns.stride, [&](auto stride) {
    for_each_row(
        g,
        [&](std::int64_t at, std::int64_t oz, std::int64_t oy) {
          const std::int64_t rows = counts.rows(oz, oy);
          for (std::int64_t o = 0; o < g.columns.output; ++o)
            share[o] = dy[at + o] / static_cast<T>(std::max<std::int64_t>(1, rows * counts.column(o)));
        },
        [&](std::int64_t, std::int64_t first, std::int64_t n, std::int64_t from) {
          const T* const given = share.data() + first;
          T* const to = dx + from;
          for (std::int64_t i = 0; i < n; ++i) to[i * stride] += given[i];
        },
        [](auto...) {});
  });
}

template <class T>
void avg_grad_image(const PoolGeometry& g, Divisor divisor, const T* dy, T* dx) {
  std::fill_n(dx, g.image_size(), T{0});
  const ScratchArray<T> share(g.channels);
  for_counted_windows(g, divisor, [&](std::int64_t at, const Window& w, std::int64_t count) {
    const auto divided = static_cast<T>(count);
    for (std::int64_t c = 0; c < g.channels; ++c) share[c] = dy[at + c] / divided;
    for_elements(g, w, [&](std::int64_t pixel) { add(share.data(), dx + pixel, g.channels); });
  });
}

// Calls image(i) for every image.
template <class Fn>
void for_images(Parallelism& parallelism, const PoolGeometry& g, Fn image) {
  const std::int64_t grain = std::max<std::int64_t>(1, kPartElements / std::max<std::int64_t>(1, g.image_size()));
  parallelism.parallel_for(g.batch, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) image(i);
  });
}

// The type of pooled values: float for 8 and 16 bits.
template <class T>
using Wide = std::conditional_t<(sizeof(T) < 4), float, T>;

// Integers of 8 bits are exact in float; -infinity is their lowest.
template <class T>
requires std::is_integral_v<T>
void widen(const T* from, float* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(from[i]);
}
template <class T>
requires std::is_integral_v<T>
void narrow(const float* from, T* to, std::int64_t count) {
  constexpr auto kLeast = static_cast<float>(std::numeric_limits<T>::lowest());
  for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(from[i] < kLeast ? kLeast : from[i]);
}

// An image in its wide type, in scratch memory.
template <class T>
class Image {
 public:
  Image(const T* from, std::int64_t size) : memory_(kNarrow ? size : 0) {
    if constexpr (kNarrow) {
      widen(from, memory_.data(), size);
      data_ = memory_.data();
    } else {
      data_ = from;
    }
  }
  const Wide<T>* data() const { return data_; }

 private:
  static constexpr bool kNarrow = !std::is_same_v<T, Wide<T>>;
  ScratchArray<Wide<T>> memory_;
  const Wide<T>* data_;
};

// Calls fill(memory for a float image) and rounds the result.
template <class T, class Fill>
void write_image(T* to, std::int64_t size, Fill fill) {
  if constexpr (std::is_same_v<T, Wide<T>>) {
    fill(to);
  } else {
    const ScratchArray<float> values(size);
    fill(values.data());
    narrow(values.data(), to, size);
  }
}

using Forward = void (*)(Parallelism&, const Tensor&, const PoolAttributes&, Tensor&);

KernelFactory forward(Forward function) {
  return [function](const KernelInit& init) -> Kernel {
    return [function, options = pool_attributes(init.attributes)](KernelContext& ctx) {
      const Tensor& x = ctx.input(0);
      Tensor y = ctx.allocate(x.dtype(), pool_shape(x.shape(), options));
      function(ctx.parallelism(), x, options, y);
      ctx.set_output(0, std::move(y));
    };
  };
}

Kernel make_max_pool_grad(const KernelInit& init) {
  return [options = pool_attributes(init.attributes)](KernelContext& ctx) {
    const Tensor& x = ctx.input(0);
    Tensor dx = ctx.allocate(x.dtype(), x.shape());
    max_pool_grad(ctx.parallelism(), x, ctx.input(1), ctx.input(2), options, dx);
    ctx.set_output(0, std::move(dx));
  };
}

Kernel make_avg_pool_grad(const KernelInit& init) {
  return [options = pool_attributes(init.attributes)](KernelContext& ctx) {
    const Tensor& x = ctx.input(0);  // for its shape
    Tensor dx = ctx.allocate(x.dtype(), x.shape());
    avg_pool_grad(ctx.parallelism(), ctx.input(1), options, dx);
    ctx.set_output(0, std::move(dx));
  };
}

}  // namespace

void max_pool(Parallelism& parallelism, const Tensor& x, const PoolAttributes& options, Tensor& y) {
  const PoolGeometry g = pool_geometry(x.shape(), options);
  check_tensor("MaxPool: the output", y, x.dtype(), pool_shape(x.shape(), options));
  dispatch(FloatTypes{} + Types<std::int8_t, std::uint8_t>{}, x.dtype(), [&]<class T>() {
    const T* from = x.data<T>();
    T* to = y.mutable_data<T>();
    for_images(parallelism, g, [&](std::int64_t i) {
      const Image<T> image(from + i * g.image_size(), g.image_size());
      write_image(to + i * g.result_size(), g.result_size(), [&](Wide<T>* result) {
        if (options.windows.channels_first())
          max_rows(g, image.data(), result);
        else
          max_image(g, image.data(), result);
      });
    });
  });
}

void avg_pool(Parallelism& parallelism, const Tensor& x, const PoolAttributes& options, Tensor& y) {
  const PoolGeometry g = pool_geometry(x.shape(), options);
  check_tensor("AvgPool: the output", y, x.dtype(), pool_shape(x.shape(), options));
  dispatch(FloatTypes{}, x.dtype(), [&]<class T>() {
    const T* from = x.data<T>();
    T* to = y.mutable_data<T>();
    for_images(parallelism, g, [&](std::int64_t i) {
      const Image<T> image(from + i * g.image_size(), g.image_size());
      write_image(to + i * g.result_size(), g.result_size(), [&](Wide<T>* result) {
        if (options.windows.channels_first())
          avg_rows(g, options.divisor, image.data(), result);
        else
          avg_image(g, options.divisor, image.data(), result);
      });
    });
  });
}

void max_pool_grad(Parallelism& parallelism, const Tensor& x, const Tensor& y, const Tensor& dy,
                   const PoolAttributes& options, Tensor& dx) {
  const PoolGeometry g = pool_geometry(x.shape(), options);
  check_tensor("MaxPoolGrad: y", y, x.dtype(), pool_shape(x.shape(), options));
  check_tensor("MaxPoolGrad: dy", dy, x.dtype(), pool_shape(x.shape(), options));
  check_tensor("MaxPoolGrad: the output", dx, x.dtype(), x.shape());
  dispatch(FloatTypes{}, x.dtype(), [&]<class T>() {
    const T *in = x.data<T>(), *out = y.data<T>(), *grad = dy.data<T>();
    T* to = dx.mutable_data<T>();
    for_images(parallelism, g, [&](std::int64_t i) {
      const Image<T> image(in + i * g.image_size(), g.image_size());
      const Image<T> result(out + i * g.result_size(), g.result_size());
      const Image<T> gradient(grad + i * g.result_size(), g.result_size());
      write_image(to + i * g.image_size(), g.image_size(), [&](Wide<T>* d_image) {
        if (options.windows.channels_first())
          max_grad_rows(g, image.data(), result.data(), gradient.data(), d_image);
        else
          max_grad_image(g, image.data(), result.data(), gradient.data(), d_image);
      });
    });
  });
}

void avg_pool_grad(Parallelism& parallelism, const Tensor& dy, const PoolAttributes& options, Tensor& dx) {
  const PoolGeometry g = pool_geometry(dx.shape(), options);
  check_tensor("AvgPoolGrad: dy", dy, dx.dtype(), pool_shape(dx.shape(), options));
  dispatch(FloatTypes{}, dx.dtype(), [&]<class T>() {
    const T* grad = dy.data<T>();
    T* to = dx.mutable_data<T>();
    for_images(parallelism, g, [&](std::int64_t i) {
      const Image<T> gradient(grad + i * g.result_size(), g.result_size());
      write_image(to + i * g.image_size(), g.image_size(), [&](Wide<T>* d_image) {
        if (options.windows.channels_first())
          avg_grad_rows(g, options.divisor, gradient.data(), d_image);
        else
          avg_grad_image(g, options.divisor, gradient.data(), d_image);
      });
    });
  });
}

void register_pool_kernels(KernelRegistry& registry) {
  const std::vector<DType> types{DType::f32, DType::f64, DType::f16, DType::bf16};
  const std::vector<DType> of_maxima{DType::f32, DType::f64, DType::f16, DType::bf16, DType::i8, DType::u8};
  registry.add({"MaxPool", "CPU", of_maxima, forward(max_pool)});
  registry.add({"AvgPool", "CPU", types, forward(avg_pool)});
  registry.add({"MaxPoolGrad", "CPU", types, make_max_pool_grad});
  registry.add({"AvgPoolGrad", "CPU", types, make_avg_pool_grad});
}

}  // namespace troupe
