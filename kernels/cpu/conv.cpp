#include "kernels/cpu/conv.hpp"

#include <algorithm>
#include <vector>

#include "kernels/cpu/bias.hpp"
#include "kernels/cpu/conv_parts.hpp"
#include "kernels/cpu/families.hpp"
#include "kernels/cpu/low_precision.hpp"
#include "kernels/cpu/tensor_checks.hpp"
#include "kernels/cpu/typed_kernels.hpp"

namespace troupe {
namespace {

// Multiply-adds worth a part of their own.
constexpr std::int64_t kPartProducts = std::int64_t{1} << 24;
// Each part of a filter's gradient needs a filter's memory for its sum.
constexpr std::int64_t kMaxFilterParts = 8;

ConvGeometry geometry_of(const Shape& x, const Shape& filter, const Conv2DOptions& options) {
  check_rank("Conv2D: x (NHWC)", x, 4);
  check_rank("Conv2D: the filter (HWIO)", filter, 4);
  if (x[3] != filter[2])
    invalid_argument("Conv2D: x {} has {} channels, but the filter {} takes {}", x.to_string(), x[3],
                     filter.to_string(), filter[2]);
  return {.batch = x[0],
          .in_channels = x[3],
          .out_channels = filter[3],
          .rows = window_axis("Conv2D: height", x[1], filter[0], options.strides[0], options.padding),
          .columns = window_axis("Conv2D: width", x[2], filter[1], options.strides[1], options.padding)};
}

Shape result_shape(const ConvGeometry& g) {
  return {g.batch, g.rows.output, g.columns.output, g.out_channels};
}

std::int64_t images_per_part(const ConvGeometry& g) {
  return std::max<std::int64_t>(1, kPartProducts / std::max<std::int64_t>(1, g.image_cost()));
}

ConvGeometry with_batch(ConvGeometry g, std::int64_t images) {
  g.batch = images;
  return g;
}

bool empty(const ConvGeometry& g) { return g.batch == 0 || g.image_cost() == 0; }

// An output of nothing but empty sums.
void clear(Tensor& t) { std::fill_n(t.mutable_raw(), t.num_bytes(), std::byte{0}); }

template <class T>
void forward(Parallelism& parallelism, const ConvGeometry& g, const T* x, const T* filter, T* y) {
  parallelism.parallel_for(g.batch, images_per_part(g), [&](std::int64_t begin, std::int64_t end) {
    conv_forward(with_batch(g, end - begin), x + begin * g.image_size(), filter, y + begin * g.result_size());
  });
}

template <class T>
void backward_input(Parallelism& parallelism, const ConvGeometry& g, const T* filter, const T* dy, T* dx) {
  parallelism.parallel_for(g.batch, images_per_part(g), [&](std::int64_t begin, std::int64_t end) {
    conv_backward_input(with_batch(g, end - begin), filter, dy + begin * g.result_size(),
                        dx + begin * g.image_size());
  });
}

// The parts' sums are added in order.
template <class T>
void backward_filter(Parallelism& parallelism, const ConvGeometry& g, const T* x, const T* dy, Tensor& out) {
  const std::int64_t grain = std::max(images_per_part(g), (g.batch + kMaxFilterParts - 1) / kMaxFilterParts);
  const std::int64_t parts = (g.batch + grain - 1) / grain;
  T* d_filter = out.mutable_data<T>();
  if (parts == 1) return conv_backward_filter(g, x, dy, d_filter);
  std::vector<Tensor> sums;
  for (std::int64_t i = 0; i < parts; ++i) sums.emplace_back(out.dtype(), out.shape());
  parallelism.parallel_for(g.batch, grain, [&](std::int64_t begin, std::int64_t end) {
    conv_backward_filter(with_batch(g, end - begin), x + begin * g.image_size(), dy + begin * g.result_size(),
                         sums[static_cast<std::size_t>(begin / grain)].mutable_data<T>());
  });
  std::copy_n(sums[0].data<T>(), g.filter_size(), d_filter);
  for (std::size_t i = 1; i < sums.size(); ++i) {
    const T* sum = sums[i].data<T>();
    for (std::int64_t j = 0; j < g.filter_size(); ++j) d_filter[j] += sum[j];
  }
}

void check_floating(const Tensor& t) {
  if (!is_floating(t.dtype()))
    invalid_argument("Conv2D works on floating dtypes, not on {}", name(t.dtype()));
}

bool is_narrow(const Tensor& t) { return t.dtype() == DType::f16 || t.dtype() == DType::bf16; }

constexpr std::int64_t kConverted = 32768;  // elements worth a part of their own

Tensor to_float(Parallelism& parallelism, const Tensor& t) {
  Tensor out(DType::f32, t.shape());
  dispatch(Types<Half, BFloat16>{}, t.dtype(), [&]<class T>() {
    parallelism.parallel_for(t.num_elements(), kConverted,
                             [from = t.data<T>(), to = out.mutable_data<float>()](auto begin, auto end) {
                               widen(from + begin, to + begin, end - begin);
                             });
  });
  return out;
}

// f16 and bf16: calls run(a, b, result) with tensors of floats, and rounds the result once.
template <class Run>
void in_float(Parallelism& parallelism, const Tensor& a, const Tensor& b, Tensor& result, Run run) {
  Tensor wide(DType::f32, result.shape());
  run(to_float(parallelism, a), to_float(parallelism, b), wide);
  dispatch(Types<Half, BFloat16>{}, result.dtype(), [&]<class T>() {
    parallelism.parallel_for(wide.num_elements(), kConverted,
                             [from = wide.data<float>(), to = result.mutable_data<T>()](
                                 auto begin, auto end) { narrow(from + begin, to + begin, end - begin); });
  });
}

Conv2DOptions options_of(const Attributes& attributes) {
  return {.strides = pair_attribute(attributes, "strides"),
          .padding = parse_padding(attributes.string("padding"))};
}

Kernel make_conv2d(const KernelInit& init) {
  return [options = options_of(init.attributes)](KernelContext& ctx) {
    const Tensor& x = ctx.input(0);
    Tensor y = ctx.allocate(x.dtype(), conv2d_shape(x.shape(), ctx.input(1).shape(), options));
    conv2d(ctx.parallelism(), x, ctx.input(1), options, y);
    ctx.set_output(0, std::move(y));
  };
}

Kernel make_fused_conv2d(const KernelInit& init) {
  return [options = options_of(init.attributes),
          activation = parse_activation(init.attributes.string("activation"))](KernelContext& ctx) {
    const Tensor& x = ctx.input(0);
    Tensor y = ctx.allocate(x.dtype(), conv2d_shape(x.shape(), ctx.input(1).shape(), options));
    conv2d(ctx.parallelism(), x, ctx.input(1), options, y);
    bias_add(ctx.parallelism(), y, ctx.input(2), y, activation);
    ctx.set_output(0, std::move(y));
  };
}

Kernel make_backprop_input(const KernelInit& init) {
  return [options = options_of(init.attributes)](KernelContext& ctx) {
    const Tensor& x = ctx.input(0);  // for its shape
    Tensor dx = ctx.allocate(x.dtype(), x.shape());
    conv2d_backprop_input(ctx.parallelism(), ctx.input(1), ctx.input(2), options, dx);
    ctx.set_output(0, std::move(dx));
  };
}

Kernel make_backprop_filter(const KernelInit& init) {
  return [options = options_of(init.attributes)](KernelContext& ctx) {
    const Tensor& filter = ctx.input(1);  // for its shape
    Tensor d_filter = ctx.allocate(filter.dtype(), filter.shape());
    conv2d_backprop_filter(ctx.parallelism(), ctx.input(0), ctx.input(2), options, d_filter);
    ctx.set_output(0, std::move(d_filter));
  };
}

}  // namespace

Shape conv2d_shape(const Shape& x, const Shape& filter, const Conv2DOptions& options) {
  return result_shape(geometry_of(x, filter, options));
}

void conv2d(Parallelism& parallelism, const Tensor& x, const Tensor& filter, const Conv2DOptions& options,
            Tensor& y) {
  check_floating(x);
  const ConvGeometry g = geometry_of(x.shape(), filter.shape(), options);
  check_tensor("Conv2D: the filter", filter, x.dtype(), filter.shape());
  check_tensor("Conv2D: the output", y, x.dtype(), result_shape(g));
  if (empty(g)) return clear(y);
  if (is_narrow(x))
    return in_float(parallelism, x, filter, y, [&](const Tensor& a, const Tensor& b, Tensor& wide) {
      conv2d(parallelism, a, b, options, wide);
    });
  const Tensor image = aligned(x), weights = aligned(filter);
  if (x.dtype() == DType::f32)
    forward(parallelism, g, image.data<float>(), weights.data<float>(), y.mutable_data<float>());
  else
    forward(parallelism, g, image.data<double>(), weights.data<double>(), y.mutable_data<double>());
}

void conv2d_backprop_input(Parallelism& parallelism, const Tensor& filter, const Tensor& dy,
                           const Conv2DOptions& options, Tensor& dx) {
  check_floating(dx);
  const ConvGeometry g = geometry_of(dx.shape(), filter.shape(), options);
  check_tensor("Conv2DBackpropInput: the filter", filter, dx.dtype(), filter.shape());
  check_tensor("Conv2DBackpropInput: dy", dy, dx.dtype(), result_shape(g));
  if (empty(g)) return clear(dx);
  if (is_narrow(dx))
    return in_float(parallelism, filter, dy, dx, [&](const Tensor& a, const Tensor& b, Tensor& wide) {
      conv2d_backprop_input(parallelism, a, b, options, wide);
    });
  const Tensor weights = aligned(filter), result = aligned(dy);
  if (dx.dtype() == DType::f32)
    backward_input(parallelism, g, weights.data<float>(), result.data<float>(), dx.mutable_data<float>());
  else
    backward_input(parallelism, g, weights.data<double>(), result.data<double>(), dx.mutable_data<double>());
}

void conv2d_backprop_filter(Parallelism& parallelism, const Tensor& x, const Tensor& dy,
                            const Conv2DOptions& options, Tensor& d_filter) {
  check_floating(d_filter);
  const ConvGeometry g = geometry_of(x.shape(), d_filter.shape(), options);
  check_tensor("Conv2DBackpropFilter: x", x, d_filter.dtype(), x.shape());
  check_tensor("Conv2DBackpropFilter: dy", dy, d_filter.dtype(), result_shape(g));
  if (empty(g)) return clear(d_filter);
  if (is_narrow(d_filter))
    return in_float(parallelism, x, dy, d_filter, [&](const Tensor& a, const Tensor& b, Tensor& wide) {
      conv2d_backprop_filter(parallelism, a, b, options, wide);
    });
  const Tensor image = aligned(x), result = aligned(dy);
  if (x.dtype() == DType::f32)
    backward_filter(parallelism, g, image.data<float>(), result.data<float>(), d_filter);
  else
    backward_filter(parallelism, g, image.data<double>(), result.data<double>(), d_filter);
}

void register_conv_kernels(KernelRegistry& registry) {
  registry.add({"Conv2D", "CPU", {DType::f32, DType::f64, DType::f16, DType::bf16}, make_conv2d});
  registry.add({"FusedConv2D", "CPU", {DType::f32, DType::f64, DType::f16, DType::bf16}, make_fused_conv2d});
  registry.add(
      {"Conv2DBackpropInput", "CPU", {DType::f32, DType::f64, DType::f16, DType::bf16}, make_backprop_input});
  registry.add({"Conv2DBackpropFilter",
                "CPU",
                {DType::f32, DType::f64, DType::f16, DType::bf16},
                make_backprop_filter});
}

}  // namespace troupe
