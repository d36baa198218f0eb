// Layers: the blocks of transformers.
#include <functional>

#include <troupe/graph/layers/attention.hpp>
#include <troupe/graph/layers/core.hpp>
#include <troupe/graph/layers/norm.hpp>
#include <troupe/graph/layers/standard_layer.hpp>

namespace troupe {
namespace {

// A block of a transformer. Its parts are layers below its name.
class Block {
 public:
  Block(const LayerConfig& config, LayerContext& context, Output x) : config_(config), context_(context) {
    require_floating(x);
    require_rank(x, 3, "[n, steps, features]");
    features_ = known_dim(x, -1, "last dimension");
    if (features_ % config.options.integer("heads") != 0)
      invalid_argument("{} features cannot be cut into {} heads", features_, config.options.integer("heads"));
  }

  // x and the other inputs of the attention.
  Output attend(const std::string& name, Output x, Outputs others, bool causal, bool takes_mask, bool crosses) const {
    const std::int64_t heads = config_.options.integer("heads");
    const LayerPtr layer =
        layers::multi_head_attention(heads, features_ / heads,
                                     {.takes_mask = takes_mask,
                                      .causal = causal,
                                      .rotary_base = crosses ? 0 : config_.options.real("rotary_base"),
                                      .dropout = config_.options.real("dropout"),
                                      .seed = config_.options.integer("seed"),
                                      .compute = DType::invalid});
    return around(name, x, [&](Output inner) {
      Outputs inputs{inner};
      inputs.insert(inputs.end(), others.begin(), others.end());
      return apply_inside(context_, name, *layer, inputs)[0];
    });
  }

  Output feed_forward(Output x) const {
    const LayerPtr in =
        layers::dense(config_.options.integer("hidden"), activation_named(config_.options.string("activation")));
    const LayerPtr out = layers::dense(features_);
    return around("feed_forward", x, [&](Output inner) {
      const Output hidden = apply_inside(context_, "feed_forward_in", *in, {inner})[0];
      return apply_inside(context_, "feed_forward_out", *out, {hidden})[0];
    });
  }

 private:
  // The part, its dropout and the sum, normalised before or after.
  Output around(const std::string& name, Output x, const std::function<Output(Output)>& part) const {
    const bool first = config_.options.boolean("norm_first");
    const LayerPtr norm = layers::layer_norm({.epsilon = config_.options.real("epsilon")});
    const auto normalised = [&](Output y) { return apply_inside(context_, name + "_norm", *norm, {y})[0]; };
    Output y = part(first ? normalised(x) : x);
    const LayerPtr drop = layers::dropout(config_.options.real("dropout"), config_.options.integer("seed"));
    if (config_.options.real("dropout") != 0) y = apply_inside(context_, name + "_dropout", *drop, {y})[0];
    y = x + cast(y, x.dtype());
    return first ? y : normalised(y);
  }

  const LayerConfig& config_;
  LayerContext& context_;
  std::int64_t features_ = 0;
};

Outputs apply_encoder(const LayerConfig& config, LayerContext& context, const Outputs& xs) {
  const Block block(config, context, xs[0]);
  const bool masked = xs.size() == 2;
  const Outputs mask = masked ? Outputs{xs[1]} : Outputs{};
  return {block.feed_forward(block.attend("attention", xs[0], mask, config.options.boolean("causal"), masked, false))};
}

Outputs apply_decoder(const LayerConfig& config, LayerContext& context, const Outputs& xs) {
  const Block block(config, context, xs[0]);
  Output x = block.attend("attention", xs[0], {}, true, false, false);
  if (xs.size() > 1) x = block.attend("cross_attention", x, {xs.begin() + 1, xs.end()}, false, xs.size() == 3, true);
  return {block.feed_forward(x)};
}

void check_block(const LayerConfig& config) {
  require_positive(config, "heads");
  require_positive(config, "hidden");
  require_dropout(config);
  require_epsilon(config);
  require_base(config, "rotary_base", true);
}

LayerPtr block_of(const char* kind, std::int64_t heads, std::int64_t hidden,
                  const layers::TransformerOptions& options) {
  return standard_layer({.kind = kind,
                         .options = {{"heads", heads},
                                     {"hidden", hidden},
                                     {"norm_first", options.norm_first},
                                     {"causal", options.causal},
                                     {"activation", to_string(options.activation)},
                                     {"dropout", options.dropout},
                                     {"seed", options.seed},
                                     {"epsilon", options.epsilon},
                                     {"rotary_base", options.rotary_base}}});
}

Attributes block_defaults() {
  return {{"heads", std::int64_t{1}}, {"hidden", std::int64_t{1}}, {"norm_first", false},
          {"causal", false},          {"activation", "relu"},      {"dropout", 0.0},
          {"seed", std::int64_t{0}},  {"epsilon", 1e-5},           {"rotary_base", 0.0}};
}

}  // namespace

std::span<const LayerKind> transformer_kinds() {
  static const std::vector<LayerKind> kinds = {
      {.name = "transformer_encoder",
       .options = block_defaults(),
       .apply = apply_encoder,
       .check = check_block,
       .max_inputs = 2},
      {.name = "transformer_decoder",
       .options = block_defaults(),
       .apply = apply_decoder,
       .check = check_block,
       .max_inputs = 3},
  };
  return kinds;
}

namespace layers {

LayerPtr transformer_encoder(std::int64_t heads, std::int64_t hidden, TransformerOptions options) {
  return block_of("transformer_encoder", heads, hidden, options);
}
LayerPtr transformer_decoder(std::int64_t heads, std::int64_t hidden, TransformerOptions options) {
  return block_of("transformer_decoder", heads, hidden, options);
}

}  // namespace layers
}  // namespace troupe
