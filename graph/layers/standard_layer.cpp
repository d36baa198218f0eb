#include "troupe/graph/layers/standard_layer.hpp"

#include <algorithm>
#include <cmath>

#include <troupe/graph/layers/core.hpp>

namespace troupe {
namespace {

using KindList = std::span<const LayerKind> (*)();
constexpr KindList kKindLists[] = {core_kinds,        conv_kinds,          pool_kinds,      norm_kinds,
                                   shape_kinds,       noise_kinds,         recurrent_kinds, attention_kinds,
                                   transformer_kinds, preprocessing_kinds, text_kinds};

std::string number_of_inputs(const LayerKind& kind) {
  if (kind.min_inputs == kind.max_inputs)
    return kind.min_inputs == 1 ? "one input" : fmt::format("{} inputs", kind.min_inputs);
  return kind.max_inputs == kAnyNumber ? fmt::format("{} inputs or more", kind.min_inputs)
                                       : fmt::format("{} to {} inputs", kind.min_inputs, kind.max_inputs);
}

class StandardLayer final : public Layer {
 public:
  StandardLayer(const LayerKind& kind, LayerConfig config) : kind_(kind), config_(std::move(config)) {}
  std::string kind() const override {
    return kind_.named_by.empty() ? kind_.name : config_.options.string(kind_.named_by);
  }
  int outputs() const override { return kind_.outputs ? kind_.outputs(config_) : 1; }
  LayerConfig config() const override { return config_; }
  Outputs apply_all(LayerContext& context, const Outputs& xs) const override {
    const auto count = static_cast<int>(xs.size());
    if (count < kind_.min_inputs || count > kind_.max_inputs)
      invalid_argument("it takes {}, but is called with {}", number_of_inputs(kind_), count);
    return kind_.apply(config_, context, xs);
  }

 private:
  const LayerKind& kind_;
  LayerConfig config_;
};

std::string names_in(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& n : names) text += (text.empty() ? "" : ", ") + n;
  return text.empty() ? "none" : text;
}

template <class Given>
void require_known(const char* what, const Given& given, const std::vector<std::string>& known) {
  for (const auto& [name, value] : given)
    if (std::ranges::find(known, name) == known.end())
      invalid_argument("there is no {} '{}'; there are: {}", what, name, names_in(known));
}

void check_weight(const WeightOptions& options) {
  const auto positive = [](double v) { return v >= 0 && std::isfinite(v); };
  if (const Regularizer& r = options.regularizer; !positive(r.l1) || !positive(r.l2))
    invalid_argument("factors of a regularizer must be finite and not negative, not {} and {}", r.l1, r.l2);
  const Constraint& c = options.constraint;
  if (!positive(c.low) || !(c.low <= c.high))
    invalid_argument("bounds of a norm must be 0 <= low <= high, not {} and {}", c.low, c.high);
  if (!(c.rate >= 0 && c.rate <= 1)) invalid_argument("the rate of a constraint must be in [0, 1], not {}", c.rate);
}

// Adds defaults; checks names and types.
void complete(const LayerKind& kind, LayerConfig& config) {
  std::vector<std::string> known;
  for (const auto& [name, value] : kind.options.all()) {
    known.push_back(name);
    if (!config.options.has(name)) config.options.set(name, value);
    const AttrValue& given = config.options.all().find(name)->second;
    if (type_of(given) != type_of(value))
      invalid_argument("option '{}' is of type {}, but must be {}", name, troupe::name(type_of(given)),
                       troupe::name(type_of(value)));
  }
  require_known("option", config.options.all(), known);
  require_known("weight", config.weights, kind.weights);
  require_known("layer", config.layers, kind.layers);
  for (const auto& [name, layer] : config.layers)
    if (!layer) invalid_argument("layer '{}' is null", name);
  if (config.network) invalid_argument("it is not a network");
  for (const auto& [name, weight] : config.weights) {
    try {
      check_weight(weight);
    } catch (const Error& error) {
      throw error.within(fmt::format("weight '{}'", name));
    }
  }
  if (config.options.has("activation")) activation_named(config.options.string("activation"));
  if (config.options.has("compute") && !config.options.string("compute").empty()) {
    const std::string& compute = config.options.string("compute");
    const std::optional<DType> dtype = parse_dtype(compute);
    if (!dtype) invalid_argument("there is no dtype '{}'", compute);
    require_compute_type(kind.name.c_str(), *dtype);
  }
}

}  // namespace

