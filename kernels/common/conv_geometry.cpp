#include "troupe/kernels/common/conv_geometry.hpp"

#include <troupe/kernels/common/tensor_checks.hpp>

namespace troupe {
namespace {

Shape with_channels(const ConvGeometry& g, std::int64_t channels, std::int64_t WindowAxis::*size) {
  std::array<std::int64_t, kMaxSpatial + 2> dims{};
  const std::array<const WindowAxis*, kMaxSpatial> axes{&g.depth, &g.rows, &g.columns};
  std::size_t at = 0;
  dims[at++] = g.batch;
  if (g.channels_first) dims[at++] = channels;
  for (int i = kMaxSpatial - g.spatial; i < kMaxSpatial; ++i) dims[at++] = axes[static_cast<std::size_t>(i)]->*size;
  if (!g.channels_first) dims[at++] = channels;
  return Shape(std::span<const std::int64_t>(dims.data(), at));
}

// Everything but the axes: `image` gives batch and spatial rank, its channels are the convolution's input.
ConvGeometry without_axes(std::string_view op, const Shape& image, const Shape& filter, const ConvAttributes& options,
                          bool image_is_result) {
  const int spatial = image.rank() - 2;
  check_window_options(options.windows, spatial);
  check_rank("Conv: the filter", filter, spatial + 2);
  const bool first = options.windows.channels_first();
  const std::int64_t each = filter[first ? 1 : spatial], out = filter[first ? 0 : spatial + 1];
  const std::int64_t channels = image[options.windows.channel_axis(spatial + 2)];
  if (options.groups < 1 || out % options.groups != 0)
    invalid_argument("{}: the filter's {} output channels are no {} equal groups: {}", op, out, options.groups,
                     filter.to_string());
  const bool fits =
      image_is_result ? channels == out : channels % options.groups == 0 && channels / options.groups == each;
  if (!fits)
    invalid_argument("{}: x {} has {} channels, but the filter {} takes {}", op, image.to_string(), channels,
                     filter.to_string(),
                     image_is_result       ? std::to_string(out)
                     : options.groups == 1 ? std::to_string(each)
                                           : fmt::format("{} groups of {}", options.groups, each));
  return {.batch = image[0],
          .in_channels = each * options.groups,
          .out_channels = out,
          .groups = options.groups,
          .spatial = spatial,
          .channels_first = first};
}

// Calls fn(axis of the geometry, its number, its size in the image, the filter's).
template <class Fn>
void for_axes(ConvGeometry& g, const Shape& image, const Shape& filter, const ConvAttributes& options, Fn fn) {
  const std::array<WindowAxis*, kMaxSpatial> axes{&g.depth, &g.rows, &g.columns};
  const int first = options.windows.spatial_axis(), filter_first = g.channels_first ? 2 : 0;
  for (int i = 0; i < g.spatial; ++i)
    fn(*axes[static_cast<std::size_t>(kMaxSpatial - g.spatial + i)], i, image[first + i], filter[filter_first + i]);
}

}  // namespace

Shape ConvGeometry::image_shape() const { return with_channels(*this, in_channels, &WindowAxis::input); }
Shape ConvGeometry::result_shape() const { return with_channels(*this, out_channels, &WindowAxis::output); }

ConvAttributes conv_attributes(const Attributes& attributes) {
  ConvAttributes out{.windows = window_options(attributes)};
  if (attributes.has("groups")) out.groups = attributes.integer("groups");
  if (attributes.has("output_padding")) out.output_padding = attributes.integers("output_padding");
  return out;
}

void check_conv_type(DType dtype) {
  if (!is_floating(dtype)) invalid_argument("Conv requires a floating-point dtype, not {}", name(dtype));
}

ConvGeometry conv_geometry(const Shape& x, const Shape& filter, const ConvAttributes& options) {
  ConvGeometry g = without_axes("Conv", x, filter, options, false);
  for_axes(g, x, filter, options, [&](WindowAxis& axis, int i, std::int64_t input, std::int64_t kernel) {
    axis = window_axis(options.windows, i, g.spatial, input, kernel);
  });
  return g;
}

ConvGeometry transposed_geometry(const Shape& x, const Shape& filter, const ConvAttributes& options,
                                 std::span<const std::int64_t> sizes) {
  ConvGeometry g = without_axes("ConvTranspose", x, filter, options, true);
  const auto fits = [&](std::size_t count) { return count == 0 || count == static_cast<std::size_t>(g.spatial); };
  if (!fits(sizes.size()) || !fits(options.output_padding.size()))
    invalid_argument("ConvTranspose: {} sizes and {} output paddings for {} spatial dimensions", sizes.size(),
                     options.output_padding.size(), g.spatial);
  for_axes(g, x, filter, options, [&](WindowAxis& axis, int i, std::int64_t output, std::int64_t kernel) {
    const auto at = static_cast<std::size_t>(i);
    if (!sizes.empty() && sizes[at] < 0) invalid_argument("ConvTranspose: a size of {}", sizes[at]);
    axis = transposed_axis(options.windows, i, g.spatial, output, kernel,
                           options.output_padding.empty() ? 0 : options.output_padding[at],
                           sizes.empty() ? kUnknown : sizes[at]);
  });
  return g;
}

Shape conv_shape(const Shape& x, const Shape& filter, const ConvAttributes& options) {
  return conv_geometry(x, filter, options).result_shape();
}

}  // namespace troupe
