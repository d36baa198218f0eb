// Differences from the zeros are in 16 bits; each window has a scalar product with each filter, which is one
// instruction for two products of neighbours.
#include "troupe/kernels/cpu/conv_integer.hpp"

#include <algorithm>

#include <troupe/kernels/common/conv_geometry.hpp>
#include <troupe/kernels/common/tensor_checks.hpp>
#include <troupe/kernels/cpu/families.hpp>
#include <troupe/kernels/cpu/scratch.hpp>
#include <troupe/messages/element_types.hpp>

namespace troupe {
namespace {

using ByteTypes = Types<std::int8_t, std::uint8_t>;

std::int32_t dot(const std::int16_t* __restrict a, const std::int16_t* __restrict b, std::int64_t n) {
  std::uint32_t sum = 0;  // wraps
  for (std::int64_t i = 0; i < n; ++i)
    sum += static_cast<std::uint32_t>(static_cast<std::int32_t>(a[i]) * static_cast<std::int32_t>(b[i]));
  return static_cast<std::int32_t>(sum);
}

// The filter minus its zeros as [out, taps, in / groups].
void difference_of_filter(const ConvGeometry& g, const Tensor& filter, const Tensor& zero, std::int16_t* to) {
  const std::int64_t taps = g.taps(), in = g.group_in(), out = g.out_channels;
  dispatch(ByteTypes{}, filter.dtype(), [&]<class T>() {
    const T *const from = filter.data<T>(), *const zeros = zero.data<T>();
    const bool each = zero.num_elements() > 1;
    for (std::int64_t o = 0; o < out; ++o)
      for (std::int64_t tap = 0; tap < taps; ++tap)
        for (std::int64_t c = 0; c < in; ++c) {
          const std::int64_t at = g.channels_first ? (o * in + c) * taps + tap : (tap * in + c) * out + o;
          to[(o * taps + tap) * in + c] = static_cast<std::int16_t>(from[at] - zeros[each ? o : 0]);
        }
  });
}

// One image minus its zero as [pixels, in].
template <class T>
void difference_of_image(const ConvGeometry& g, const T* from, T zero, std::int16_t* to) {
  const std::int64_t pixels = g.image_pixels(), in = g.in_channels;
  if (!g.channels_first) {
    for (std::int64_t i = 0; i < pixels * in; ++i) to[i] = static_cast<std::int16_t>(from[i] - zero);
    return;
  }
  for (std::int64_t c = 0; c < in; ++c)
    for (std::int64_t i = 0; i < pixels; ++i) to[i * in + c] = static_cast<std::int16_t>(from[c * pixels + i] - zero);
}

// The elements of one window in one group: [taps, in / groups], 0 outside of the image.
void unfold_window(const ConvGeometry& g, const std::int16_t* image, std::array<std::int64_t, kMaxSpatial> window,
                   std::int64_t group, std::int16_t* to) {
  const std::int64_t in = g.group_in();
  const auto inside = [](const WindowAxis& axis, std::int64_t at) { return at >= 0 && at < axis.input; };
  for (std::int64_t kz = 0; kz < g.depth.kernel; ++kz)
    for (std::int64_t ky = 0; ky < g.rows.kernel; ++ky)
      for (std::int64_t kx = 0; kx < g.columns.kernel; ++kx, to += in) {
        const std::int64_t z = g.depth.position(window[0], kz), y = g.rows.position(window[1], ky),
                           x = g.columns.position(window[2], kx);
        if (!inside(g.depth, z) || !inside(g.rows, y) || !inside(g.columns, x)) {
          std::fill_n(to, in, std::int16_t{0});
          continue;
        }
        std::copy_n(image + ((z * g.rows.input + y) * g.columns.input + x) * g.in_channels + group * in, in, to);
      }
}

void convolve_image(const ConvGeometry& g, const std::int16_t* image, const std::int16_t* filter, std::int32_t* y) {
  const std::int64_t patch = g.patch_size(), out = g.group_out();
  const ScratchArray<std::int16_t> window(patch);
  std::int64_t at = 0;
  for (std::int64_t z = 0; z < g.depth.output; ++z)
    for (std::int64_t r = 0; r < g.rows.output; ++r)
      for (std::int64_t c = 0; c < g.columns.output; ++c, ++at)
        for (std::int64_t group = 0; group < g.groups; ++group) {
          unfold_window(g, image, {z, r, c}, group, window.data());
          for (std::int64_t o = group * out; o < (group + 1) * out; ++o)
            y[g.channels_first ? o * g.windows() + at : at * g.out_channels + o] =
                dot(window.data(), filter + o * patch, patch);
        }
}

void check_zero(std::string_view what, const Tensor& zero, const Tensor& of, std::int64_t channels) {
  if (zero.dtype() != of.dtype() || (zero.num_elements() != 1 && !(zero.shape() == Shape{channels})))
    invalid_argument("ConvInteger: {} must be a scalar of {}{}, but is {}{}", what, name(of.dtype()),
                     channels > 0 ? " or one for each output channel" : "", name(zero.dtype()),
                     zero.shape().to_string());
}

Kernel make_conv_integer(const KernelInit& init) {
  return [options = conv_attributes(init.attributes)](KernelContext& ctx) {
    const Tensor &x = ctx.input(0), &filter = ctx.input(1), &x_zero = ctx.input(2);
    const ConvGeometry g = conv_geometry(x.shape(), filter.shape(), options);
    check_zero("the zero of x", x_zero, x, -1);
    check_zero("the filter's zero", ctx.input(3), filter, g.out_channels);
    Tensor y = ctx.allocate(DType::i32, g.result_shape());
    conv_integer(ctx.parallelism(), g, x, filter, x_zero, ctx.input(3), y.mutable_data<std::int32_t>());
    ctx.set_output(0, std::move(y));
  };
}

}  // namespace

void conv_integer(Parallelism& parallelism, const ConvGeometry& g, const Tensor& x, const Tensor& filter,
                  const Tensor& x_zero, const Tensor& filter_zero, std::int32_t* sums) {
  std::fill_n(sums, g.batch * g.result_size(), 0);
  if (g.empty()) return;
  const ScratchArray<std::int16_t> weights(g.filter_size());
  difference_of_filter(g, filter, filter_zero, weights.data());
  const std::int64_t grain = std::max<std::int64_t>(1, (std::int64_t{1} << 20) / g.image_cost());
  dispatch(ByteTypes{}, x.dtype(), [&]<class T>() {
    parallelism.parallel_for(g.batch, grain, [&](std::int64_t begin, std::int64_t end) {
      const ScratchArray<std::int16_t> image(g.image_size());
      for (std::int64_t i = begin; i < end; ++i) {
        difference_of_image(g, x.data<T>() + i * g.image_size(), *x_zero.data<T>(), image.data());
        convolve_image(g, image.data(), weights.data(), sums + i * g.result_size());
      }
    });
  });
}

void register_conv_integer_kernels(KernelRegistry& registry) {
  registry.add({"ConvInteger", "CPU", {DType::i8, DType::u8}, make_conv_integer});
}

}  // namespace troupe
