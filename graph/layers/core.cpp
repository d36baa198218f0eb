#include "troupe/graph/layers/core.hpp"

#include <algorithm>

#include <troupe/graph/layers/standard_layer.hpp>

namespace troupe {
namespace {

Output apply_dense(const LayerConfig& config, LayerContext& context, Output x) {
  require_floating(x);
  require_rank(x, 1, kMaxRank, "[..., features]");
  const std::int64_t in = known_dim(x, -1, "last dimension"), units = config.options.integer("units");
  const DType compute = compute_of(config, context, x);
  const WeightSpec spec{.dtype = context.weight_type(x),
                        .shape = Shape{in, units},
                        .fan_in = static_cast<double>(in),
                        .fan_out = static_cast<double>(units)};
  const Output kernel = cast(weight_of(config, context, "kernel", spec, initializers::glorot_uniform()), compute);
  const int leading = x.shape().rank() - 1;
  const Output rows = leading == 0 ? expand_dims(x, {0}) : with_merged_leading(x, leading);
  Output y = matmul(cast(rows, compute), kernel);
  y = activated(config, context, with_bias(config, context, y, units, spec.dtype));
  return leading == 0 ? squeeze(y, {0}) : with_leading_of(y, x, leading);
}

Outputs apply_embedding(const LayerConfig& config, LayerContext& context, const Outputs& xs) {
  Output ids = xs[0];
  if (!is_integer(ids.dtype())) invalid_argument("the input is {}, but ids must be integers", name(ids.dtype()));
  if (ids.dtype() != DType::i64) ids = cast(ids, DType::i32);
  const std::int64_t vocabulary = config.options.integer("vocabulary"), units = config.options.integer("units");
  const WeightSpec spec{.dtype = real_type(context, ids),
                        .shape = Shape{vocabulary, units},
                        .fan_in = static_cast<double>(vocabulary),
                        .fan_out = static_cast<double>(units)};
  const Output table = weight_of(config, context, "table", spec, initializers::random_uniform());
  const Output rows = gather(table, ids);
  const Output y = context.compute == DType::invalid ? rows : cast(rows, context.compute);
  if (!config.options.boolean("mask_zero")) return {y};
  return {y, not_equal(ids, scalar_like(ids, 0))};
}

void check_embedding(const LayerConfig& config) {
  require_positive(config, "vocabulary");
  require_positive(config, "units");
}

Output apply_rescaling(const LayerConfig& config, LayerContext& context, Output x) {
  const double offset = config.options.real("offset");
  const Output y = cast(x, real_type(context, x)) * config.options.real("factor");
  return offset == 0 ? y : y + offset;
}

Output apply_activation(const LayerConfig& config, LayerContext& context, Output x) {
  return activated(config, context, x);
}

Output apply_prelu(const LayerConfig& config, LayerContext& context, Output x) {
  require_floating(x);
  require_rank(x, 2, kMaxRank, "[n, ...]");
  Shape shape = x.shape().sub(1, x.shape().rank());
  for (const std::int64_t axis : config.options.integers("shared_axes")) {
    if (axis < 1 || axis >= x.shape().rank())
      invalid_argument("axis {} is none of 1 to {} of the input", axis, x.shape().rank() - 1);
    shape.set_dim(static_cast<int>(axis) - 1, 1);
  }
  if (!shape.fully_known())
    invalid_argument("all dimensions of the input that share no slope must be known, but it is {}",
                     x.shape().to_string());
  const WeightSpec spec{.dtype = context.weight_type(x), .shape = shape};
  const Output slope = weight_of(config, context, "slope", spec, initializers::zeros());
  return prelu(x, cast(slope, x.dtype()));
}

Output residual_shortcut(const LayerConfig& config, LayerContext& context, Output x) {
  const auto shortcut = config.layers.find("shortcut");
  return shortcut == config.layers.end() ? x : apply_inside(context, "shortcut", *shortcut->second, {x}).at(0);
}

Output apply_residual(const LayerConfig& config, LayerContext& context, Output x) {
  const Output y = config.layers.at("body")->apply_all(context, {x})[0];
  const Output past = cast(residual_shortcut(config, context, x), y.dtype());
  if (!y.shape().compatible_with(past.shape()))
    invalid_argument("the output of the body is {}, but that of its shortcut is {}", y.shape().to_string(),
                     past.shape().to_string());
  return activated(config, context, add(y, past));
}

void check_residual(const LayerConfig& config) {
  if (!config.layers.contains("body")) invalid_argument("the body is missing");
  for (const auto& [name, layer] : config.layers)
    if (layer->outputs() != 1) invalid_argument("the {} has {} outputs, but must have one", name, layer->outputs());
}

Outputs apply_time_distributed(const LayerConfig& config, LayerContext& context, const Outputs& xs) {
  require_rank(xs[0], 3, kMaxRank, "[n, steps, ...]");
  Outputs ys = config.layers.at("layer")->apply_all(context, {with_merged_leading(xs[0], 2)});
  for (Output& y : ys) {
    if (y.shape().rank() < 1)
      invalid_argument("a result of the layer is {}, but must have a row for each step", y.shape().to_string());
    y = with_leading_of(y, xs[0], 2);
  }
  return ys;
}

void check_time_distributed(const LayerConfig& config) {
  if (!config.layers.contains("layer")) invalid_argument("the layer is missing");
}

class Lambda final : public Layer {
 public:
  Lambda(layers::LambdaOfMany function, int outputs, std::string kind)
      : function_(std::move(function)), outputs_(outputs), kind_(std::move(kind)) {}
  std::string kind() const override { return kind_; }
  int outputs() const override { return outputs_; }
  Outputs apply_all(LayerContext& context, const Outputs& xs) const override { return function_(context, xs); }
  LayerConfig config() const override {
    fail(Code::failed_precondition,
         "a lambda is a function of the program and cannot be written: derive a layer with a config(), and add its "
         "kind to the reader's LayerRegistry");
  }

