#include "troupe/kernels/cpu/conv.hpp"

#include <algorithm>

#include <troupe/kernels/common/tensor_checks.hpp>
#include <troupe/kernels/cpu/bias.hpp>
#include <troupe/kernels/cpu/conv_parts.hpp>
#include <troupe/kernels/cpu/families.hpp>
#include <troupe/kernels/cpu/low_precision.hpp>
#include <troupe/kernels/cpu/onednn.hpp>
#include <troupe/kernels/cpu/scratch.hpp>
#include <troupe/kernels/cpu/typed_kernels.hpp>

namespace troupe {
namespace {

// Minimum multiply-adds per part.
constexpr std::int64_t kPartProducts = std::int64_t{1} << 24;
// The same of a band of an image.
constexpr std::int64_t kBandProducts = std::int64_t{1} << 22;
// Each part of a filter gradient needs a filter's worth of memory for its sum.
constexpr std::int64_t kMaxFilterParts = 8;
// Elements that one part copies.
constexpr std::int64_t kCopied = std::int64_t{1} << 16;

std::int64_t images_per_part(const ConvGeometry& g) {
  return std::max<std::int64_t>(1, kPartProducts / std::max<std::int64_t>(1, g.image_cost()));
}

ConvGeometry with_batch(ConvGeometry g, std::int64_t images) {
  g.batch = images;
  return g;
}

// Images with fewer windows are made in slices of output channels, not in bands: their filters are larger than they
// are, and each band reads the whole filter.
constexpr std::int64_t kSlicedWindows = 256;
// Channels of a slice, and of all, are a multiple of this, so that oneDNN treats slices as it does the whole.
constexpr std::int64_t kSliceChannels = 64;

// Output channels of one image's result that a thread makes at once.
std::int64_t channels_per_slice(const ConvGeometry& g, int threads) {
  const std::int64_t all = g.out_channels;
  if (!g.plain() || g.spatial != 2 || g.batch >= threads || g.windows() >= kSlicedWindows || all % kSliceChannels != 0)
    return all;
  const std::int64_t slices = std::min(2 * threads / g.batch, g.image_cost() / kBandProducts);
  if (slices <= 1) return all;
  return (all / slices + kSliceChannels - 1) / kSliceChannels * kSliceChannels;
}

// Copies a matrix between memories with other lengths of rows.
void copy_rows(const float* from, std::int64_t from_pitch, float* to, std::int64_t to_pitch, std::int64_t rows,
               std::int64_t columns) {
  for (std::int64_t i = 0; i < rows; ++i) std::copy_n(from + i * from_pitch, columns, to + i * to_pitch);
}

// Rows of one image's result that a thread makes at once: fewer than all where a batch has fewer images than threads.
// The sums of an element are the same whatever band it is in (Conv.OfOneImageDoesNotDependOnThreads).
std::int64_t rows_per_band(const ConvGeometry& g, int threads) {
  const std::int64_t all = g.rows.output;
  if (g.channels_first || g.spatial != 2 || g.batch >= threads) return all;
  // Of small images with many channels, oneDNN chooses the order of sums by the rows that it is given, on some
  // processors.
  if (g.windows() < kSlicedWindows) return all;
  if (std::max(g.rows.before, g.rows.after) >= g.rows.reach()) return all;  // a band might have no row of the image
  const std::int64_t bands = std::min(2 * threads / g.batch, g.image_cost() / kBandProducts);
  return bands <= 1 ? all : (all + bands - 1) / bands;
}

// What makes rows [begin, end) of one image's result.
struct Band {
  ConvGeometry geometry;
  std::int64_t from, to;  // where it begins in the image and in the result, elements
};
Band band_of(const ConvGeometry& g, std::int64_t begin, std::int64_t end) {
  Band out{with_batch(g, 1), 0, begin * g.columns.output * g.out_channels};
  const std::int64_t first = g.rows.position(begin, 0), last = g.rows.position(end - 1, g.rows.kernel - 1) + 1;
  const std::int64_t from = std::max<std::int64_t>(first, 0), to = std::min(last, g.rows.input);
  WindowAxis& rows = out.geometry.rows;
  rows.input = to - from;
  rows.output = end - begin;
  rows.before = from - first;
  rows.after = last - to;
  out.from = from * g.columns.input * g.in_channels;
  return out;
}

// Zeroes an output that consists only of empty sums.
void clear(Tensor& t) { std::fill_n(t.mutable_raw(), t.num_bytes(), std::byte{0}); }

template <class T>
void add_bias_of(const ConvGeometry& g, FusedActivation activation, const T* bias, T* y) {
  if (g.channels_first) return add_bias_planes(activation, y, bias, g.batch, g.out_channels, g.windows(), y);
  add_bias(activation, y, bias, g.batch * g.windows(), g.out_channels, g.out_channels, y);
}

// How a convolution that is planned for inference differs.
struct Shortcuts {
  KeptLayout* kept = nullptr;  // of a constant filter
  bool bias_inside = false;    // the bias may be added where sums are made
  bool add = false;            // to what y has; only of floats with a bias, channels last, and no activation but relu
};

float ended(float sum, bool relu) { return !relu || sum > 0 ? sum : 0; }

// Returns false, and has done nothing, if slices of output channels are not what is best.
bool forward_in_slices(Parallelism& parallelism, const ConvGeometry& g, const float* x, const float* filter,
                       const float* bias, FusedActivation activation, float* y, const Shortcuts& shortcuts) {
  const std::int64_t all = g.out_channels, channels = channels_per_slice(g, parallelism.threads());
  if (channels == all) return false;
  const bool relu = activation == FusedActivation::relu;
  const bool inside = shortcuts.bias_inside && bias && (relu || activation == FusedActivation::none);
  if (shortcuts.add && !inside) return false;
  const std::int64_t slices = (all + channels - 1) / channels, windows = g.windows();
  parallelism.parallel_for(g.batch * slices, 1, [&](std::int64_t at, std::int64_t) {
    const std::int64_t image = at / slices, begin = at % slices * channels;
    ConvGeometry part = with_batch(g, 1);
    part.out_channels = std::min(channels, all - begin);
    const ScratchArray<float> sums(part.result_size());
    float* const to = y + image * g.result_size() + begin;
    if (shortcuts.add) copy_rows(to, all, sums.data(), part.out_channels, windows, part.out_channels);
    const ConvEnding ending = inside ? ConvEnding{bias + begin, shortcuts.add, relu} : ConvEnding{};
    if (!conv_forward(part, x + image * g.image_size(), filter + begin, {begin, all}, ending, sums.data(),
                      shortcuts.kept))
      fail(Code::internal, "oneDNN has no convolution for {} of {} output channels", part.out_channels, all);
    if (bias && !inside) add_bias_of(part, activation, bias + begin, sums.data());
    copy_rows(sums.data(), part.out_channels, to, all, windows, part.out_channels);
  });
  return true;
}

// `bias` may be null.
template <class T>
void forward(Parallelism& parallelism, const ConvGeometry& g, const T* x, const T* filter, const T* bias,
             FusedActivation activation, T* y, const Shortcuts& shortcuts) {
  const auto make = [&](const ConvGeometry& part, const T* from, T* to) {
    if constexpr (std::is_same_v<T, float>) {
      const bool relu = activation == FusedActivation::relu;
      if (shortcuts.bias_inside && bias && !g.channels_first && (relu || activation == FusedActivation::none) &&
          conv_forward(part, from, filter, {}, {.bias = bias, .add = shortcuts.add, .relu = relu}, to, shortcuts.kept))
        return;
      if (shortcuts.add) {
        const std::int64_t count = part.batch * part.result_size();
        const ScratchArray<float> sums(count);
        conv_forward(part, from, filter, sums.data(), shortcuts.kept);
        add_bias_of(part, FusedActivation::none, bias, sums.data());
        for (std::int64_t i = 0; i < count; ++i) to[i] = ended(sums[i] + to[i], relu);
        return;
      }
    }
    conv_forward(part, from, filter, to, shortcuts.kept);
    if (bias) add_bias_of(part, activation, bias, to);
  };
  if constexpr (std::is_same_v<T, float>)
    if (forward_in_slices(parallelism, g, x, filter, bias, activation, y, shortcuts)) return;
  const std::int64_t all = g.rows.output;
  // Products of unfolded images have sums that depend on their number of rows.
  const std::int64_t rows = std::is_same_v<T, double> ? all : rows_per_band(g, parallelism.threads());
  if (rows < all) {
    const std::int64_t bands = (all + rows - 1) / rows;
    return parallelism.parallel_for(g.batch * bands, 1, [&](std::int64_t at, std::int64_t) {
      const std::int64_t image = at / bands, begin = at % bands * rows;
      const Band band = band_of(g, begin, std::min(begin + rows, all));
      make(band.geometry, x + image * g.image_size() + band.from, y + image * g.result_size() + band.to);
    });
  }
  parallelism.parallel_for(g.batch, images_per_part(g), [&](std::int64_t begin, std::int64_t end) {
    make(with_batch(g, end - begin), x + begin * g.image_size(), y + begin * g.result_size());
  });
}

template <class T>
void backward_input(Parallelism& parallelism, const ConvGeometry& g, const T* filter, const T* dy, T* dx) {
  parallelism.parallel_for(g.batch, images_per_part(g), [&](std::int64_t begin, std::int64_t end) {
    conv_backward_input(with_batch(g, end - begin), filter, dy + begin * g.result_size(), dx + begin * g.image_size());
  });
}

// Adds the sums of the parts in order.
template <class T>
void backward_filter(Parallelism& parallelism, const ConvGeometry& g, const T* x, const T* dy, Compute<T>* d_filter) {
  const std::int64_t grain = std::max(images_per_part(g), (g.batch + kMaxFilterParts - 1) / kMaxFilterParts);
  const std::int64_t parts = (g.batch + grain - 1) / grain, size = g.filter_size();
  const ScratchArray<Compute<T>> others((parts - 1) * size);  // the first part's sum is made in place
  const auto sum = [&](std::int64_t part) { return part == 0 ? d_filter : others.data() + (part - 1) * size; };
  parallelism.parallel_for(g.batch, grain, [&](std::int64_t begin, std::int64_t end) {
    conv_backward_filter(with_batch(g, end - begin), x + begin * g.image_size(), dy + begin * g.result_size(),
                         sum(begin / grain));
  });
  for (std::int64_t part = 1; part < parts; ++part) {
    const Compute<T>* addend = sum(part);
    for (std::int64_t j = 0; j < size; ++j) d_filter[j] += addend[j];
  }
}

// f16 is computed in float, and so is bf16 on a CPU that cannot multiply it.
bool computes_natively(DType dtype) { return dtype != DType::f16 && (dtype != DType::bf16 || onednn::has_bf16()); }

// Calls fn.template operator()<T>() for the tensor's type.
template <class Fn>
void for_native(DType dtype, Fn fn) {
  dispatch(Types<float, double, BFloat16>{}, dtype, fn);
}

// A float copy in scratch memory.
class Widened {
 public:
  Widened(Parallelism& parallelism, const Tensor& t) : values_(t.num_elements()) {
    dispatch(Types<Half, BFloat16>{}, t.dtype(),
             [&]<class T>() { convert_elements(parallelism, t.data<T>(), values_.data(), t.num_elements()); });
  }
  const float* data() const { return values_.data(); }

