#include "troupe/graph/layers/attention.hpp"

#include <cmath>

#include <troupe/graph/layers/standard_layer.hpp>

namespace troupe {
namespace {

// Sizes of an attention layer.
struct Heads {
  std::int64_t heads, kv_heads, depth, value_depth;

  explicit Heads(const LayerConfig& config)
      : heads(config.options.integer("heads")),
        kv_heads(config.options.integer("kv_heads")),
        depth(config.options.integer("depth")),
        value_depth(config.options.integer("value_depth")) {
    if (kv_heads == 0) kv_heads = heads;
    if (value_depth == 0) value_depth = depth;
  }
};

// One of the four products, x [..., in] -> [..., units], with its own kernel and bias.
class Projections {
 public:
  Projections(const LayerConfig& config, LayerContext& context, Output query)
      : config_(config),
        context_(context),
        compute_(compute_of(config, context, query)),
        weights_(context.weight_type(query)) {}

  Output operator()(const std::string& name, Output x, std::int64_t units) const {
    const std::int64_t in = known_dim(x, -1, "last dimension");
    const WeightSpec spec{.dtype = weights_,
                          .shape = Shape{in, units},
                          .fan_in = static_cast<double>(in),
                          .fan_out = static_cast<double>(units)};
    const Output kernel = cast(weight(name, "kernel", spec, initializers::glorot_uniform()), compute_);
    const int leading = x.shape().rank() - 1;
    Output y = matmul(cast(with_merged_leading(x, leading), compute_), kernel);
    if (config_.options.boolean("use_bias")) {
      const WeightSpec bias{.dtype = weights_, .shape = Shape{units}};
      y = bias_add(y, cast(weight(name, "bias", bias, initializers::zeros()), compute_));
    }
    return with_leading_of(y, x, leading);
  }

 private:
  Output weight(const std::string& name, const std::string& part, const WeightSpec& spec,
                const Initializer& initializer) const {
    const auto given = config_.weights.find(part);
    WeightOptions options = given == config_.weights.end() ? WeightOptions{} : given->second;
    if (!options.initializer) options.initializer = initializer;
    return context_.weight(name + "_" + part, spec, options).read();
  }