 private:
  layers::LambdaOfMany function_;
  int outputs_;
  std::string kind_;
};

class Frozen final : public Layer {
 public:
  explicit Frozen(LayerPtr layer) : layer_(std::move(layer)) {}
  std::string kind() const override { return layer_->kind(); }
  int outputs() const override { return layer_->outputs(); }
  Outputs apply_all(LayerContext& context, const Outputs& xs) const override {
    LayerContext inner = context;
    inner.trainable = false;
    inner.training = false;
    return layer_->apply_all(inner, xs);
  }
  LayerConfig config() const override { return {.kind = "frozen", .layers = {{"layer", layer_}}}; }

 private:
  LayerPtr layer_;
};

}  // namespace

std::span<const LayerKind> core_kinds() {
  static const std::vector<LayerKind> kinds = {
      {.name = "dense",
       .options = {{"units", std::int64_t{1}}, {"activation", "none"}, {"use_bias", true}, {"compute", ""}},
       .apply = of_one<apply_dense>,
       .check = [](const LayerConfig& c) { require_positive(c, "units"); },
       .weights = {"kernel", "bias"}},
      {.name = "embedding",
       .options = {{"vocabulary", std::int64_t{1}}, {"units", std::int64_t{1}}, {"mask_zero", false}},
       .apply = apply_embedding,
       .check = check_embedding,
       .outputs = [](const LayerConfig& c) { return c.options.boolean("mask_zero") ? 2 : 1; },
       .weights = {"table"}},
      {.name = "rescaling", .options = {{"factor", 1.0}, {"offset", 0.0}}, .apply = of_one<apply_rescaling>},
      {.name = "activation",
       .options = {{"activation", "none"}},
       .apply = of_one<apply_activation>,
       .named_by = "activation"},
      {.name = "prelu", .options = {{"shared_axes", Integers{}}}, .apply = of_one<apply_prelu>, .weights = {"slope"}},
      {.name = "residual",
       .options = {{"activation", "none"}},
       .apply = of_one<apply_residual>,
       .check = check_residual,
       .layers = {"body", "shortcut"}},
      {.name = "time_distributed",
       .apply = apply_time_distributed,
       .check = check_time_distributed,
       .outputs = [](const LayerConfig& c) { return c.layers.at("layer")->outputs(); },
       .layers = {"layer"}},
  };
  return kinds;
}

namespace layers {

LayerPtr dense(std::int64_t units, Activation activation, DenseOptions options) {
  require_compute_type("dense", options.compute);
  LayerConfig config{.kind = "dense",
                     .options = {{"units", units},
                                 {"activation", to_string(activation)},
                                 {"use_bias", options.use_bias},
                                 {"compute", compute_option(options.compute)}}};
  set_weight(config, "kernel", options.kernel);
  set_weight(config, "bias", options.bias);
  return standard_layer(std::move(config));
}

LayerPtr embedding(std::int64_t vocabulary, std::int64_t units, EmbeddingOptions options) {
  LayerConfig config{.kind = "embedding",
                     .options = {{"vocabulary", vocabulary}, {"units", units}, {"mask_zero", options.mask_zero}}};
  set_weight(config, "table", options.table);
  return standard_layer(std::move(config));
}

LayerPtr rescaling(double factor, double offset) {
  return standard_layer({.kind = "rescaling", .options = {{"factor", factor}, {"offset", offset}}});
}

LayerPtr activation(Activation activation) {
  return standard_layer({.kind = "activation", .options = {{"activation", to_string(activation)}}});
}

LayerPtr prelu(Integers shared_axes, WeightOptions slope) {
  LayerConfig config{.kind = "prelu", .options = {{"shared_axes", std::move(shared_axes)}}};
  set_weight(config, "slope", slope);
  return standard_layer(std::move(config));
}

LayerPtr residual(Sequential body, Sequential shortcut, Activation activation) {
  LayerConfig config{
      .kind = "residual", .options = {{"activation", to_string(activation)}}, .layers = {{"body", body}}};
  if (!shortcut.layers().empty()) config.layers.emplace("shortcut", shortcut);
  return standard_layer(std::move(config));
}

LayerPtr frozen(LayerPtr layer) {
  if (!layer) invalid_argument("frozen: the layer is null");
  const LayerPtr result = std::make_shared<Frozen>(layer);
  return layer.name().empty() ? result : result.named(layer.name());
}

LayerPtr time_distributed(LayerPtr layer) {
  return standard_layer({.kind = "time_distributed", .layers = {{"layer", std::move(layer)}}});
}

LayerPtr lambda(LambdaFunction function, std::string kind) {
  if (!function) invalid_argument("lambda: the function is null");
  return lambda_of_many(
      [function = std::move(function)](LayerContext& context, const Outputs& xs) {
        if (xs.size() != 1) invalid_argument("it takes one input, but is called with {}", xs.size());
        return Outputs{function(context, xs[0])};
      },
      1, std::move(kind));
}

LayerPtr lambda_of_many(LambdaOfMany function, int outputs, std::string kind) {
  if (!function) invalid_argument("lambda: the function is null");
  if (kind.empty()) invalid_argument("lambda: its kind is empty");
  return std::make_shared<Lambda>(std::move(function), outputs, std::move(kind));
}

}  // namespace layers
}  // namespace troupe
