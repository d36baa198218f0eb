// Layers that change the size of images: pools, up-sampling, padding, cropping.
#include <troupe/graph/layers/conv.hpp>
#include <troupe/graph/layers/standard_layer.hpp>

namespace troupe {
namespace {

constexpr const char* kPooled[] = {"[n, steps, channels]", "[n, height, width, channels]",
                                   "[n, depth, height, width, channels]"};

Output apply_pool(const LayerConfig& config, LayerContext&, Output x) {
  const Integers& size = config.options.integers("size");
  const Integers& strides = config.options.integers("strides");
  require_rank(x, static_cast<int>(size.size()) + 2, kPooled[size.size() - 1]);
  troupe::PoolOptions options{.ksize = size,
                              .strides = strides.empty() ? size : strides,
                              .padding = parse_padding(config.options.string("padding"))};
  return config.kind.starts_with("max") ? troupe::max_pool(x, std::move(options))
                                        : troupe::avg_pool(x, std::move(options));
}

void check_pool(const LayerConfig& config) {
  const std::size_t rank = config.kind.ends_with("1d") ? 1 : config.kind.ends_with("3d") ? 3 : 2;
  require_all_positive(config, "size");
  require_all_positive(config, "strides");
  if (const std::size_t count = config.options.integers("size").size(); count != rank)
    invalid_argument("size is {} numbers, one for each axis, not {}", rank, count);
  if (const std::size_t count = config.options.integers("strides").size(); count != 0 && count != rank)
    invalid_argument("strides are {} numbers, one for each axis, not {}", rank, count);
  if (parse_padding(config.options.string("padding")) == Padding::explicit_pads)
    invalid_argument("padding must be valid, same or same_lower");
}

Integers spatial_axes(Output x) {
  require_rank(x, 3, 5, "[n, spatial..., channels]");
  Integers axes;
  for (int axis = 1; axis < x.shape().rank() - 1; ++axis) axes.push_back(axis);
  return axes;
}

// Of x, and perhaps a mask of its positions.
Outputs apply_global_average(const LayerConfig&, LayerContext&, const Outputs& xs) {
  const Output x = xs[0];
  const Integers axes = spatial_axes(x);
  if (xs.size() == 1) return {mean(x, axes)};
  const Output mask = xs[1];
  if (mask.dtype() != DType::boolean || !mask.shape().compatible_with(x.shape().sub(0, x.shape().rank() - 1)))
    invalid_argument("the mask is {}{}, but must be bool, one of each position of {}", name(mask.dtype()),
                     mask.shape().to_string(), x.shape().to_string());
  const Output weights = cast(expand_dims(mask, {-1}), x.dtype());
  const Output total = sum(x * weights, axes);
  const Output count = sum(weights, axes);
  return {total / maximum(count, scalar_like(count, 1))};
}
Output apply_global_max(const LayerConfig&, LayerContext&, Output x) { return max(x, spatial_axes(x)); }

// As many numbers as the image has spatial axes.
void require_numbers_of(const LayerConfig& config, const char* option, Output x) {
  require_rank(x, 3, 5, "[n, spatial..., channels]");
  if (const auto count = static_cast<int>(config.options.integers(option).size()); count != x.shape().rank() - 2)
    invalid_argument("the input is {}, with {} spatial axes, but there are {} numbers", x.shape().to_string(),
                     x.shape().rank() - 2, count);
}

Output apply_up_sampling(const LayerConfig& config, LayerContext& context, Output x) {
  const Integers& factors = config.options.integers("factors");
  const std::string& interpolation = config.options.string("interpolation");
  require_numbers_of(config, "factors", x);
  if (interpolation == "nearest") {
    for (std::size_t i = 0; i < factors.size(); ++i)
      x = troupe::repeat(x, factors[i], static_cast<std::int64_t>(i) + 1);
    return x;
  }
  ResizeOptions options{.mode = interpolation == "linear" ? ResizeMode::linear : ResizeMode::cubic,
                        .axes = spatial_axes(x),
                        .cubic_coeff_a = -0.5};
  return resize_by(widened(context, x), std::vector<double>(factors.begin(), factors.end()), std::move(options));
}

void check_up_sampling(const LayerConfig& config) {
  require_all_positive(config, "factors");
  require_one_of(config, "interpolation", {"nearest", "linear", "cubic"});
}

Output apply_padding(const LayerConfig& config, LayerContext&, Output x) {
  require_numbers_of(config, "before", x);
  const std::int64_t sign = config.kind == "cropping" ? -1 : 1;
  Integers before{0}, after{0};
  for (const std::int64_t n : config.options.integers("before")) before.push_back(sign * n);
  for (const std::int64_t n : config.options.integers("after")) after.push_back(sign * n);
  before.push_back(0);
  after.push_back(0);
  return pad(x, before, after);
}

void check_padding(const LayerConfig& config) {
  if (config.options.integers("before").size() != config.options.integers("after").size())
    invalid_argument("there are {} numbers before, but {} after", config.options.integers("before").size(),
                     config.options.integers("after").size());
  for (const char* option : {"before", "after"})
    for (const std::int64_t n : config.options.integers(option))
      if (n < 0) invalid_argument("{} must not be negative, but is {}", option, n);
}

LayerPtr pool_of(std::string kind, Integers size, const layers::PoolOptions& options) {
  return standard_layer(
      {.kind = std::move(kind),
       .options = {{"size", std::move(size)}, {"strides", options.strides}, {"padding", to_string(options.padding)}}});
}

}  // namespace

std::span<const LayerKind> pool_kinds() {
  static const std::vector<LayerKind> kinds = [] {
    std::vector<LayerKind> all = {
        {.name = "global_average_pool", .apply = apply_global_average, .max_inputs = 2},
        {.name = "global_max_pool", .apply = of_one<apply_global_max>},
        {.name = "up_sampling",
         .options = {{"factors", Integers{}}, {"interpolation", "nearest"}},
         .apply = of_one<apply_up_sampling>,
         .check = check_up_sampling},
    };
    for (const char* name :
         {"max_pool", "average_pool", "max_pool1d", "average_pool1d", "max_pool3d", "average_pool3d"})
      all.push_back({.name = name,
                     .options = {{"size", Integers{}}, {"strides", Integers{}}, {"padding", "valid"}},
                     .apply = of_one<apply_pool>,
                     .check = check_pool});
    for (const char* name : {"zero_padding", "cropping"})
      all.push_back({.name = name,
                     .options = {{"before", Integers{}}, {"after", Integers{}}},
                     .apply = of_one<apply_padding>,
                     .check = check_padding});
    return all;
  }();
  return kinds;
}

namespace layers {

LayerPtr max_pool(std::int64_t size) { return pool_of("max_pool", {size, size}, {}); }
LayerPtr average_pool(std::int64_t size) { return pool_of("average_pool", {size, size}, {}); }
LayerPtr max_pool(std::int64_t size, std::int64_t stride, Padding padding) {
  return pool_of("max_pool", {size, size}, {.strides = {stride, stride}, .padding = padding});
}
LayerPtr max_pool1d(std::int64_t size, PoolOptions options) { return pool_of("max_pool1d", {size}, options); }
LayerPtr max_pool2d(Integers size, PoolOptions options) { return pool_of("max_pool", std::move(size), options); }
LayerPtr max_pool3d(Integers size, PoolOptions options) { return pool_of("max_pool3d", std::move(size), options); }
LayerPtr average_pool1d(std::int64_t size, PoolOptions options) { return pool_of("average_pool1d", {size}, options); }
LayerPtr average_pool2d(Integers size, PoolOptions options) {
  return pool_of("average_pool", std::move(size), options);
}
LayerPtr average_pool3d(Integers size, PoolOptions options) {
  return pool_of("average_pool3d", std::move(size), options);
}
LayerPtr global_average_pool() { return standard_layer({.kind = "global_average_pool"}); }
LayerPtr global_max_pool() { return standard_layer({.kind = "global_max_pool"}); }

LayerPtr up_sampling(Integers factors, Interpolation interpolation) {
  constexpr const char* kNames[] = {"nearest", "linear", "cubic"};
  return standard_layer({.kind = "up_sampling",
                         .options = {{"factors", std::move(factors)},
                                     {"interpolation", kNames[static_cast<std::size_t>(interpolation)]}}});
}
LayerPtr zero_padding(Integers before, Integers after) {
  return standard_layer(
      {.kind = "zero_padding", .options = {{"before", std::move(before)}, {"after", std::move(after)}}});
}
LayerPtr cropping(Integers before, Integers after) {
  return standard_layer({.kind = "cropping", .options = {{"before", std::move(before)}, {"after", std::move(after)}}});
}

}  // namespace layers
}  // namespace troupe
