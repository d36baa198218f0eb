#include "troupe/kernels/cpu/bias.hpp"

#include <algorithm>

#include <troupe/graph/ops/windows.hpp>
#include <troupe/kernels/common/tensor_checks.hpp>
#include <troupe/kernels/cpu/families.hpp>
#include <troupe/kernels/cpu/low_precision.hpp>
#include <troupe/kernels/cpu/scratch.hpp>
#include <troupe/kernels/cpu/typed_kernels.hpp>

namespace troupe {
namespace {

// Minimum elements per part, where each costs about a load.
constexpr std::int64_t kPartElements = std::int64_t{1} << 15;

struct Rows {
  std::int64_t count = 0;
  std::int64_t width = 0;
};
Rows rows_of(std::string_view what, const Shape& shape) {
  if (shape.rank() < 1) invalid_argument("{} must have at least one dimension, but is a scalar", what);
  const std::int64_t width = shape[-1];
  return {width == 0 ? 0 : shape.num_elements() / width, width};
}

std::int64_t rows_per_part(std::int64_t width) {
  return std::max<std::int64_t>(1, kPartElements / std::max<std::int64_t>(1, width));
}

template <class T>
requires std::is_floating_point_v<T>
void add_rows(const T* __restrict rows, std::int64_t count, std::int64_t width, T* __restrict sum) {
  for (std::int64_t i = 0; i < count; ++i)
    for (std::int64_t j = 0; j < width; ++j) sum[j] += rows[i * width + j];
}
// f16 and bf16 are summed in float.
template <class T>
requires(!std::is_floating_point_v<T>) void add_rows(const T* rows, std::int64_t count, std::int64_t width,
                                                     float* __restrict sum) {
  constexpr std::int64_t kBlock = 256;
  float values[kBlock];
  for (std::int64_t i = 0; i < count; ++i)
    for (std::int64_t begin = 0; begin < width; begin += kBlock) {
      const std::int64_t n = std::min(kBlock, width - begin);
      widen(rows + i * width + begin, values, n);
      for (std::int64_t j = 0; j < n; ++j) sum[begin + j] += values[j];
    }
}

template <class T>
void store(const Compute<T>* sum, std::int64_t count, T* out) {
  if constexpr (std::is_floating_point_v<T>)
    std::copy_n(sum, count, out);
  else
    narrow(sum, out, count);
}

template <class T>
void sum_rows(Parallelism& parallelism, const T* dy, Rows rows, T* out) {
  // Blocks keep the sums short (for rounding) and are the units of parallel work.
  const std::int64_t block = std::min<std::int64_t>(512, rows_per_part(rows.width));
  const std::int64_t blocks = (rows.count + block - 1) / block;
  const ScratchArray<Compute<T>> partial(std::max<std::int64_t>(1, blocks) * rows.width);
  std::fill_n(partial.data(), rows.width * std::max<std::int64_t>(1, blocks), Compute<T>{0});
  Compute<T>* const sums = partial.data();
  parallelism.parallel_for(rows.count, block, [=](std::int64_t begin, std::int64_t end) {
    add_rows(dy + begin * rows.width, end - begin, rows.width, sums + begin / block * rows.width);
  });
  if (blocks > 1) add_rows(sums + rows.width, blocks - 1, rows.width, sums);
  store<T>(sums, rows.width, out);
}

// Channels first: `images` times a plane of `size` elements for each channel.
struct Planes {
  std::int64_t images = 0, channels = 0, size = 0;
};
Planes planes_of(std::string_view what, const Shape& shape) {
  if (shape.rank() < 2)
    invalid_argument("{} must have at least two dimensions, but its shape is {}", what, shape.to_string());
  const std::int64_t outer = shape[0] * shape[1];
  return {shape[0], shape[1], outer == 0 ? 0 : shape.num_elements() / outer};
}

// The sum of a plane: in lanes, so that it vectorises and rounds less.
template <class T>
Compute<T> sum_plane(const T* from, std::int64_t size) {
  constexpr std::int64_t kLanes = 32;
  Compute<T> lanes[kLanes] = {}, values[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    if constexpr (std::is_floating_point_v<T>)
      std::copy_n(from + i, kLanes, values);
    else
      widen(from + i, values, kLanes);
    for (std::int64_t j = 0; j < kLanes; ++j) lanes[j] += values[j];
  }
  for (; i < size; ++i) lanes[i % kLanes] += static_cast<Compute<T>>(from[i]);
  for (std::int64_t half = kLanes / 2; half > 0; half /= 2)
    for (std::int64_t j = 0; j < half; ++j) lanes[j] += lanes[j + half];
  return lanes[0];
}

Kernel make_bias_add(const KernelInit& init) {
  return [format = window_options(init.attributes).format](KernelContext& ctx) {
    Tensor out = ctx.take_input(0);  // in place if x has no other user
    if (out.valid()) {
      const Tensor x = out;
      bias_add(ctx.parallelism(), x, ctx.input(1), out, FusedActivation::none, format);
    } else {
      const Tensor& x = ctx.input(0);
      out = ctx.allocate(x.dtype(), x.shape());
      bias_add(ctx.parallelism(), x, ctx.input(1), out, FusedActivation::none, format);
    }
    ctx.set_output(0, std::move(out));
  };
}

Kernel make_bias_add_grad(const KernelInit& init) {
  return [format = window_options(init.attributes).format](KernelContext& ctx) {
    const Tensor& dy = ctx.input(0);
    const std::int64_t width = format == DataFormat::channels_first ? planes_of("BiasAddGrad: dy", dy.shape()).channels
                                                                    : rows_of("BiasAddGrad: dy", dy.shape()).width;
    Tensor out = ctx.allocate(dy.dtype(), Shape{width});
    bias_add_grad(ctx.parallelism(), dy, out, format);
    ctx.set_output(0, std::move(out));
  };
}

void add_planes(Parallelism& parallelism, const Tensor& x, const Tensor& bias, Tensor& out,
                FusedActivation activation) {
  const Planes planes = planes_of("BiasAdd: x", x.shape());
  check_tensor("BiasAdd: bias", bias, x.dtype(), Shape{planes.channels});
  check_tensor("BiasAdd: the output", out, x.dtype(), x.shape());
  dispatch(FloatTypes{}, x.dtype(), [&]<class T>() {
    const T* const from = x.data<T>();
    T* const to = out.mutable_data<T>();
    parallelism.parallel_for(planes.images * planes.channels, rows_per_part(planes.size), [&](auto begin, auto end) {
      for (std::int64_t i = begin; i < end; ++i)
        add_bias_planes(activation, from + i * planes.size, bias.data<T>() + i % planes.channels, 1, 1, planes.size,
                        to + i * planes.size);
    });
  });
}

void sum_planes(Parallelism& parallelism, const Tensor& dy, Tensor& out) {
  const Planes planes = planes_of("BiasAddGrad: dy", dy.shape());
  check_tensor("BiasAddGrad: the output", out, dy.dtype(), Shape{planes.channels});
  dispatch(FloatTypes{}, dy.dtype(), [&]<class T>() {
    parallelism.parallel_for(planes.channels, rows_per_part(planes.size * planes.images), [&](auto begin, auto end) {
      for (std::int64_t c = begin; c < end; ++c) {
        Compute<T> sum{0};
        for (std::int64_t i = 0; i < planes.images; ++i)
          sum += sum_plane(dy.data<T>() + (i * planes.channels + c) * planes.size, planes.size);
        store<T>(&sum, 1, out.mutable_data<T>() + c);
      }
    });
  });
}

}  // namespace

void bias_add(Parallelism& parallelism, const Tensor& x, const Tensor& bias, Tensor& out, FusedActivation activation,
              DataFormat format) {
  if (format == DataFormat::channels_first) return add_planes(parallelism, x, bias, out, activation);
  const Rows rows = rows_of("BiasAdd: x", x.shape());
  check_tensor("BiasAdd: bias", bias, x.dtype(), Shape{rows.width});
  check_tensor("BiasAdd: the output", out, x.dtype(), x.shape());
  dispatch(FloatTypes{}, x.dtype(), [&]<class T>() {
    parallelism.parallel_for(rows.count, rows_per_part(rows.width),
                             [&, from = x.data<T>(), to = out.mutable_data<T>()](auto begin, auto end) {
                               add_bias(activation, from + begin * rows.width, bias.data<T>(), end - begin, rows.width,
                                        rows.width, to + begin * rows.width);
                             });
  });
}

void bias_add_grad(Parallelism& parallelism, const Tensor& dy, Tensor& out, DataFormat format) {
  if (format == DataFormat::channels_first) return sum_planes(parallelism, dy, out);
  const Rows rows = rows_of("BiasAddGrad: dy", dy.shape());
  check_tensor("BiasAddGrad: the output", out, dy.dtype(), Shape{rows.width});
  dispatch(FloatTypes{}, dy.dtype(),
           [&]<class T>() { sum_rows(parallelism, dy.data<T>(), rows, out.mutable_data<T>()); });
}

void register_bias_kernels(KernelRegistry& registry) {
  const std::vector<DType> types{DType::f32, DType::f64, DType::f16, DType::bf16};
  registry.add({"BiasAdd", "CPU", types, make_bias_add});
  registry.add({"BiasAddGrad", "CPU", types, make_bias_add_grad});
}

}  // namespace troupe
