#include "troupe/kernels/cpu/pool.hpp"

#include <algorithm>

#include <troupe/kernels/common/tensor_checks.hpp>
#include <troupe/kernels/cpu/families.hpp>
#include <troupe/kernels/cpu/low_precision.hpp>
#include <troupe/kernels/cpu/scratch.hpp>
#include <troupe/kernels/cpu/typed_kernels.hpp>

namespace troupe {
namespace {

// Minimum input elements per part.
constexpr std::int64_t kPartElements = std::int64_t{1} << 14;

// Calls fn(offset of the result pixel in its image, first row, end row, first column, end column) for every window of
// one image.
template <class Fn>
void for_each_window(const PoolGeometry& g, Fn fn) {
  std::int64_t at = 0;
  for (std::int64_t y = 0; y < g.rows.output; ++y)
    for (std::int64_t x = 0; x < g.columns.output; ++x, at += g.channels)
      fn(at, g.rows.begin(y), g.rows.end(y), g.columns.begin(x), g.columns.end(x));
}

// Loops over channels, written so that the compiler can vectorise them.
template <class T>
void take_larger(const T* __restrict x, T* __restrict best, std::int64_t n) {
  for (std::int64_t c = 0; c < n; ++c) best[c] = ((x[c] > best[c]) | (x[c] != x[c])) ? x[c] : best[c];
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
void max_image(const PoolGeometry& g, const T* x, T* y) {
  for_each_window(g,
                  [&](std::int64_t at, std::int64_t top, std::int64_t bottom, std::int64_t left, std::int64_t right) {
                    if (bottom - top == 2 && right - left == 2)
                      return max_of_four(x + g.pixel(top, left), x + g.pixel(top + 1, left), g.channels, y + at);
                    std::copy_n(x + g.pixel(top, left), g.channels, y + at);
                    for (std::int64_t i = top; i < bottom; ++i)
                      for (std::int64_t j = left; j < right; ++j) take_larger(x + g.pixel(i, j), y + at, g.channels);
                  });
}

template <class T>
void avg_image(const PoolGeometry& g, const T* x, T* y) {
  for_each_window(g,
                  [&](std::int64_t at, std::int64_t top, std::int64_t bottom, std::int64_t left, std::int64_t right) {
                    std::fill_n(y + at, g.channels, T{0});
                    for (std::int64_t i = top; i < bottom; ++i)
                      for (std::int64_t j = left; j < right; ++j) add(x + g.pixel(i, j), y + at, g.channels);
                    const auto count = static_cast<T>((bottom - top) * (right - left));
                    for (std::int64_t c = 0; c < g.channels; ++c) y[at + c] /= count;
                  });
}

// Returns whether 2 x 2 windows cover every element exactly once.
bool tiled_by_two(const PoolGeometry& g) {
  const auto tiled = [](const WindowAxis& axis) {
    return axis.kernel == 2 && axis.stride == 2 && axis.before == 0 && axis.output * 2 == axis.input;
  };
  return tiled(g.rows) && tiled(g.columns);
}

template <class T>
void max_grad_image(const PoolGeometry& g, const T* x, const T* y, const T* dy, T* dx) {
  if (tiled_by_two(g))
    return for_each_window(g, [&](std::int64_t at, std::int64_t top, std::int64_t, std::int64_t left, std::int64_t) {
      const std::int64_t upper = g.pixel(top, left), lower = g.pixel(top + 1, left);
      give_to_first_of_four(x + upper, x + lower, y + at, dy + at, g.channels, dx + upper, dx + lower);
    });
  std::fill_n(dx, g.image_size(), T{0});
  const ScratchArray<T> rest(g.channels);
  for_each_window(g,
                  [&](std::int64_t at, std::int64_t top, std::int64_t bottom, std::int64_t left, std::int64_t right) {
                    std::copy_n(dy + at, g.channels, rest.data());
                    for (std::int64_t i = top; i < bottom; ++i)
                      for (std::int64_t j = left; j < right; ++j)
                        give_to_maximum(x + g.pixel(i, j), y + at, rest.data(), dx + g.pixel(i, j), g.channels);
                  });
}

template <class T>
void avg_grad_image(const PoolGeometry& g, const T* dy, T* dx) {
  std::fill_n(dx, g.image_size(), T{0});
  const ScratchArray<T> share(g.channels);
  for_each_window(g,
                  [&](std::int64_t at, std::int64_t top, std::int64_t bottom, std::int64_t left, std::int64_t right) {
                    const auto count = static_cast<T>((bottom - top) * (right - left));
                    for (std::int64_t c = 0; c < g.channels; ++c) share[c] = dy[at + c] / count;
                    for (std::int64_t i = top; i < bottom; ++i)
                      for (std::int64_t j = left; j < right; ++j) add(share.data(), dx + g.pixel(i, j), g.channels);
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

// An image in its compute type: f16 and bf16 as float, in scratch memory.
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
  const Compute<T>* data() const { return data_; }

 private:
  static constexpr bool kNarrow = !std::is_same_v<T, Compute<T>>;
  ScratchArray<Compute<T>> memory_;
  const Compute<T>* data_;
};

// Calls fill(memory for a float image) and rounds the result.
template <class T, class Fill>
void write_image(T* to, std::int64_t size, Fill fill) {
  if constexpr (std::is_same_v<T, Compute<T>>) {
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
  check_tensor("MaxPool: the output", y, x.dtype(), g.result_shape());
  dispatch(FloatTypes{}, x.dtype(), [&]<class T>() {
    const T* from = x.data<T>();
    T* to = y.mutable_data<T>();
    for_images(parallelism, g, [&](std::int64_t i) {
      const Image<T> image(from + i * g.image_size(), g.image_size());
      write_image(to + i * g.result_size(), g.result_size(),
                  [&](Compute<T>* result) { max_image(g, image.data(), result); });
    });
  });
}

void avg_pool(Parallelism& parallelism, const Tensor& x, const PoolAttributes& options, Tensor& y) {
  const PoolGeometry g = pool_geometry(x.shape(), options);
  check_tensor("AvgPool: the output", y, x.dtype(), g.result_shape());
  dispatch(FloatTypes{}, x.dtype(), [&]<class T>() {
    const T* from = x.data<T>();
    T* to = y.mutable_data<T>();
    for_images(parallelism, g, [&](std::int64_t i) {
      const Image<T> image(from + i * g.image_size(), g.image_size());
      write_image(to + i * g.result_size(), g.result_size(),
                  [&](Compute<T>* result) { avg_image(g, image.data(), result); });
    });
  });
}

void max_pool_grad(Parallelism& parallelism, const Tensor& x, const Tensor& y, const Tensor& dy,
                   const PoolAttributes& options, Tensor& dx) {
  const PoolGeometry g = pool_geometry(x.shape(), options);
  check_tensor("MaxPoolGrad: y", y, x.dtype(), g.result_shape());
  check_tensor("MaxPoolGrad: dy", dy, x.dtype(), g.result_shape());
  check_tensor("MaxPoolGrad: the output", dx, x.dtype(), x.shape());
  dispatch(FloatTypes{}, x.dtype(), [&]<class T>() {
    const T *in = x.data<T>(), *out = y.data<T>(), *grad = dy.data<T>();
    T* to = dx.mutable_data<T>();
    for_images(parallelism, g, [&](std::int64_t i) {
      const Image<T> image(in + i * g.image_size(), g.image_size());
      const Image<T> result(out + i * g.result_size(), g.result_size());
      const Image<T> gradient(grad + i * g.result_size(), g.result_size());
      write_image(to + i * g.image_size(), g.image_size(), [&](Compute<T>* d_image) {
        max_grad_image(g, image.data(), result.data(), gradient.data(), d_image);
      });
    });
  });
}

void avg_pool_grad(Parallelism& parallelism, const Tensor& dy, const PoolAttributes& options, Tensor& dx) {
  const PoolGeometry g = pool_geometry(dx.shape(), options);
  check_tensor("AvgPoolGrad: dy", dy, dx.dtype(), g.result_shape());
  dispatch(FloatTypes{}, dx.dtype(), [&]<class T>() {
    const T* grad = dy.data<T>();
    T* to = dx.mutable_data<T>();
    for_images(parallelism, g, [&](std::int64_t i) {
      const Image<T> gradient(grad + i * g.result_size(), g.result_size());
      write_image(to + i * g.image_size(), g.image_size(),
                  [&](Compute<T>* d_image) { avg_grad_image(g, gradient.data(), d_image); });
    });
  });
}

void register_pool_kernels(KernelRegistry& registry) {
  const std::vector<DType> types{DType::f32, DType::f64, DType::f16, DType::bf16};
  registry.add({"MaxPool", "CPU", types, forward(max_pool)});
  registry.add({"AvgPool", "CPU", types, forward(avg_pool)});
  registry.add({"MaxPoolGrad", "CPU", types, make_max_pool_grad});
  registry.add({"AvgPoolGrad", "CPU", types, make_avg_pool_grad});
}

}  // namespace troupe