std::vector<const LayerKind*> all_layer_kinds() {
  std::vector<const LayerKind*> out;
  for (const KindList kinds : kKindLists)
    for (const LayerKind& kind : kinds()) out.push_back(&kind);
  return out;
}

const LayerKind* find_layer_kind(std::string_view name) {
  for (const KindList kinds : kKindLists)
    for (const LayerKind& kind : kinds())
      if (kind.name == name) return &kind;
  return nullptr;
}

LayerPtr standard_layer(LayerConfig config) {
  const LayerKind* kind = find_layer_kind(config.kind);
  if (!kind) fail(Code::not_found, "there is no layer of kind '{}'", config.kind);
  try {
    complete(*kind, config);
    if (kind->check) kind->check(config);
  } catch (const Error& error) {
    if (error.message().starts_with(kind->name + ": ")) throw;
    throw error.within(kind->name);
  }
  return std::make_shared<StandardLayer>(*kind, std::move(config));
}

void LayerRegistry::add(std::string kind, Maker maker) {
  if (!maker) invalid_argument("layer kind '{}' has no maker", kind);
  const auto [known, added] = makers_.emplace(std::move(kind), std::move(maker));
  if (!added) fail(Code::already_exists, "there is a layer kind '{}' already", known->first);
}

LayerPtr LayerRegistry::make(const LayerConfig& config) const {
  const auto maker = makers_.find(config.kind);
  if (maker == makers_.end())
    fail(Code::not_found, "there is no layer of kind '{}': add it to the LayerRegistry that reads the model",
         config.kind);
  LayerPtr layer = maker->second(config);
  if (!layer) fail(Code::internal, "the maker of layer kind '{}' returned null", config.kind);
  return layer;
}

std::vector<std::string> LayerRegistry::kinds() const {
  std::vector<std::string> out;
  for (const auto& [kind, maker] : makers_) out.push_back(kind);
  return out;
}

namespace {

LayerPtr network_layer(const LayerConfig& config) {
  if (!config.network) invalid_argument("{}: its layers are missing", config.kind);
  return Network(*config.network, config.kind).layer();
}

LayerRegistry all_kinds() {
  LayerRegistry registry;
  for (const KindList kinds : kKindLists)
    for (const LayerKind& kind : kinds()) registry.add(kind.name, standard_layer);
  registry.add("network", network_layer);
  registry.add("sequential", network_layer);
  registry.add("frozen", [](const LayerConfig& config) {
    const auto inner = config.layers.find("layer");
    return layers::frozen(inner == config.layers.end() ? LayerPtr() : inner->second);
  });
  return registry;
}

}  // namespace

const LayerRegistry& standard_layers() {
  static const LayerRegistry registry = all_kinds();
  return registry;
}

void require_compute_type(const char* what, DType compute) {
  if (compute != DType::invalid && !is_floating(compute))
    invalid_argument("{}: products can be computed in bf16, f16, f32 or f64, not in {}", what, name(compute));
}

std::string compute_option(DType compute) { return compute == DType::invalid ? "" : std::string(name(compute)); }

DType real_type(const LayerContext& context, Output x) {
  if (context.weights != DType::invalid) return context.weights;
  return is_floating(x.dtype()) ? x.dtype() : DType::f32;
}

DType compute_of(const LayerConfig& config, const LayerContext& context, Output x) {
  return context.compute_type(x, parse_dtype(config.options.string("compute")).value_or(DType::invalid));
}

Output weight_of(const LayerConfig& config, LayerContext& context, const std::string& name, const WeightSpec& spec,
                 const Initializer& initializer) {
  const auto given = config.weights.find(name);
  WeightOptions options = given == config.weights.end() ? WeightOptions{} : given->second;
  if (!options.initializer) options.initializer = initializer;
  return context.weight(name, spec, options).read();
}

void set_weight(LayerConfig& config, const std::string& name, const WeightOptions& options) {
  if (options.initializer || options.regularizer || options.constraint || options.on_demand)
    config.weights[name] = options;
}

Output with_bias(const LayerConfig& config, LayerContext& context, Output x, std::int64_t units, DType dtype) {
  if (!config.options.boolean("use_bias")) return x;
  const WeightSpec spec{.dtype = dtype, .shape = Shape{units}};
  return bias_add(x, cast(weight_of(config, context, "bias", spec, initializers::zeros()), x.dtype()));
}

