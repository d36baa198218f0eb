#include "troupe/graph/builder/conv.hpp"

#include <troupe/graph/builder/array.hpp>

namespace troupe {
namespace {

template <class Options>
Attributes conv_attributes_of(const Options& options) {
  return {{"strides", options.strides}, {"dilations", options.dilations},
          {"groups", options.groups},   {"padding", to_string(options.padding)},
          {"pads", options.pads},       {"data_format", to_string(options.format)}};
}

Output conv_of_rank(const char* function, int rank, Output x, Output filter, ConvOptions options) {
  const Shape& shape = x.shape();
  if (shape.has_rank() && shape.rank() != rank)
    invalid_argument("{}: x must have {} dimensions, but its shape is {}", function, rank, shape.to_string());
  return conv(x, filter, std::move(options));
}

}  // namespace

Output conv(Output x, Output filter, ConvOptions options) {
  return add_op("Conv", {std::move(x), std::move(filter)}, conv_attributes_of(options), std::move(options.name));
}
Output conv1d(Output x, Output filter, ConvOptions options) {
  return conv_of_rank("conv1d", 3, x, filter, std::move(options));
}
Output conv2d(Output x, Output filter, ConvOptions options) {
  return conv_of_rank("conv2d", 4, x, filter, std::move(options));
}
Output conv3d(Output x, Output filter, ConvOptions options) {
  return conv_of_rank("conv3d", 5, x, filter, std::move(options));
}

Output depthwise_conv2d(Output x, Output filter, ConvOptions options) {
  const bool first = options.format == DataFormat::channels_first;
  const Shape image = x.shape(), given = filter.shape();
  if (image.has_rank() && image.rank() != 4)
    invalid_argument("depthwise_conv2d: x must have 4 dimensions, but its shape is {}", image.to_string());
  if (given.has_rank() && given.rank() != 4)
    invalid_argument("depthwise_conv2d: the filter must have 4 dimensions, but its shape is {}", given.to_string());
  std::int64_t channels = image.has_rank() ? image[first ? 1 : 3] : kUnknown;
  if (channels == kUnknown && !first && given.has_rank()) channels = given[2];
  if (channels == kUnknown)
    invalid_argument("depthwise_conv2d: the number of channels must be known, but x is {} and the filter {}",
                     image.to_string(), given.to_string());
  options.groups = channels;
  if (first) return conv(x, filter, std::move(options));
  if (!given.fully_known())
    invalid_argument("depthwise_conv2d: the filter's shape must be known, but is {}", given.to_string());
  if (given[2] != channels)
    invalid_argument("depthwise_conv2d: the input has {} channels, but the filter is for {}: {} and {}", channels,
                     given[2], image.to_string(), given.to_string());
  return conv(x, reshape(filter, Shape{given[0], given[1], 1, given[2] * given[3]}), std::move(options));
}

Output separable_conv2d(Output x, Output depthwise, Output pointwise, ConvOptions options) {
  const DataFormat format = options.format;
  const Name name = std::exchange(options.name, {});
  return conv2d(depthwise_conv2d(x, depthwise, std::move(options)), pointwise, {.format = format, .name = name});
}

Output conv_transpose(Output x, Output filter, Output sizes, ConvTransposeOptions options) {
  Attributes attributes = conv_attributes_of(options);
  attributes.set("output_padding", options.output_padding);
  return add_op("ConvTranspose", {x, filter, sizes}, std::move(attributes), std::move(options.name));
}
Output conv_transpose(Output x, Output filter, Integers sizes, ConvTransposeOptions options) {
  const std::span<const std::int64_t> values(sizes);
  const Output given =
      constant(*x.graph, Tensor::of<std::int64_t>(Shape{static_cast<std::int64_t>(sizes.size())}, values));
  return conv_transpose(x, filter, given, std::move(options));
}
Output conv_transpose(Output x, Output filter, ConvTransposeOptions options) {
  return conv_transpose(x, filter, Integers{}, std::move(options));
}

Output conv_integer(Output x, Output filter, Output x_zero, Output filter_zero, ConvOptions options) {
  return add_op("ConvInteger", {std::move(x), std::move(filter), std::move(x_zero), std::move(filter_zero)},
                conv_attributes_of(options), std::move(options.name));
}

}  // namespace troupe
