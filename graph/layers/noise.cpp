// Layers: noise in training.
#include <cmath>

#include <troupe/graph/layers/norm.hpp>
#include <troupe/graph/layers/standard_layer.hpp>

namespace troupe {
namespace {

RandomOptions drawn_for(const LayerConfig& config, Output x) {
  return {.dtype = x.dtype(), .seed = config.options.integer("seed")};
}

Output apply_dropout(const LayerConfig& config, LayerContext& context, Output x) {
  return troupe::dropout(widened(context, x), config.options.real("rate"), {.seed = config.options.integer("seed")});
}

Output apply_spatial_dropout(const LayerConfig& config, LayerContext& context, Output x) {
  require_rank(x, 3, 5, "[n, spatial..., channels]");
  x = widened(context, x);
  Integers begin(static_cast<std::size_t>(x.shape().rank()), 0), size(begin.size(), 1);
  size.front() = size.back() = -1;
  const Output one_place = ones_like(slice(x, begin, size));
  return x * troupe::dropout(one_place, config.options.real("rate"), {.seed = config.options.integer("seed")});
}

Output apply_gaussian_noise(const LayerConfig& config, LayerContext& context, Output x) {
  x = widened(context, x);
  return x + random_normal(shape_of(x), 0, config.options.real("stddev"), drawn_for(config, x));
}

Output apply_gaussian_dropout(const LayerConfig& config, LayerContext& context, Output x) {
  x = widened(context, x);
  const double rate = config.options.real("rate");
  return x * random_normal(shape_of(x), 1, std::sqrt(rate / (1 - rate)), drawn_for(config, x));
}

// Dropped elements become the least value of selu, and an affine map restores mean and variance.
Output apply_alpha_dropout(const LayerConfig& config, LayerContext& context, Output x) {
  const SeluOptions selu;
  const double rate = config.options.real("rate"), least = -selu.alpha * selu.gamma;
  const double a = 1 / std::sqrt((1 - rate) * (1 + rate * least * least)), b = -a * least * rate;
  x = widened(context, x);
  const Output draw = random_uniform(shape_of(x), 0, 1, drawn_for(config, x));
  const Output kept = greater_equal(draw, scalar_like(x, rate));
  const Output scaled = x * a + b;
  return select(kept, scaled, scalar_like(x, least * a + b));
}

template <Output (*apply)(const LayerConfig&, LayerContext&, Output)>
Outputs in_training(const LayerConfig& config, LayerContext& context, const Outputs& xs) {
  if (!context.training) return xs;
  require_floating(xs[0]);
  return {apply(config, context, xs[0])};
}

LayerPtr noise_of(const char* kind, const char* option, double value, std::int64_t seed) {
  return standard_layer({.kind = kind, .options = {{option, value}, {"seed", seed}}});
}

}  // namespace

std::span<const LayerKind> noise_kinds() {
  static const std::vector<LayerKind> kinds = [] {
    const Attributes with_rate{{"rate", 0.0}, {"seed", std::int64_t{0}}};
    return std::vector<LayerKind>{
        {.name = "dropout", .options = with_rate, .apply = in_training<apply_dropout>, .check = require_rate},
        {.name = "spatial_dropout",
         .options = with_rate,
         .apply = in_training<apply_spatial_dropout>,
         .check = require_rate},
        {.name = "gaussian_noise",
         .options = {{"stddev", 0.0}, {"seed", std::int64_t{0}}},
         .apply = in_training<apply_gaussian_noise>,
         .check =
             [](const LayerConfig& c) {
               if (const double stddev = c.options.real("stddev"); !(stddev >= 0 && std::isfinite(stddev)))
                 invalid_argument("stddev must be finite and not negative, not {}", stddev);
             }},
        {.name = "gaussian_dropout",
         .options = with_rate,
         .apply = in_training<apply_gaussian_dropout>,
         .check = require_rate},
        {.name = "alpha_dropout",
         .options = with_rate,
         .apply = in_training<apply_alpha_dropout>,
         .check = require_rate},
    };
  }();
  return kinds;
}

namespace layers {

LayerPtr dropout(double rate, std::int64_t seed) { return noise_of("dropout", "rate", rate, seed); }
LayerPtr spatial_dropout(double rate, std::int64_t seed) { return noise_of("spatial_dropout", "rate", rate, seed); }
LayerPtr gaussian_noise(double stddev, std::int64_t seed) { return noise_of("gaussian_noise", "stddev", stddev, seed); }
LayerPtr gaussian_dropout(double rate, std::int64_t seed) { return noise_of("gaussian_dropout", "rate", rate, seed); }
LayerPtr alpha_dropout(double rate, std::int64_t seed) { return noise_of("alpha_dropout", "rate", rate, seed); }

}  // namespace layers
}  // namespace troupe
