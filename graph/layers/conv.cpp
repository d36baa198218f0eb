#include "troupe/graph/layers/conv.hpp"

#include <troupe/graph/layers/standard_layer.hpp>

namespace troupe {
namespace {

// The digit in "conv2d".
int conv_rank(const LayerConfig& config) { return config.kind[config.kind.find_first_of("123")] - '0'; }

const char* image_of(int rank) {
  constexpr const char* kImages[] = {"[n, steps, channels]", "[n, height, width, channels]",
                                     "[n, depth, height, width, channels]"};
  return kImages[rank - 1];
}

Integers or_ones(const Integers& numbers, int rank) {
  return numbers.empty() ? Integers(static_cast<std::size_t>(rank), 1) : numbers;
}

Shape shape_with(const Integers& size, std::int64_t a, std::int64_t b) {
  return Shape(std::span<const std::int64_t>(size)).with_appended(a).with_appended(b);
}

struct ConvInput {
  Output x{};
  int rank = 2;
  std::int64_t channels = 0;
  double window = 1;  // elements of the kernel
  DType weights = DType::invalid;
};

ConvInput conv_input(const LayerConfig& config, LayerContext& context, Output x) {
  const int rank = conv_rank(config);
  require_floating(x);
  require_rank(x, rank + 2, image_of(rank));
  ConvInput in{.rank = rank, .channels = known_dim(x, -1, "number of channels"), .weights = context.weight_type(x)};
  for (const std::int64_t size : config.options.integers("size")) in.window *= static_cast<double>(size);
  in.x = x;
  return in;
}

troupe::ConvOptions conv_options(const LayerConfig& config, int rank) {
  troupe::ConvOptions options{.strides = or_ones(config.options.integers("strides"), rank),
                              .dilations = or_ones(config.options.integers("dilations"), rank),
                              .groups = config.options.integer("groups"),
                              .padding = parse_padding(config.options.string("padding"))};
  if (config.options.boolean("causal")) {
    options.padding = Padding::explicit_pads;
    options.pads = {(config.options.integers("size")[0] - 1) * options.dilations[0], 0};
  }
  return options;
}

Output finished_conv(const LayerConfig& config, LayerContext& context, Output y, std::int64_t filters, DType weights) {
  return activated(config, context, with_bias(config, context, y, filters, weights));
}

Output apply_conv(const LayerConfig& config, LayerContext& context, Output input) {
  const ConvInput in = conv_input(config, context, input);
  const std::int64_t filters = config.options.integer("filters"), groups = config.options.integer("groups");
  if (in.channels % groups != 0)
    invalid_argument("the input has {} channels, which {} groups do not divide", in.channels, groups);
  const DType compute = compute_of(config, context, input);
  const WeightSpec spec{.dtype = in.weights,
                        .shape = shape_with(config.options.integers("size"), in.channels / groups, filters),
                        .fan_in = in.window * static_cast<double>(in.channels / groups),
                        .fan_out = in.window * static_cast<double>(filters)};
  const Output kernel = cast(weight_of(config, context, "kernel", spec, initializers::glorot_uniform()), compute);
  const Output y = conv(cast(input, compute), kernel, conv_options(config, in.rank));
  return finished_conv(config, context, y, filters, in.weights);
}

// As a convolution whose groups are the channels: kernel [size..., c, m] is one of [size..., 1, c m].
Output depthwise(const LayerConfig& config, LayerContext& context, const ConvInput& in, DType compute) {
  const std::int64_t multiplier = config.options.integer("multiplier");
  const WeightSpec spec{.dtype = in.weights,
                        .shape = shape_with(config.options.integers("size"), in.channels, multiplier),
                        .fan_in = in.window * static_cast<double>(in.channels),
                        .fan_out = in.window * static_cast<double>(multiplier)};
  const Output kernel = cast(weight_of(config, context, "kernel", spec, initializers::glorot_uniform()), compute);
  troupe::ConvOptions options = conv_options(config, in.rank);
  options.groups = in.channels;
  const Output x = cast(in.x, compute);
  return conv(x, reshape(kernel, shape_with(config.options.integers("size"), 1, in.channels * multiplier)), options);
}

Output apply_depthwise(const LayerConfig& config, LayerContext& context, Output input) {
  const ConvInput in = conv_input(config, context, input);
  const Output y = depthwise(config, context, in, compute_of(config, context, input));
  return finished_conv(config, context, y, in.channels * config.options.integer("multiplier"), in.weights);
}

Output apply_separable(const LayerConfig& config, LayerContext& context, Output input) {
  const ConvInput in = conv_input(config, context, input);
  const DType compute = compute_of(config, context, input);
  const Output x = depthwise(config, context, in, compute);
  const std::int64_t filters = config.options.integer("filters"), channels = x.shape()[-1];
  const WeightSpec spec{.dtype = in.weights,
                        .shape = shape_with(Integers(static_cast<std::size_t>(in.rank), 1), channels, filters),
                        .fan_in = static_cast<double>(channels),
                        .fan_out = static_cast<double>(filters)};
  const Output pointwise = cast(weight_of(config, context, "pointwise", spec, initializers::glorot_uniform()), compute);
  return finished_conv(config, context, conv(x, pointwise, {.padding = Padding::valid}), filters, in.weights);
}

Output apply_transposed(const LayerConfig& config, LayerContext& context, Output input) {
  const ConvInput in = conv_input(config, context, input);
  const Integers& size = config.options.integers("size");
  const std::int64_t filters = config.options.integer("filters"), groups = config.options.integer("groups");
  const DType compute = compute_of(config, context, input);
  const WeightSpec spec{.dtype = in.weights,
                        .shape = shape_with(size, filters / groups, in.channels),
                        .fan_in = in.window * static_cast<double>(filters / groups),
                        .fan_out = in.window * static_cast<double>(in.channels)};
  const Output kernel = cast(weight_of(config, context, "kernel", spec, initializers::glorot_uniform()), compute);
  const troupe::ConvOptions like = conv_options(config, in.rank);
  ConvTransposeOptions options{
      .strides = like.strides, .dilations = like.dilations, .groups = groups, .padding = like.padding};
  // As if windows of a stride had been left over.
  if (like.padding == Padding::valid)
    for (std::size_t i = 0; i < size.size(); ++i)
      options.output_padding.push_back(
          std::max<std::int64_t>(like.strides[i] - ((size[i] - 1) * like.dilations[i] + 1), 0));
  const Output y = conv_transpose(cast(input, compute), kernel, options);
  return finished_conv(config, context, y, filters, in.weights);
}

void check_conv(const LayerConfig& config) {
  const auto rank = static_cast<std::size_t>(conv_rank(config));
  for (const char* option : {"filters", "multiplier", "groups"})
    if (config.options.has(option)) require_positive(config, option);
  require_all_positive(config, "size");
  if (const std::size_t count = config.options.integers("size").size(); count != rank)
    invalid_argument("size is {} numbers, one for each axis, not {}", rank, count);
  for (const char* option : {"strides", "dilations"}) {
    require_all_positive(config, option);
    if (const std::size_t count = config.options.integers(option).size(); count != 0 && count != rank)
      invalid_argument("{} are {} numbers, one for each axis, not {}", option, rank, count);
  }
  if (const Padding padding = parse_padding(config.options.string("padding")); padding == Padding::explicit_pads)
    invalid_argument("padding must be valid, same or same_lower; put zero_padding() before the layer for others");
  else if (config.options.boolean("causal") && (rank != 1 || padding != Padding::valid))
    invalid_argument("only a convolution of one dimension with valid padding can be causal");
  if (!config.options.has("filters")) return;
  const std::int64_t groups = config.options.integer("groups"), filters = config.options.integer("filters");
  if (filters % groups != 0) invalid_argument("{} filters cannot be cut into {} groups", filters, groups);
}

void check_transposed(const LayerConfig& config) {
  check_conv(config);
  if (config.options.boolean("causal")) invalid_argument("a transposed convolution cannot be causal");
}

void check_one_group(const LayerConfig& config) {
  check_conv(config);
  if (config.options.integer("groups") != 1) invalid_argument("the groups are the channels: leave out `groups`");
}

Attributes conv_defaults(std::initializer_list<const char*> sizes) {
  Attributes options{{"size", Integers{}},        {"strides", Integers{}}, {"dilations", Integers{}},
                     {"groups", std::int64_t{1}}, {"padding", "valid"},    {"causal", false},
                     {"activation", "none"},      {"use_bias", true},      {"compute", ""}};
  for (const char* size : sizes) options.set(size, std::int64_t{1});
  return options;
}

LayerConfig conv_config(std::string kind, Integers size, Activation activation, const layers::ConvOptions& options) {
  require_compute_type(kind.c_str(), options.compute);
  LayerConfig config{.kind = std::move(kind),
                     .options = {{"size", std::move(size)},
                                 {"strides", options.strides},
                                 {"dilations", options.dilations},
                                 {"groups", options.groups},
                                 {"padding", to_string(options.padding)},
                                 {"causal", options.causal},
                                 {"activation", to_string(activation)},
                                 {"use_bias", options.use_bias},
                                 {"compute", compute_option(options.compute)}}};
  set_weight(config, "kernel", options.kernel);
  set_weight(config, "bias", options.bias);
  return config;
}

LayerPtr conv_of(std::string kind, std::int64_t filters, Integers size, Activation activation,
                 const layers::ConvOptions& options) {
  LayerConfig config = conv_config(std::move(kind), std::move(size), activation, options);
  config.options.set("filters", filters);
  return standard_layer(std::move(config));
}

LayerPtr depthwise_of(std::string kind, Integers size, std::int64_t multiplier, Activation activation,
                      const layers::ConvOptions& options) {
  LayerConfig config = conv_config(std::move(kind), std::move(size), activation, options);
  config.options.set("multiplier", multiplier);
  return standard_layer(std::move(config));
}

LayerPtr separable_of(std::string kind, std::int64_t filters, Integers size, Activation activation,
                      const layers::ConvOptions& options, std::int64_t multiplier) {
  LayerConfig config = conv_config(std::move(kind), std::move(size), activation, options);
  config.options.set("filters", filters);
  config.options.set("multiplier", multiplier);
  set_weight(config, "pointwise", options.kernel);
  return standard_layer(std::move(config));
}

}  // namespace

std::span<const LayerKind> conv_kinds() {
  static const std::vector<LayerKind> kinds = [] {
    std::vector<LayerKind> all;
    const auto add = [&](std::string name, std::initializer_list<const char*> sizes, auto apply, auto check,
                         std::vector<std::string> weights) {
      all.push_back({.name = std::move(name),
                     .options = conv_defaults(sizes),
                     .apply = apply,
                     .check = check,
                     .weights = std::move(weights)});
    };
    for (const char* rank : {"1d", "2d", "3d"}) {
      add(fmt::format("conv{}", rank), {"filters"}, of_one<apply_conv>, check_conv, {"kernel", "bias"});
      add(fmt::format("conv{}_transpose", rank), {"filters"}, of_one<apply_transposed>, check_transposed,
          {"kernel", "bias"});
    }
    for (const char* rank : {"1d", "2d"}) {
      add(fmt::format("depthwise_conv{}", rank), {"multiplier"}, of_one<apply_depthwise>, check_one_group,
          {"kernel", "bias"});
      add(fmt::format("separable_conv{}", rank), {"filters", "multiplier"}, of_one<apply_separable>, check_one_group,
          {"kernel", "pointwise", "bias"});
    }
    return all;
  }();
  return kinds;
}

namespace layers {

LayerPtr conv1d(std::int64_t filters, std::int64_t size, Activation activation, ConvOptions options) {
  return conv_of("conv1d", filters, {size}, activation, options);
}
LayerPtr conv2d(std::int64_t filters, std::int64_t size, Activation activation, ConvOptions options) {
  return conv_of("conv2d", filters, {size, size}, activation, options);
}
LayerPtr conv2d(std::int64_t filters, Integers size, Activation activation, ConvOptions options) {
  return conv_of("conv2d", filters, std::move(size), activation, options);
}
LayerPtr conv3d(std::int64_t filters, Integers size, Activation activation, ConvOptions options) {
  return conv_of("conv3d", filters, std::move(size), activation, options);
}
LayerPtr depthwise_conv1d(std::int64_t size, std::int64_t multiplier, Activation activation, ConvOptions options) {
  return depthwise_of("depthwise_conv1d", {size}, multiplier, activation, options);
}
LayerPtr depthwise_conv2d(Integers size, std::int64_t multiplier, Activation activation, ConvOptions options) {
  return depthwise_of("depthwise_conv2d", std::move(size), multiplier, activation, options);
}
LayerPtr separable_conv1d(std::int64_t filters, std::int64_t size, Activation activation, ConvOptions options,
                          std::int64_t multiplier) {
  return separable_of("separable_conv1d", filters, {size}, activation, options, multiplier);
}
LayerPtr separable_conv2d(std::int64_t filters, Integers size, Activation activation, ConvOptions options,
                          std::int64_t multiplier) {
  return separable_of("separable_conv2d", filters, std::move(size), activation, options, multiplier);
}
LayerPtr conv1d_transpose(std::int64_t filters, std::int64_t size, Activation activation, ConvOptions options) {
  return conv_of("conv1d_transpose", filters, {size}, activation, options);
}
LayerPtr conv2d_transpose(std::int64_t filters, Integers size, Activation activation, ConvOptions options) {
  return conv_of("conv2d_transpose", filters, std::move(size), activation, options);
}
LayerPtr conv3d_transpose(std::int64_t filters, Integers size, Activation activation, ConvOptions options) {
  return conv_of("conv3d_transpose", filters, std::move(size), activation, options);
}

}  // namespace layers
}  // namespace troupe