  const LayerConfig& config_;
  LayerContext& context_;
  DType compute_, weights_;
};

// [n, steps, heads depth] <-> [n, heads, steps, depth].
Output heads_first(Output x, std::int64_t heads, std::int64_t depth) {
  return transpose(reshape_copying_zeros(x, {0, 0, heads, depth}), {0, 2, 1, 3});
}
Output heads_last(Output x, std::int64_t heads, std::int64_t depth) {
  return reshape_copying_zeros(transpose(x, {0, 2, 1, 3}), {0, 0, heads * depth});
}

// The number of elements of an axis: i64 scalar.
Output size_of_axis(Output x, int axis) { return reshape(slice(shape_of(x), {axis}, {1}), Shape{}); }

// f64 [steps, features / 2] of positions along axis -2 of x, which begin at 0, or at that of the cache:
// position / base^(2i / features).
Output angles_of(const LayerContext& context, Output x, double base) {
  const std::int64_t half = known_dim(x, -1, "last dimension") / 2;
  Tensor frequencies(DType::f64, Shape{1, half});
  for (std::int64_t i = 0; i < half; ++i)
    frequencies.mutable_data<double>()[i] = std::pow(base, -static_cast<double>(i) / static_cast<double>(half));
  Output steps = range(size_of_axis(x, x.shape().rank() - 2));
  if (context.cache) steps = steps + context.cache->position;
  const Output positions = expand_dims(cast(steps, DType::f64), {1});
  return positions * constant(*x.graph, frequencies);
}

Output rotated(const LayerContext& context, Output x, double base, bool interleaved) {
  const Output angles = angles_of(context, x, base);
  const Output cosines = cast(cos(angles), x.dtype());
  return rotary_embedding(x, cosines, cast(sin(angles), x.dtype()), {.interleaved = interleaved});
}

// bool, broadcast to [n, heads, queries, keys].
Output mask_of_scores(Output mask) {
  if (mask.dtype() != DType::boolean) invalid_argument("the mask is {}, but must be bool", name(mask.dtype()));
  require_rank(mask, 2, 3, "a mask [n, keys] or [n, queries, keys]");
  return expand_dims(mask, mask.shape().rank() == 2 ? Integers{1, 2} : Integers{1});
}

Output causal_mask(Output q, Output k) {
  const Output rows = expand_dims(range(size_of_axis(q, 2)), {1});
  return greater_equal(rows, range(size_of_axis(k, 2)));
}

// Keys or values x [n, heads, steps, depth] of a piece -> those of all steps [n, heads, capacity, depth], of which
// those to come are as they were. Adds them to the cache.
Output with_steps_before(SequenceCache& cache, Output x, const char* name) {
  const Shape shape{kUnknown, known_dim(x, 1, "number of heads"), cache.capacity, known_dim(x, 3, "depth")};
  const Output before = placeholder(*x.graph, x.dtype(), shape, name);
  const Output position = reshape(cache.position, Shape{1});
  const Output whole = constant(*x.graph, Tensor::vector<std::int64_t>({-1, -1, -1, -1}));
  const Output first = slice(whole, {0}, {2}), last = slice(whole, {3}, {1});
  const Output size = concat({first, position, last}, 0);
  const Output head = slice(before, {0, 0, 0, 0}, size);
  const Output end = position + reshape(size_of_axis(x, 2), Shape{1});
  const Output begin = pad(end, Integers{2}, Integers{1});
  const Output tail = slice(before, begin, whole);
  const Output after = concat({head, x, tail}, 2);
  cache.before.push_back(before);
  cache.after.push_back(after);
  return after;
}

// bool [steps, capacity]: the steps of a piece attend to those up to themselves.
Output cached_causal_mask(const SequenceCache& cache, Output q) {
  const Output steps = range(size_of_axis(q, 2));
  const Output rows = expand_dims(steps + cache.position, {1});
  const Output capacity = constant<std::int64_t>(*q.graph, cache.capacity);
  return greater_equal(rows, range(capacity));
}

// Self-attention to the steps of this piece and those before.
Output attention_with_cache(const LayerConfig& config, SequenceCache& cache, Output q, Output k, Output v) {
  if (!config.options.boolean("causal") || config.options.boolean("takes_mask"))
    invalid_argument(
        "sequences piece by piece need causal attention without a mask: with others, steps see later ones");
  const Output keys = with_steps_before(cache, k, "keys_before");
  const Output values = with_steps_before(cache, v, "values_before");
  return troupe::attention(q, keys, values, {.mask = cached_causal_mask(cache, q)});
}

// The op has no dropout of probabilities: all scores are computed here.
Output attention_with_dropout(const LayerConfig& config, const LayerContext& context, Output q, Output k, Output v,
                              Output mask) {
  const Heads sizes(config);
  if (sizes.kv_heads != sizes.heads) {
    k = troupe::repeat(k, sizes.heads / sizes.kv_heads, 1);
    v = troupe::repeat(v, sizes.heads / sizes.kv_heads, 1);
  }
  Output scores = matmul(q, k, {.transpose_b = true});
  scores = widened(context, scores * (1 / std::sqrt(static_cast<double>(sizes.depth))));
  if (config.options.boolean("causal")) {
    const Output causal = causal_mask(q, k);
    mask = mask.valid() ? logical_and(mask, causal) : causal;
  }
  if (mask.valid()) scores = select(mask, scores, scalar_like(scores, -1e9));
  Output parts = softmax(scores);
  if (mask.valid()) parts = select(mask, parts, scalar_like(parts, 0));
  parts = troupe::dropout(parts, config.options.real("dropout"), {.seed = config.options.integer("seed")});
  return matmul(cast(parts, v.dtype()), v);
}

Outputs apply_attention(const LayerConfig& config, LayerContext& context, const Outputs& xs) {
  const bool takes_mask = config.options.boolean("takes_mask");
  const std::size_t sequences = xs.size() - (takes_mask ? 1 : 0);
  if (sequences < 1 || sequences > 3)
    invalid_argument("it takes a query, perhaps a value and a key{}, but is called with {} inputs",
                     takes_mask ? ", and a mask" : "", xs.size());
  for (std::size_t i = 0; i < sequences; ++i) {
    require_floating(xs[i]);
    require_rank(xs[i], 3, "[n, steps, features]");
  }
  const Output query = xs[0], value = sequences > 1 ? xs[1] : query, key = sequences > 2 ? xs[2] : value;
  const Heads sizes(config);
  const Projections project(config, context, query);
  Output q = heads_first(project("query", query, sizes.heads * sizes.depth), sizes.heads, sizes.depth);
  Output k = heads_first(project("key", key, sizes.kv_heads * sizes.depth), sizes.kv_heads, sizes.depth);
  const Output v =
      heads_first(project("value", value, sizes.kv_heads * sizes.value_depth), sizes.kv_heads, sizes.value_depth);
  if (const double base = config.options.real("rotary_base"); base != 0) {
    q = rotated(context, q, base, false);
    k = rotated(context, k, base, false);
  }
  const Output mask = takes_mask ? mask_of_scores(xs.back()) : Output();
  const bool drops = context.training && config.options.real("dropout") != 0;
  Output y;
  if (context.cache && sequences == 1)
    y = attention_with_cache(config, *context.cache, q, k, v);
  else if (context.cache)
    invalid_argument("sequences piece by piece need self-attention, but it is called with {} sequences", sequences);
  else if (drops)
    y = attention_with_dropout(config, context, q, k, v, mask);
  else
    y = troupe::attention(q, k, v, {.mask = mask, .causal = config.options.boolean("causal")});
  const std::int64_t features = config.options.integer("features");
  return {project("output", heads_last(y, sizes.heads, sizes.value_depth),
                  features != 0 ? features : known_dim(query, -1, "last dimension"))};
}

void check_attention(const LayerConfig& config) {
  require_positive(config, "heads");
  require_positive(config, "depth");
  for (const char* option : {"value_depth", "kv_heads", "features"})
    if (const std::int64_t value = config.options.integer(option); value < 0)
      invalid_argument("{} must not be negative, but is {}", option, value);
  require_dropout(config);
  require_base(config, "rotary_base", true);
  const Heads sizes(config);
  if (sizes.heads % sizes.kv_heads != 0)
    invalid_argument("{} heads cannot share {} keys and values", sizes.heads, sizes.kv_heads);
}

Output apply_position_encoding(const LayerConfig& config, LayerContext& context, Output x) {
  require_floating(x);
  require_rank(x, 3, "[n, steps, features]");
  const std::int64_t features = known_dim(x, -1, "last dimension");
  if (features % 2 != 0)
    invalid_argument("the number of features must be even, but the input is {}", x.shape().to_string());
  const Output angles = angles_of(context, x, config.options.real("max_wavelength"));
  const Output sines = sin(angles);
  const Output pairs = stack({sines, cos(angles)}, 2);
  return x + cast(reshape_copying_zeros(pairs, {0, features}), x.dtype());
}

Output apply_position_embedding(const LayerConfig& config, LayerContext& context, Output x) {
  require_floating(x);
  require_rank(x, 3, "[n, steps, features]");
  const std::int64_t features = known_dim(x, -1, "last dimension"), most = config.options.integer("max_steps");
  if (x.shape()[1] > most) invalid_argument("the input is {}, but there are {} positions", x.shape().to_string(), most);
  const WeightSpec spec{.dtype = context.weight_type(x),
                        .shape = Shape{most, features},
                        .fan_in = static_cast<double>(most),
                        .fan_out = static_cast<double>(features)};
  const Output table = weight_of(config, context, "table", spec, initializers::glorot_uniform());
  const Output steps = slice(shape_of(x), {1}, {1});
  const Output all = constant(*x.graph, {features});
  const Output first = context.cache ? reshape(context.cache->position, Shape{1})
                                     : constant(*x.graph, Tensor::vector<std::int64_t>({0}));
  const Output begin = pad(first, Integers{0}, Integers{1});
  return x + cast(slice(table, begin, concat({steps, all}, 0)), x.dtype());
}

Output apply_rotary(const LayerConfig& config, LayerContext& context, Output x) {
  require_floating(x);
  require_rank(x, 2, kMaxRank, "[..., steps, features]");
  if (known_dim(x, -1, "last dimension") % 2 != 0)
    invalid_argument("the number of features must be even, but the input is {}", x.shape().to_string());
  return rotated(context, x, config.options.real("base"), config.options.boolean("interleaved"));
}

}  // namespace

std::span<const LayerKind> attention_kinds() {
  static const std::vector<LayerKind> kinds = {
      {.name = "multi_head_attention",
       .options = {{"heads", std::int64_t{1}},
                   {"depth", std::int64_t{1}},
                   {"value_depth", std::int64_t{0}},
                   {"kv_heads", std::int64_t{0}},
                   {"features", std::int64_t{0}},
                   {"takes_mask", false},
                   {"causal", false},
                   {"rotary_base", 0.0},
                   {"dropout", 0.0},
                   {"seed", std::int64_t{0}},
                   {"use_bias", true},
                   {"compute", ""}},
       .apply = apply_attention,
       .check = check_attention,
       .max_inputs = 4,
       .weights = {"kernel", "bias"}},
      {.name = "position_encoding",
       .options = {{"max_wavelength", 10000.0}},
       .apply = of_one<apply_position_encoding>,
       .check = [](const LayerConfig& c) { require_base(c, "max_wavelength", false); }},
      {.name = "position_embedding",
       .options = {{"max_steps", std::int64_t{1}}},
       .apply = of_one<apply_position_embedding>,
       .check = [](const LayerConfig& c) { require_positive(c, "max_steps"); },
       .weights = {"table"}},
      {.name = "rotary",
       .options = {{"base", 10000.0}, {"interleaved", false}},
       .apply = of_one<apply_rotary>,
       .check = [](const LayerConfig& c) { require_base(c, "base", false); }},
  };
  return kinds;
}

namespace layers {

LayerPtr multi_head_attention(std::int64_t heads, std::int64_t depth, AttentionOptions options) {
  require_compute_type("multi_head_attention", options.compute);
  LayerConfig config{.kind = "multi_head_attention",
                     .options = {{"heads", heads},
                                 {"depth", depth},
                                 {"value_depth", options.value_depth},
                                 {"kv_heads", options.kv_heads},
                                 {"features", options.features},
                                 {"takes_mask", options.takes_mask},
                                 {"causal", options.causal},
                                 {"rotary_base", options.rotary_base},
                                 {"dropout", options.dropout},
                                 {"seed", options.seed},
                                 {"use_bias", options.use_bias},
                                 {"compute", compute_option(options.compute)}}};
  set_weight(config, "kernel", options.kernel);
  set_weight(config, "bias", options.bias);
  return standard_layer(std::move(config));
}

LayerPtr position_encoding(double max_wavelength) {
  return standard_layer({.kind = "position_encoding", .options = {{"max_wavelength", max_wavelength}}});
}
LayerPtr position_embedding(std::int64_t max_steps, WeightOptions table) {
  LayerConfig config{.kind = "position_embedding", .options = {{"max_steps", max_steps}}};
  set_weight(config, "table", table);
  return standard_layer(std::move(config));
}
LayerPtr rotary(double base, bool interleaved) {
  return standard_layer({.kind = "rotary", .options = {{"base", base}, {"interleaved", interleaved}}});
}

}  // namespace layers
}  // namespace troupe
