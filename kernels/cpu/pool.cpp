#include "kernels/cpu/pool.hpp"

#include <algorithm>
#include <vector>

#include "kernels/cpu/families.hpp"
#include "kernels/cpu/tensor_checks.hpp"

namespace troupe {
namespace {

// Elements of input worth a part of their own.
constexpr std::int64_t kPartElements = std::int64_t{1} << 14;

struct Geometry {
  std::int64_t batch = 0;
  std::int64_t channels = 0;
  WindowAxis rows;
  WindowAxis columns;
  std::int64_t image_size() const { return rows.input * columns.input * channels; }
  std::int64_t result_size() const { return rows.output * columns.output * channels; }
  Shape result_shape() const { return {batch, rows.output, columns.output, channels}; }
  std::int64_t pixel(std::int64_t y, std::int64_t x) const { return (y * columns.input + x) * channels; }
};

Geometry geometry_of(const Shape& x, const PoolOptions& options) {
  check_rank("pooling: x (NHWC)", x, 4);
  return {
      .batch = x[0],
      .channels = x[3],
      .rows = window_axis("pooling: height", x[1], options.size[0], options.strides[0], options.padding),
      .columns = window_axis("pooling: width", x[2], options.size[1], options.strides[1], options.padding)};
}

// Calls fn(offset of an image's result pixel, first row, end row, first column, end column) for every window
// of one image.
template <class Fn>
void for_each_window(const Geometry& g, Fn fn) {
  std::int64_t at = 0;
  for (std::int64_t y = 0; y < g.rows.output; ++y)
    for (std::int64_t x = 0; x < g.columns.output; ++x, at += g.channels)
      fn(at, g.rows.begin(y), g.rows.end(y), g.columns.begin(x), g.columns.end(x));
}

// The loops over channels, with nothing in the compiler's way.
template <class T>
void take_larger(const T* __restrict x, T* __restrict best, std::int64_t n) {
  for (std::int64_t c = 0; c < n; ++c) best[c] = (x[c] > best[c]) | (x[c] != x[c]) ? x[c] : best[c];
}
template <class T>
void add(const T* __restrict x, T* __restrict sum, std::int64_t n) {
  for (std::int64_t c = 0; c < n; ++c) sum[c] += x[c];
}
// Gives what is left of dy to the channels where x is the maximum.
template <class T>
void give_to_maximum(const T* __restrict x, const T* __restrict y, T* __restrict left, T* __restrict dx,
                     std::int64_t n) {
  for (std::int64_t c = 0; c < n; ++c) {
    const bool hit = (x[c] == y[c]) | (x[c] != x[c]);
    dx[c] += hit ? left[c] : T{0};
    left[c] = hit ? T{0} : left[c];
  }
}

template <class T>
void max_image(const Geometry& g, const T* x, T* y) {
  for_each_window(
      g, [&](std::int64_t at, std::int64_t top, std::int64_t bottom, std::int64_t left, std::int64_t right) {
        std::copy_n(x + g.pixel(top, left), g.channels, y + at);
        for (std::int64_t i = top; i < bottom; ++i)
          for (std::int64_t j = left; j < right; ++j) take_larger(x + g.pixel(i, j), y + at, g.channels);
      });
}

template <class T>
void avg_image(const Geometry& g, const T* x, T* y) {
  for_each_window(
      g, [&](std::int64_t at, std::int64_t top, std::int64_t bottom, std::int64_t left, std::int64_t right) {
        std::fill_n(y + at, g.channels, T{0});
        for (std::int64_t i = top; i < bottom; ++i)
          for (std::int64_t j = left; j < right; ++j) add(x + g.pixel(i, j), y + at, g.channels);
        const auto count = static_cast<T>((bottom - top) * (right - left));
        for (std::int64_t c = 0; c < g.channels; ++c) y[at + c] /= count;
      });
}

template <class T>
void max_grad_image(const Geometry& g, const T* x, const T* y, const T* dy, T* dx) {
  std::fill_n(dx, g.image_size(), T{0});
  std::vector<T> rest(static_cast<std::size_t>(g.channels));
  for_each_window(
      g, [&](std::int64_t at, std::int64_t top, std::int64_t bottom, std::int64_t left, std::int64_t right) {
        std::copy_n(dy + at, g.channels, rest.data());
        for (std::int64_t i = top; i < bottom; ++i)
          for (std::int64_t j = left; j < right; ++j)
            give_to_maximum(x + g.pixel(i, j), y + at, rest.data(), dx + g.pixel(i, j), g.channels);
      });
}

template <class T>
void avg_grad_image(const Geometry& g, const T* dy, T* dx) {
  std::fill_n(dx, g.image_size(), T{0});
  std::vector<T> share(static_cast<std::size_t>(g.channels));
  for_each_window(
      g, [&](std::int64_t at, std::int64_t top, std::int64_t bottom, std::int64_t left, std::int64_t right) {
        const auto count = static_cast<T>((bottom - top) * (right - left));
        for (std::int64_t c = 0; c < g.channels; ++c) share[static_cast<std::size_t>(c)] = dy[at + c] / count;
        for (std::int64_t i = top; i < bottom; ++i)
          for (std::int64_t j = left; j < right; ++j) add(share.data(), dx + g.pixel(i, j), g.channels);
      });
}

// Calls image(i) for every image.
template <class Fn>
void for_images(Parallelism& parallelism, const Geometry& g, Fn image) {
  const std::int64_t grain =
      std::max<std::int64_t>(1, kPartElements / std::max<std::int64_t>(1, g.image_size()));
  parallelism.parallel_for(g.batch, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) image(i);
  });
}