Output widened(const LayerContext& context, Output x) {
  const bool narrow = x.dtype() == DType::f16 || x.dtype() == DType::bf16;
  return narrow && context.weights != DType::invalid ? cast(x, context.weights) : x;
}

// Softmax is a quotient of sums: never in f16 or bf16.
Output activated(const LayerContext& context, Output x, Activation activation) {
  const bool sums = activation == Activation::softmax || activation == Activation::log_softmax;
  return activate(sums ? widened(context, x) : x, activation);
}

Output activated(const LayerConfig& config, const LayerContext& context, Output x) {
  return activated(context, x, activation_named(config.options.string("activation")));
}

void require_rank(Output x, int rank, const char* expected) {
  if (x.shape().rank() != rank) invalid_argument("the input is {}, but must be {}", x.shape().to_string(), expected);
}

void require_rank(Output x, int low, int high, const char* expected) {
  if (x.shape().rank() < low || x.shape().rank() > high)
    invalid_argument("the input is {}, but must be {}", x.shape().to_string(), expected);
}

void require_floating(Output x) {
  if (!is_floating(x.dtype()))
    invalid_argument("the input is {}, but must be floating; put an embedding, rescaling or cast before it",
                     name(x.dtype()));
}

std::int64_t known_dim(Output x, int axis, const char* what) {
  if (x.shape()[axis] == kUnknown)
    invalid_argument("the {} of the input must be known, but it is {}", what, x.shape().to_string());
  return x.shape()[axis];
}

void require_positive(const LayerConfig& config, const char* option) {
  if (const std::int64_t value = config.options.integer(option); value < 1)
    invalid_argument("{} must be at least 1, not {}", option, value);
}

void require_all_positive(const LayerConfig& config, const char* option) {
  for (const std::int64_t value : config.options.integers(option))
    if (value < 1) invalid_argument("{} must be at least 1, not {}", option, value);
}

void require_rate(const LayerConfig& config) {
  if (const double rate = config.options.real("rate"); !(rate >= 0 && rate < 1))
    invalid_argument("the rate must be in [0, 1), not {}", rate);
}

void require_dropout(const LayerConfig& config) {
  if (const double rate = config.options.real("dropout"); !(rate >= 0 && rate < 1))
    invalid_argument("dropout must be in [0, 1), not {}", rate);
}

void require_base(const LayerConfig& config, const char* option, bool optional) {
  const double base = config.options.real(option);
  if (!(base > 0 && std::isfinite(base)) && !(optional && base == 0))
    invalid_argument("{} must be positive, not {}", option, base);
}

void require_epsilon(const LayerConfig& config) {
  if (const double epsilon = config.options.real("epsilon"); !(epsilon > 0))
    invalid_argument("epsilon must be positive, not {}", epsilon);
}

void require_one_of(const LayerConfig& config, const char* option, std::initializer_list<const char*> values) {
  const std::string& given = config.options.string(option);
  if (std::ranges::any_of(values, [&](const char* value) { return given == value; })) return;
  std::string all;
  for (const char* value : values) all += (all.empty() ? "" : ", ") + std::string(value);
  invalid_argument("{} '{}' is none of: {}", option, given, all);
}

Output with_merged_leading(Output x, int count) {
  if (count == 1) return x;
  const Shape tail = x.shape().sub(count, x.shape().rank());
  if (!tail.fully_known())
    invalid_argument("all dimensions of the input from the {}th on must be known, but it is {}", count + 1,
                     x.shape().to_string());
  return reshape(x, Shape{kUnknown}.concatenated(tail));
}

Output with_leading_of(Output y, Output x, int count) {
  if (count == 1) return y;
  const Shape leading = x.shape().sub(0, count), tail = y.shape().sub(1, y.shape().rank());
  if (std::ranges::count(leading.dims(), kUnknown) + std::ranges::count(tail.dims(), kUnknown) <= 1)
    return reshape(y, leading.concatenated(tail));
  const Output first = slice(shape_of(x), {0}, {count});
  const Output rest = slice(shape_of(y), {1}, {-1});
  return reshape(y, concat({first, rest}, 0));
}

Outputs apply_inside(LayerContext& context, const std::string& name, const Layer& layer, const Outputs& xs) {
  LayerContext inner = context;
  inner.layer += inner.layer.empty() ? name : "/" + name;
  const auto scope = context.graph.scope(name);
  return layer.apply_all(inner, xs);
}

}  // namespace troupe