 private:
  ScratchArray<float> values_;
};

void store(Parallelism& parallelism, const float* values, Tensor& out) {
  dispatch(Types<Half, BFloat16>{}, out.dtype(),
           [&]<class T>() { convert_elements(parallelism, values, out.mutable_data<T>(), out.num_elements()); });
}

// `bias` may be null.
void convolve(Parallelism& parallelism, const Tensor& x, const Tensor& filter, const Tensor* bias,
              FusedActivation activation, const ConvAttributes& options, Tensor& y, const Shortcuts& shortcuts) {
  check_conv_type(x.dtype());
  const ConvGeometry g = conv_geometry(x.shape(), filter.shape(), options);
  check_tensor("Conv: the filter", filter, x.dtype(), filter.shape());
  check_tensor("Conv: the output", y, x.dtype(), g.result_shape());
  if (bias) check_tensor("FusedConv: bias", *bias, x.dtype(), Shape{g.out_channels});
  if (g.empty() || !computes_natively(x.dtype())) {
    if (g.empty()) {
      clear(y);
    } else {
      const Widened image(parallelism, x), weights(parallelism, filter);
      const ScratchArray<float> result(y.num_elements());
      forward<float>(parallelism, g, image.data(), weights.data(), nullptr, activation, result.data(), {});
      store(parallelism, result.data(), y);
    }
    if (bias) bias_add(parallelism, y, *bias, y, activation, options.windows.format);
    return;
  }
  const Tensor image = aligned(x), weights = aligned(filter);
  for_native(x.dtype(), [&]<class T>() {
    forward<T>(parallelism, g, image.data<T>(), weights.data<T>(), bias ? bias->data<T>() : nullptr, activation,
               y.mutable_data<T>(), shortcuts);
  });
}

void to_input(Parallelism& parallelism, const ConvGeometry& g, const Tensor& filter, const Tensor& dy, Tensor& dx) {
  check_tensor("ConvBackpropInput: the filter", filter, dx.dtype(), filter.shape());
  check_tensor("ConvBackpropInput: dy", dy, dx.dtype(), g.result_shape());
  if (g.empty()) return clear(dx);
  if (!computes_natively(dx.dtype())) {
    const Widened weights(parallelism, filter), result(parallelism, dy);
    const ScratchArray<float> image(dx.num_elements());
    backward_input<float>(parallelism, g, weights.data(), result.data(), image.data());
    return store(parallelism, image.data(), dx);
  }
  const Tensor weights = aligned(filter), result = aligned(dy);
  for_native(dx.dtype(), [&]<class T>() {
    backward_input<T>(parallelism, g, weights.data<T>(), result.data<T>(), dx.mutable_data<T>());
  });
}

Kernel make_convolution(const KernelInit& init, bool fused, FusedActivation activation) {
  const auto kept = KeptLayout::of(init.constant(1));
  const bool bias_inside = init.attributes.has("_bias_inside");
  return [=, options = conv_attributes(init.attributes)](KernelContext& ctx) {
    const Tensor& x = ctx.input(0);
    Tensor y = ctx.allocate(x.dtype(), conv_shape(x.shape(), ctx.input(1).shape(), options));
    convolve(ctx.parallelism(), x, ctx.input(1), fused ? &ctx.input(2) : nullptr, activation, options, y,
             {.kept = kept.get(), .bias_inside = bias_inside});
    ctx.set_output(0, std::move(y));
  };
}

Kernel make_conv(const KernelInit& init) { return make_convolution(init, false, FusedActivation::none); }

Kernel make_fused_conv(const KernelInit& init) {
  return make_convolution(init, true, parse_activation(init.attributes.string("activation")));
}

// What input 3 has, in memory that may be written: its own where nobody else reads it.
Tensor residual_of(KernelContext& ctx) {
  if (Tensor taken = ctx.take_input(3); taken.valid()) return aligned(taken);
  const Tensor& given = ctx.input(3);
  Tensor out = ctx.allocate(DType::f32, given.shape());
  ctx.parallelism().parallel_for(given.num_elements(), kCopied, [&](std::int64_t begin, std::int64_t end) {
    std::copy(given.data<float>() + begin, given.data<float>() + end, out.mutable_data<float>() + begin);
  });
  return out;
}

// Sums and residual of which one is a single image for each of the other.
Tensor added_to_each(KernelContext& ctx, const Tensor& sums, const Tensor& residual, bool relu) {
  const std::int64_t images = sums.shape()[0] == 1 ? residual.shape()[0] : sums.shape()[0];
  Shape shape = sums.shape();
  shape.set_dim(0, images);
  for (const Tensor* part : {&sums, &residual}) {
    Shape all = part->shape();
    if (all.rank() > 0 && all[0] == 1) all.set_dim(0, images);
    if (all != shape)
      invalid_argument("ResidualConv: the convolution is {}, but the residual {}", sums.shape().to_string(),
                       residual.shape().to_string());
  }
  Tensor out = ctx.allocate(DType::f32, shape);
  const std::int64_t size = images == 0 ? 0 : shape.num_elements() / images;
  const auto image = [&](const Tensor& t, std::int64_t i) {
    return t.data<float>() + (t.shape()[0] == 1 ? 0 : i * size);
  };
  for (std::int64_t i = 0; i < images; ++i)
    std::transform(image(sums, i), image(sums, i) + size, image(residual, i), out.mutable_data<float>() + i * size,
                   [relu](float a, float b) { return ended(a + b, relu); });
  return out;
}

Kernel make_residual_conv(const KernelInit& init) {
  const auto kept = KeptLayout::of(init.constant(1));
  const FusedActivation activation = parse_activation(init.attributes.string("activation"));
  const bool relu = activation == FusedActivation::relu;
  const ConvAttributes options = conv_attributes(init.attributes);
  if (options.windows.format != DataFormat::channels_last || (!relu && activation != FusedActivation::none))
    invalid_argument("ResidualConv '{}': channels are first, or the activation is neither none nor relu",
                     init.node_name);
  return [=](KernelContext& ctx) {
    const Shape shape = conv_shape(ctx.input(0).shape(), ctx.input(1).shape(), options);
    const Tensor x = ctx.input(0);  // a reference, so that its memory is not taken for the residual's
    const bool alike = ctx.input(3).shape() == shape && x.num_elements() > 0 && ctx.input(1).num_elements() > 0;
    Tensor y = alike ? residual_of(ctx) : ctx.allocate(DType::f32, shape);
    convolve(ctx.parallelism(), x, ctx.input(1), &ctx.input(2), alike ? activation : FusedActivation::none, options, y,
             {.kept = kept.get(), .bias_inside = true, .add = alike});
    ctx.set_output(0, alike ? std::move(y) : added_to_each(ctx, y, ctx.input(3), relu));
  };
}

Kernel make_transpose(const KernelInit& init) {
  return [options = conv_attributes(init.attributes)](KernelContext& ctx) {
    const Tensor& sizes = ctx.input(2);
    check_rank("ConvTranspose: sizes", sizes.shape(), 1);
    const ConvGeometry g =
        transposed_geometry(ctx.input(0).shape(), ctx.input(1).shape(), options, sizes.values<std::int64_t>());
    Tensor y = ctx.allocate(ctx.input(0).dtype(), g.image_shape());
    to_input(ctx.parallelism(), g, ctx.input(1), ctx.input(0), y);
    ctx.set_output(0, std::move(y));
  };
}

Kernel make_backprop_input(const KernelInit& init) {
  return [options = conv_attributes(init.attributes)](KernelContext& ctx) {
    const Tensor& x = ctx.input(0);  // for its shape
    Tensor dx = ctx.allocate(x.dtype(), x.shape());
    conv_backprop_input(ctx.parallelism(), ctx.input(1), ctx.input(2), options, dx);
    ctx.set_output(0, std::move(dx));
  };
}

Kernel make_backprop_filter(const KernelInit& init) {
  return [options = conv_attributes(init.attributes)](KernelContext& ctx) {
    const Tensor& filter = ctx.input(1);  // for its shape
    Tensor d_filter = ctx.allocate(filter.dtype(), filter.shape());
    conv_backprop_filter(ctx.parallelism(), ctx.input(0), ctx.input(2), options, d_filter);
    ctx.set_output(0, std::move(d_filter));
  };
}

}  // namespace

void conv(Parallelism& parallelism, const Tensor& x, const Tensor& filter, const ConvAttributes& options, Tensor& y) {
  convolve(parallelism, x, filter, nullptr, FusedActivation::none, options, y, {});
}

void conv_backprop_input(Parallelism& parallelism, const Tensor& filter, const Tensor& dy,
                         const ConvAttributes& options, Tensor& dx) {
  check_conv_type(dx.dtype());
  to_input(parallelism, conv_geometry(dx.shape(), filter.shape(), options), filter, dy, dx);
}

void conv_backprop_filter(Parallelism& parallelism, const Tensor& x, const Tensor& dy, const ConvAttributes& options,
                          Tensor& d_filter) {
  check_conv_type(d_filter.dtype());
  const ConvGeometry g = conv_geometry(x.shape(), d_filter.shape(), options);
  check_tensor("ConvBackpropFilter: x", x, d_filter.dtype(), x.shape());
  check_tensor("ConvBackpropFilter: dy", dy, d_filter.dtype(), g.result_shape());
  if (g.empty()) return clear(d_filter);
  if (!computes_natively(d_filter.dtype())) {
    const Widened image(parallelism, x), result(parallelism, dy);
    const ScratchArray<float> sum(d_filter.num_elements());
    backward_filter<float>(parallelism, g, image.data(), result.data(), sum.data());
    return store(parallelism, sum.data(), d_filter);
  }
  const Tensor image = aligned(x), result = aligned(dy);
  for_native(d_filter.dtype(), [&]<class T>() {
    if constexpr (std::is_same_v<T, Compute<T>>) {
      backward_filter<T>(parallelism, g, image.data<T>(), result.data<T>(), d_filter.mutable_data<T>());
    } else {
      const ScratchArray<float> sum(d_filter.num_elements());
      backward_filter<T>(parallelism, g, image.data<T>(), result.data<T>(), sum.data());
      store(parallelism, sum.data(), d_filter);
    }
  });
}

void register_conv_kernels(KernelRegistry& registry) {
  const std::vector<DType> types{DType::f32, DType::f64, DType::f16, DType::bf16};
  registry.add({"Conv", "CPU", types, make_conv});
  registry.add({"FusedConv", "CPU", types, make_fused_conv});
  registry.add({"ResidualConv", "CPU", {DType::f32}, make_residual_conv});
  registry.add({"ConvBackpropInput", "CPU", types, make_backprop_input});
  registry.add({"ConvBackpropFilter", "CPU", types, make_backprop_filter});
  registry.add({"ConvTranspose", "CPU", types, make_transpose});
}

}  // namespace troupe
