// The layers of layers.hpp, as rows of data: a kind's options with their defaults, and functions that check a
// configuration and add its nodes. So every one can be written and read back. Internal to graph/layers.
#pragma once

#include <span>
#include <string>
#include <vector>

#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/layers/activations.hpp>
#include <troupe/graph/layers/registry.hpp>

namespace troupe {

// Of inputs: no limit.
inline constexpr int kAnyNumber = 1 << 20;

struct LayerKind {
  std::string name{};
  Attributes options{};  // all there are, with their defaults
  // Errors name neither kind nor layer: the caller does.
  Outputs (*apply)(const LayerConfig& config, LayerContext& context, const Outputs& xs) = nullptr;
  void (*check)(const LayerConfig& config) = nullptr;  // the options alone
  int min_inputs = 1;
  int max_inputs = 1;
  int (*outputs)(const LayerConfig& config) = nullptr;  // null: 1
  std::vector<std::string> weights{};                   // those with WeightOptions
  std::vector<std::string> layers{};                    // those inside
  std::string named_by{};  // a string option whose value is the kind that names are made of
};

// One list per source.
std::span<const LayerKind> core_kinds();
std::span<const LayerKind> conv_kinds();
std::span<const LayerKind> pool_kinds();
std::span<const LayerKind> norm_kinds();
std::span<const LayerKind> shape_kinds();
std::span<const LayerKind> noise_kinds();
std::span<const LayerKind> recurrent_kinds();
std::span<const LayerKind> attention_kinds();
std::span<const LayerKind> transformer_kinds();
std::span<const LayerKind> preprocessing_kinds();
std::span<const LayerKind> text_kinds();

std::vector<const LayerKind*> all_layer_kinds();
const LayerKind* find_layer_kind(std::string_view name);  // null: there is none

// Throws invalid_argument ("dense: units must be at least 1, not 0") for options that do not fit the kind.
LayerPtr standard_layer(LayerConfig config);

// For LayerKind::apply, of a function of one input and one output.
template <Output (*apply)(const LayerConfig&, LayerContext&, Output)>
Outputs of_one(const LayerConfig& config, LayerContext& context, const Outputs& xs) {
  return {apply(config, context, xs[0])};
}

// Throws invalid_argument, naming `what`, for a dtype that products cannot be computed in. Accepts DType::invalid, "the
// input's".
void require_compute_type(const char* what, DType compute);
// As options: "" is DType::invalid.
std::string compute_option(DType compute);
DType real_type(const LayerContext& context, Output x);  // of weights, or x's, or f32
DType compute_of(const LayerConfig& config, const LayerContext& context, Output x);

// A weight of the layer, in the options given for it or else with this initializer.
Output weight_of(const LayerConfig& config, LayerContext& context, const std::string& name, const WeightSpec& spec,
                 const Initializer& initializer);
// Puts options into a configuration, unless they are the default.
void set_weight(LayerConfig& config, const std::string& name, const WeightOptions& options);
// x + bias, if there is one: f of option "use_bias". The bias is [units], of dtype `dtype`, cast to x's.
Output with_bias(const LayerConfig& config, LayerContext& context, Output x, std::int64_t units, DType dtype);

// For ops that have no f16 and bf16 kernels, or need the precision: x in the weights' dtype.
Output widened(const LayerContext& context, Output x);
// By option "activation".
Output activated(const LayerConfig& config, const LayerContext& context, Output x);
Output activated(const LayerContext& context, Output x, Activation activation);

// Errors state how x should look.
void require_rank(Output x, int rank, const char* expected);
void require_rank(Output x, int low, int high, const char* expected);
void require_floating(Output x);
std::int64_t known_dim(Output x, int axis, const char* what);
void require_positive(const LayerConfig& config, const char* option);      // an integer
void require_all_positive(const LayerConfig& config, const char* option);  // integers
void require_rate(const LayerConfig& config);                              // option "rate", in [0, 1)
void require_dropout(const LayerConfig& config);                           // option "dropout", likewise
void require_epsilon(const LayerConfig& config);
void require_base(const LayerConfig& config, const char* option, bool optional);  // positive; optional: or 0
// Throws for text that is none of these.
void require_one_of(const LayerConfig& config, const char* option, std::initializer_list<const char*> values);

// x with its first `count` dimensions as one, and back: y [product, ...] with those dimensions of x instead.
Output with_merged_leading(Output x, int count);
Output with_leading_of(Output y, Output x, int count);

// The same scope and prefix of variables as a layer inside another would have.
Outputs apply_inside(LayerContext& context, const std::string& name, const Layer& layer, const Outputs& xs);

}  // namespace troupe
