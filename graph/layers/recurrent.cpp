#include "troupe/graph/layers/recurrent.hpp"

#include <troupe/graph/layers/standard_layer.hpp>

namespace troupe {
namespace {

int gates_of(const LayerConfig& config) { return config.kind == "lstm" ? 4 : config.kind == "gru" ? 3 : 1; }
int states_of(const LayerConfig& config) { return config.kind == "lstm" ? 2 : 1; }
bool flag(const LayerConfig& config, const char* option) { return config.options.boolean(option); }

RecurrentActivation recurrent_activation(const LayerConfig& config, const char* option) {
  const std::string& given = config.options.string(option);
  switch (activation_named(given)) {
    case Activation::none:
      return {"affine", 1, 0};
    case Activation::leaky_relu:
      return {given, 0.2};
    case Activation::elu:
      return {given, 1};
    case Activation::hard_sigmoid:
      return {given, 1.0 / 6, 0.5};
    case Activation::relu:
    case Activation::tanh:
    case Activation::sigmoid:
    case Activation::softsign:
    case Activation::softplus:
      return {given};
    default:
      invalid_argument("{} '{}' is none that a recurrent layer can compute", option, given);
  }
}

struct RecurrentInput {
  Output x{}, lengths{};
  Outputs states{};  // [n, 1, units]
};

RecurrentInput recurrent_input(const LayerConfig& config, const Outputs& xs, DType compute) {
  const int lengths = flag(config, "takes_lengths") ? 1 : 0;
  const int states = flag(config, "takes_state") ? states_of(config) : 0;
  if (static_cast<int>(xs.size()) != 1 + lengths + states)
    invalid_argument("it takes a sequence{}{}, but is called with {} inputs", lengths ? ", lengths" : "",
                     states == 2 ? ", the first h and c"
                     : states    ? ", the first h"
                                 : "",
                     xs.size());
  require_floating(xs[0]);
  require_rank(xs[0], 3, "[n, steps, features]");
  RecurrentInput in{.x = cast(xs[0], compute)};
  if (lengths) in.lengths = cast(xs[1], DType::i64);
  for (int i = 0; i < states; ++i)
    in.states.push_back(expand_dims(cast(xs[static_cast<std::size_t>(1 + lengths + i)], compute), {1}));
  return in;
}

// Ones in the forget gate let errors pass at first (Jozefowicz, Zaremba & Sutskever 2015).
Output forgetting_bias(Graph& graph, const WeightSpec& spec) {
  const std::int64_t units = spec.shape[0] / 4;
  const Output gates = constant(graph, {std::int64_t{2}});
  const Output forget = one_hot(gates, {4}, {.dtype = spec.dtype});
  return reshape(troupe::repeat(forget, {units}, 1), spec.shape);
}

// Both biases of the op: [1, 2 gates units].
Output both_biases(const LayerConfig& config, LayerContext& context, DType weights, DType compute) {
  if (!flag(config, "use_bias")) return {};
  const std::int64_t size = gates_of(config) * config.options.integer("units");
  const bool both = config.kind == "gru" && flag(config, "reset_after");
  const WeightSpec spec{.dtype = weights, .shape = Shape{both ? 2 * size : size}};
  const Initializer first = config.kind == "lstm" ? Initializer(forgetting_bias) : initializers::zeros();
  const Output bias = cast(weight_of(config, context, "bias", spec, first), compute);
  return expand_dims(both ? bias : pad(bias, Integers{0}, Integers{size}), {0});
}

struct RecurrentResult {
  Output y{};        // [n, steps, 1, units]
  Outputs states{};  // [n, 1, units]
};

template <class Options>
Options recurrent_options(const LayerConfig& config, const RecurrentInput& in, Output bias) {
  Options options{.direction = flag(config, "go_backwards") ? Direction::reverse : Direction::forward,
                  .batch_major = true,
                  .bias = bias,
                  .lengths = in.lengths};
  if (!in.states.empty()) options.initial_h = in.states[0];
  const RecurrentActivation of_state = recurrent_activation(config, "activation");
  if constexpr (std::is_same_v<Options, RnnOptions>)
    options.activations = {of_state};
  else
    options.activations = {recurrent_activation(config, "recurrent_activation"), of_state};
  if constexpr (std::is_same_v<Options, GruOptions>) options.linear_before_reset = flag(config, "reset_after");
  if constexpr (std::is_same_v<Options, LstmOptions>) {
    options.activations.push_back(of_state);
    if (!in.states.empty()) options.initial_c = in.states[1];
  }
  return options;
}

RecurrentResult run_cell(const LayerConfig& config, const RecurrentInput& in, Output w, Output r, Output bias) {
  if (config.kind == "lstm") {
    const LstmOutputs out = troupe::lstm(in.x, w, r, recurrent_options<LstmOptions>(config, in, bias));
    return {out.y, {out.last_h, out.last_c}};
  }
  const RnnOutputs out = config.kind == "gru"
                             ? troupe::gru(in.x, w, r, recurrent_options<GruOptions>(config, in, bias))
                             : troupe::rnn(in.x, w, r, recurrent_options<RnnOptions>(config, in, bias));
  return {out.y, {out.last_h}};
}

Output reversed_steps(Output y, Output lengths) {
  if (!lengths.valid()) return reverse(y, {1});
  return reverse_sequence(y, lengths, {.seq_axis = 1, .batch_axis = 0});
}

Outputs apply_recurrent(const LayerConfig& config, LayerContext& context, const Outputs& xs) {
  const DType compute = compute_of(config, context, xs[0]), weights = context.weight_type(xs[0]);
  const RecurrentInput in = recurrent_input(config, xs, compute);
  const std::int64_t units = config.options.integer("units"), rows = gates_of(config) * units;
  const std::int64_t features = known_dim(in.x, -1, "last dimension");
  const auto spec = [&](std::int64_t columns) {
    return WeightSpec{.dtype = weights,
                      .shape = Shape{rows, columns},
                      .fan_in = static_cast<double>(columns),
                      .fan_out = static_cast<double>(rows)};
  };
  const Output kernel = weight_of(config, context, "kernel", spec(features), initializers::glorot_uniform());
  const Output w = expand_dims(cast(kernel, compute), {0});
  const Output recurrent = weight_of(config, context, "recurrent_kernel", spec(units), initializers::orthogonal());
  const Output r = expand_dims(cast(recurrent, compute), {0});
  const RecurrentResult out = run_cell(config, in, w, r, both_biases(config, context, weights, compute));
  Outputs ys;
  if (flag(config, "return_sequences")) {
    const Output y = squeeze(out.y, {2});
    ys.push_back(flag(config, "go_backwards") && !flag(config, "keep_order") ? reversed_steps(y, in.lengths) : y);
  } else {
    ys.push_back(squeeze(out.states[0], {1}));
  }
  if (flag(config, "return_state"))
    for (const Output& state : out.states) ys.push_back(squeeze(state, {1}));
  return ys;
}

void check_recurrent(const LayerConfig& config) {
  require_positive(config, "units");
  recurrent_activation(config, "activation");
  if (config.kind != "simple_rnn") recurrent_activation(config, "recurrent_activation");
}

int recurrent_outputs(const LayerConfig& config) { return flag(config, "return_state") ? 1 + states_of(config) : 1; }

Output merged(const std::string& merge, Output a, Output b) {
  if (merge == "concat") return concat({a, b}, -1);
  if (merge == "multiply") return a * b;
  const Output sum = a + b;
  return merge == "average" ? sum * 0.5 : sum;
}

Outputs apply_bidirectional(const LayerConfig& config, LayerContext& context, const Outputs& xs) {
  const Layer& forward = *config.layers.at("forward");
  const LayerConfig inner = forward.config();
  const std::size_t own = flag(inner, "takes_lengths") ? 2 : 1, states = (xs.size() - own) / 2;
  if (xs.size() < own || xs.size() != own + 2 * states)
    invalid_argument("it takes as many states for both directions, but is called with {} inputs", xs.size());
  const auto inputs_of = [&](std::size_t direction) {
    Outputs of(xs.begin(), xs.begin() + static_cast<std::ptrdiff_t>(own));
    for (std::size_t i = 0; i < states; ++i) of.push_back(xs[own + direction * states + i]);
    return of;
  };
  const Outputs a = apply_inside(context, "forward", forward, inputs_of(0));
  const Outputs b = apply_inside(context, "backward", *config.layers.at("backward"), inputs_of(1));
  const std::string& merge = config.options.string("merge");
  Outputs ys = merge == "none" ? Outputs{a[0], b[0]} : Outputs{merged(merge, a[0], b[0])};
  ys.insert(ys.end(), a.begin() + 1, a.end());
  ys.insert(ys.end(), b.begin() + 1, b.end());
  return ys;
}

bool is_recurrent(const Layer& layer) {
  const std::string kind = layer.kind();
  return kind == "simple_rnn" || kind == "gru" || kind == "lstm";
}

void check_bidirectional(const LayerConfig& config) {
  require_one_of(config, "merge", {"concat", "sum", "multiply", "average", "none"});
  for (const char* name : {"forward", "backward"}) {
    const auto layer = config.layers.find(name);
    if (layer == config.layers.end() || !is_recurrent(*layer->second))
      invalid_argument("the {} layer must be a simple_rnn, gru or lstm", name);
  }
  const LayerConfig a = config.layers.at("forward")->config(), b = config.layers.at("backward")->config();
  for (const char* option : {"return_sequences", "return_state", "takes_lengths", "takes_state"})
    if (flag(a, option) != flag(b, option)) invalid_argument("the layers differ in {}", option);
}

int bidirectional_outputs(const LayerConfig& config) {
  const int each = config.layers.at("forward")->outputs() + config.layers.at("backward")->outputs();
  return config.options.string("merge") == "none" ? each : each - 1;
}

Output apply_lengths_of_mask(const LayerConfig&, LayerContext&, Output x) {
  require_rank(x, 2, "[n, steps]");
  return sum(cast(x, DType::i64), {1});
}

LayerPtr recurrent_of(const char* kind, std::int64_t units, const layers::RecurrentOptions& options) {
  require_compute_type(kind, options.compute);
  LayerConfig config{.kind = kind,
                     .options = {{"units", units},
                                 {"return_sequences", options.return_sequences},
                                 {"return_state", options.return_state},
                                 {"go_backwards", options.go_backwards},
                                 {"keep_order", options.keep_order},
                                 {"takes_lengths", options.takes_lengths},
                                 {"takes_state", options.takes_state},
                                 {"activation", to_string(options.activation)},
                                 {"recurrent_activation", to_string(options.recurrent_activation)},
                                 {"reset_after", options.reset_after},
                                 {"use_bias", options.use_bias},
                                 {"compute", compute_option(options.compute)}}};
  set_weight(config, "kernel", options.kernel);
  set_weight(config, "recurrent_kernel", options.recurrent_kernel);
  set_weight(config, "bias", options.bias);
  return standard_layer(std::move(config));
}

}  // namespace

std::span<const LayerKind> recurrent_kinds() {
  static const std::vector<LayerKind> kinds = [] {
    std::vector<LayerKind> all = {
        {.name = "bidirectional",
         .options = {{"merge", "concat"}},
         .apply = apply_bidirectional,
         .check = check_bidirectional,
         .max_inputs = 6,
         .outputs = bidirectional_outputs,
         .layers = {"forward", "backward"}},
        {.name = "lengths_of_mask", .apply = of_one<apply_lengths_of_mask>},
    };
    for (const char* name : {"simple_rnn", "gru", "lstm"})
      all.push_back({.name = name,
                     .options = {{"units", std::int64_t{1}},
                                 {"return_sequences", false},
                                 {"return_state", false},
                                 {"go_backwards", false},
                                 {"keep_order", false},
                                 {"takes_lengths", false},
                                 {"takes_state", false},
                                 {"activation", "tanh"},
                                 {"recurrent_activation", "sigmoid"},
                                 {"reset_after", true},
                                 {"use_bias", true},
                                 {"compute", ""}},
                     .apply = apply_recurrent,
                     .check = check_recurrent,
                     .max_inputs = 4,
                     .outputs = recurrent_outputs,
                     .weights = {"kernel", "recurrent_kernel", "bias"}});
    return all;
  }();
  return kinds;
}

namespace layers {

LayerPtr simple_rnn(std::int64_t units, RecurrentOptions options) { return recurrent_of("simple_rnn", units, options); }
LayerPtr gru(std::int64_t units, RecurrentOptions options) { return recurrent_of("gru", units, options); }
LayerPtr lstm(std::int64_t units, RecurrentOptions options) { return recurrent_of("lstm", units, options); }

LayerPtr bidirectional(LayerPtr layer, Merge merge) {
  constexpr const char* kMerges[] = {"concat", "sum", "multiply", "average", "none"};
  if (!layer || !is_recurrent(*layer)) invalid_argument("bidirectional: the layer must be a simple_rnn, gru or lstm");
  LayerConfig backward = layer->config();
  backward.options.set("go_backwards", !backward.options.boolean("go_backwards"));
  backward.options.set("keep_order", true);
  return standard_layer({.kind = "bidirectional",
                         .options = {{"merge", kMerges[static_cast<std::size_t>(merge)]}},
                         .layers = {{"forward", layer}, {"backward", standard_layer(std::move(backward))}}});
}

LayerPtr lengths_of_mask() { return standard_layer({.kind = "lengths_of_mask"}); }

}  // namespace layers
}  // namespace troupe