// Calls fn.operator()<T>() for the dtype.
template <class Fn>
void for_floating(DType dtype, Fn fn) {
  if (dtype == DType::f32) return fn.template operator()<float>();
  if (dtype == DType::f64) return fn.template operator()<double>();
  invalid_argument("pooling works on f32 and f64, not on {}", name(dtype));
}

PoolOptions options_of(const Attributes& attributes) {
  return {.size = pair_attribute(attributes, "ksize"),
          .strides = pair_attribute(attributes, "strides"),
          .padding = parse_padding(attributes.string("padding"))};
}

using Forward = void (*)(Parallelism&, const Tensor&, const PoolOptions&, Tensor&);

KernelFactory forward(Forward function) {
  return [function](const KernelInit& init) -> Kernel {
    return [function, options = options_of(init.attributes)](KernelContext& ctx) {
      const Tensor& x = ctx.input(0);
      Tensor y = ctx.allocate(x.dtype(), pool_shape(x.shape(), options));
      function(ctx.parallelism(), x, options, y);
      ctx.set_output(0, std::move(y));
    };
  };
}

Kernel make_max_pool_grad(const KernelInit& init) {
  return [options = options_of(init.attributes)](KernelContext& ctx) {
    const Tensor& x = ctx.input(0);
    Tensor dx = ctx.allocate(x.dtype(), x.shape());
    max_pool_grad(ctx.parallelism(), x, ctx.input(1), ctx.input(2), options, dx);
    ctx.set_output(0, std::move(dx));
  };
}

Kernel make_avg_pool_grad(const KernelInit& init) {
  return [options = options_of(init.attributes)](KernelContext& ctx) {
    const Tensor& x = ctx.input(0);  // for its shape
    Tensor dx = ctx.allocate(x.dtype(), x.shape());
    avg_pool_grad(ctx.parallelism(), ctx.input(1), options, dx);
    ctx.set_output(0, std::move(dx));
  };
}

}  // namespace

Shape pool_shape(const Shape& x, const PoolOptions& options) {
  return geometry_of(x, options).result_shape();
}

void max_pool(Parallelism& parallelism, const Tensor& x, const PoolOptions& options, Tensor& y) {
  const Geometry g = geometry_of(x.shape(), options);
  check_tensor("MaxPool: the output", y, x.dtype(), g.result_shape());
  for_floating(x.dtype(), [&]<class T>() {
    const T* from = x.data<T>();
    T* to = y.mutable_data<T>();
    for_images(parallelism, g,
               [&](std::int64_t i) { max_image(g, from + i * g.image_size(), to + i * g.result_size()); });
  });
}

void avg_pool(Parallelism& parallelism, const Tensor& x, const PoolOptions& options, Tensor& y) {
  const Geometry g = geometry_of(x.shape(), options);
  check_tensor("AvgPool: the output", y, x.dtype(), g.result_shape());
  for_floating(x.dtype(), [&]<class T>() {
    const T* from = x.data<T>();
    T* to = y.mutable_data<T>();
    for_images(parallelism, g,
               [&](std::int64_t i) { avg_image(g, from + i * g.image_size(), to + i * g.result_size()); });
  });
}

void max_pool_grad(Parallelism& parallelism, const Tensor& x, const Tensor& y, const Tensor& dy,
                   const PoolOptions& options, Tensor& dx) {
  const Geometry g = geometry_of(x.shape(), options);
  check_tensor("MaxPoolGrad: y", y, x.dtype(), g.result_shape());
  check_tensor("MaxPoolGrad: dy", dy, x.dtype(), g.result_shape());
  check_tensor("MaxPoolGrad: the output", dx, x.dtype(), x.shape());
  for_floating(x.dtype(), [&]<class T>() {
    const T *in = x.data<T>(), *out = y.data<T>(), *grad = dy.data<T>();
    T* to = dx.mutable_data<T>();
    for_images(parallelism, g, [&](std::int64_t i) {
      max_grad_image(g, in + i * g.image_size(), out + i * g.result_size(), grad + i * g.result_size(),
                     to + i * g.image_size());
    });
  });
}

void avg_pool_grad(Parallelism& parallelism, const Tensor& dy, const PoolOptions& options, Tensor& dx) {
  const Geometry g = geometry_of(dx.shape(), options);
  check_tensor("AvgPoolGrad: dy", dy, dx.dtype(), g.result_shape());
  for_floating(dx.dtype(), [&]<class T>() {
    const T* grad = dy.data<T>();
    T* to = dx.mutable_data<T>();
    for_images(parallelism, g, [&](std::int64_t i) {
      avg_grad_image(g, grad + i * g.result_size(), to + i * g.image_size());
    });
  });
}

void register_pool_kernels(KernelRegistry& registry) {
  registry.add({"MaxPool", "CPU", {DType::f32, DType::f64}, forward(max_pool)});
  registry.add({"AvgPool", "CPU", {DType::f32, DType::f64}, forward(avg_pool)});
  registry.add({"MaxPoolGrad", "CPU", {DType::f32, DType::f64}, make_max_pool_grad});
  registry.add({"AvgPoolGrad", "CPU", {DType::f32, DType::f64}, make_avg_pool_grad});
}

}  // namespace troupe
