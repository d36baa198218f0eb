#include "troupe/graph/layers/norm.hpp"

#include <cmath>

#include <troupe/graph/layers/standard_layer.hpp>

namespace troupe {
namespace {

// Of the last `dimensions` of x.
WeightSpec normalised(Output x, std::int64_t dimensions = 1) {
  require_floating(x);
  if (x.shape().rank() < dimensions)
    invalid_argument("the input is {}, but must have {} to normalise", x.shape().to_string(),
                     dimensions == 1 ? "a last dimension" : fmt::format("{} last dimensions", dimensions));
  const Shape last = x.shape().sub(x.shape().rank() - static_cast<int>(dimensions), x.shape().rank());
  if (!last.fully_known())
    invalid_argument("the last {} of the input must be known, but it is {}",
                     dimensions == 1 ? "dimension" : fmt::format("{} dimensions", dimensions), x.shape().to_string());
  return {.dtype = x.dtype() == DType::f64 ? DType::f64 : DType::f32, .shape = last};
}

Output scale_of(const LayerConfig& config, LayerContext& context, const WeightSpec& spec) {
  return weight_of(config, context, "scale", spec, initializers::ones());
}
Output offset_of(const LayerConfig& config, LayerContext& context, const WeightSpec& spec) {
  return weight_of(config, context, "offset", spec, initializers::zeros());
}

Output apply_batch_norm(const LayerConfig& config, LayerContext& context, Output x) {
  const WeightSpec learnt = normalised(x);
  WeightSpec followed = learnt;
  followed.trainable = false;
  const Output scale = scale_of(config, context, learnt);
  const Output offset = offset_of(config, context, learnt);
  const VariableRef mean = context.weight("mean", followed, initializers::zeros());
  const VariableRef variance = context.weight("variance", followed, initializers::ones());
  const Activation activation = activation_named(config.options.string("activation"));
  const bool relu = activation == Activation::relu;
  const troupe::BatchNormOptions options{.epsilon = config.options.real("epsilon"), .relu = relu};
  Output y;
  if (context.training) {
    if (!context.averages)
      invalid_argument("training updates running averages: LayerContext::averages must not be null");
    const BatchNormOutputs out = troupe::batch_norm(x, scale, offset, options);
    context.averages->push_back({mean, out.mean, 1 - config.options.real("momentum")});
    context.averages->push_back({variance, out.variance, 1 - config.options.real("momentum")});
    y = out.y;
  } else {
    y = troupe::batch_norm_inference(x, scale, offset, mean.read(), variance.read(), options);
  }
  return relu ? y : activated(context, y, activation);
}

void check_batch_norm(const LayerConfig& config) {
  if (const double momentum = config.options.real("momentum"); !(momentum >= 0 && momentum < 1))
    invalid_argument("the momentum must be in [0, 1), not {}", momentum);
  require_epsilon(config);
}

Output filled_like(LayerContext& context, const WeightSpec& spec, double value) {
  const Output dims = constant(context.graph, Tensor::of<std::int64_t>(Shape{spec.shape.rank()}, spec.shape.dims()));
  return fill(dims, constant(context.graph, scalar_of(spec.dtype, value)));
}

Output apply_layer_norm(const LayerConfig& config, LayerContext& context, Output x) {
  const std::int64_t dimensions = config.options.integer("dimensions");
  const WeightSpec spec = normalised(x, dimensions);
  const Output scale =
      config.options.boolean("use_scale") ? scale_of(config, context, spec) : filled_like(context, spec, 1);
  const troupe::LayerNormOptions options{.epsilon = config.options.real("epsilon"), .axis = -dimensions};
  if (config.kind == "rms_norm") return troupe::rms_norm(x, scale, options);
  const Output offset =
      config.options.boolean("use_offset") ? offset_of(config, context, spec) : filled_like(context, spec, 0);
  return troupe::layer_norm(x, scale, offset, options);
}

void check_layer_norm(const LayerConfig& config) {
  require_epsilon(config);
  require_positive(config, "dimensions");
}

Output apply_group_norm(const LayerConfig& config, LayerContext& context, Output x) {
  require_rank(x, 2, kMaxRank, "[n, ..., channels]");
  const WeightSpec spec = normalised(x);
  const std::int64_t channels = spec.shape[0];
  const bool alone = config.kind == "instance_norm";
  const std::int64_t groups = alone ? channels : config.options.integer("groups");
  if (channels % groups != 0)
    invalid_argument("the input has {} channels, which {} groups do not divide", channels, groups);
  const Output scale = scale_of(config, context, spec);
  const Output offset = offset_of(config, context, spec);
  return troupe::group_norm(x, scale, offset, groups,
                            {.epsilon = config.options.real("epsilon"), .axis = x.shape().rank() - 1});
}

void check_group_norm(const LayerConfig& config) {
  require_epsilon(config);
  if (config.kind == "group_norm") require_positive(config, "groups");
}

Output apply_unit_norm(const LayerConfig& config, LayerContext&, Output x) {
  require_floating(x);
  return l2_normalize(x, config.options.integers("axes"));
}

const Attributes& scaled_and_offset() {
  static const Attributes options{{"epsilon", 1e-5}};
  return options;
}

LayerConfig norm_config(std::string kind, Attributes options, const WeightOptions& scale, const WeightOptions& offset) {
  LayerConfig config{.kind = std::move(kind), .options = std::move(options)};
  set_weight(config, "scale", scale);
  set_weight(config, "offset", offset);
  return config;
}

}  // namespace

std::span<const LayerKind> norm_kinds() {
  static const std::vector<LayerKind> kinds = {
      {.name = "batch_norm",
       .options = {{"activation", "none"}, {"momentum", 0.9}, {"epsilon", 1e-5}},
       .apply = of_one<apply_batch_norm>,
       .check = check_batch_norm,
       .weights = {"scale", "offset"}},
      {.name = "layer_norm",
       .options = {{"epsilon", 1e-5}, {"dimensions", std::int64_t{1}}, {"use_scale", true}, {"use_offset", true}},
       .apply = of_one<apply_layer_norm>,
       .check = check_layer_norm,
       .weights = {"scale", "offset"}},
      {.name = "rms_norm",
       .options = {{"epsilon", 1e-6}, {"dimensions", std::int64_t{1}}, {"use_scale", true}},
       .apply = of_one<apply_layer_norm>,
       .check = check_layer_norm,
       .weights = {"scale"}},
      {.name = "group_norm",
       .options = {{"epsilon", 1e-5}, {"groups", std::int64_t{32}}},
       .apply = of_one<apply_group_norm>,
       .check = check_group_norm,
       .weights = {"scale", "offset"}},
      {.name = "instance_norm",
       .options = scaled_and_offset(),
       .apply = of_one<apply_group_norm>,
       .check = check_group_norm,
       .weights = {"scale", "offset"}},
      {.name = "unit_norm", .options = {{"axes", Integers{-1}}}, .apply = of_one<apply_unit_norm>},
  };
  return kinds;
}

namespace layers {

LayerPtr batch_norm(Activation activation, BatchNormOptions options) {
  return standard_layer(
      norm_config("batch_norm",
                  {{"activation", to_string(activation)}, {"momentum", options.momentum}, {"epsilon", options.epsilon}},
                  options.scale, options.offset));
}

LayerPtr layer_norm(LayerNormOptions options) {
  return standard_layer(norm_config("layer_norm",
                                    {{"epsilon", options.epsilon},
                                     {"dimensions", options.dimensions},
                                     {"use_scale", options.use_scale},
                                     {"use_offset", options.use_offset}},
                                    options.scale, options.offset));
}

LayerPtr rms_norm(LayerNormOptions options) {
  return standard_layer(norm_config(
      "rms_norm", {{"epsilon", options.epsilon}, {"dimensions", options.dimensions}, {"use_scale", options.use_scale}},
      options.scale, {}));
}

LayerPtr group_norm(std::int64_t groups, GroupNormOptions options) {
  return standard_layer(
      norm_config("group_norm", {{"epsilon", options.epsilon}, {"groups", groups}}, options.scale, options.offset));
}

LayerPtr instance_norm(GroupNormOptions options) {
  return standard_layer(norm_config("instance_norm", {{"epsilon", options.epsilon}}, options.scale, options.offset));
}

LayerPtr unit_norm(Integers axes) {
  return standard_layer({.kind = "unit_norm", .options = {{"axes", std::move(axes)}}});
}

}  // namespace layers
}  // namespace troupe
