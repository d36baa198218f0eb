// ONNX's RNN, GRU and LSTM: weights and formulas are those of our ops.
#include <algorithm>
#include <cctype>

#include <troupe/graph/builder/recurrent.hpp>
#include <troupe/graph/formats/onnx/onnx_node.hpp>

namespace troupe {
namespace {

// ONNX's names in lower case, with the parameters that each has and their defaults.
struct OnnxActivation {
  std::string_view onnx;
  const char* name;
  int parameters = 0;  // 1: alpha, 2: alpha and beta
  double alpha = 0, beta = 0;
};
constexpr OnnxActivation kOnnxActivations[] = {
    {"relu", "relu"},
    {"tanh", "tanh"},
    {"sigmoid", "sigmoid"},
    {"affine", "affine", 2, 1, 0},
    {"leakyrelu", "leaky_relu", 1, 0.01},
    {"thresholdedrelu", "thresholded_relu", 1, 1},
    {"scaledtanh", "scaled_tanh", 2, 1, 1},
    {"hardsigmoid", "hard_sigmoid", 2, 0.2, 0.5},
    {"elu", "elu", 1, 1},
    {"softsign", "softsign"},
    {"softplus", "softplus"},
};

std::vector<RecurrentActivation> onnx_activations(const OnnxNode& node) {
  const std::vector<double> alphas = node.reals("activation_alpha", std::vector<double>{}),
                            betas = node.reals("activation_beta", std::vector<double>{});
  std::vector<RecurrentActivation> out;
  std::size_t alpha = 0, beta = 0;  // values are consumed by the activations that have them
  for (std::string given : node.strings("activations", std::vector<std::string>{})) {
    std::ranges::transform(given, given.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    const auto* known = std::ranges::find(kOnnxActivations, given, &OnnxActivation::onnx);
    if (known == std::end(kOnnxActivations)) fail(Code::unimplemented, "activation '{}' is not known", given);
    RecurrentActivation f{known->name, known->alpha, known->beta};
    if (known->parameters > 0 && alpha < alphas.size()) f.alpha = alphas[alpha++];
    if (known->parameters > 1 && beta < betas.size()) f.beta = betas[beta++];
    out.push_back(f);
  }
  return out;
}

Output recurrent_input(const OnnxNode& node, int index) { return node.has(index) ? node.in(index) : Output(); }

template <class Options>
Options onnx_recurrent_options(const OnnxNode& node) {
  const std::string direction = node.string("direction", "forward");
  Options options;
  if (direction != "forward")
    options.direction = direction == "reverse" ? Direction::reverse : Direction::bidirectional;
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
    invalid_argument("attribute 'direction' is '{}'", direction);
  options.batch_major = node.integer("layout", 0) != 0;
  options.bias = recurrent_input(node, 3);
  options.lengths = recurrent_input(node, 4);
  options.initial_h = recurrent_input(node, 5);
  options.activations = onnx_activations(node);
  options.clip = node.real("clip", 0.0);
  return options;
}

void rnn_node(OnnxNode& node) {
  const RnnOutputs out = rnn(node.in(0), node.in(1), node.in(2), onnx_recurrent_options<RnnOptions>(node));
  node.set(0, out.y);
  node.set(1, out.last_h);
}

void gru_node(OnnxNode& node) {
  auto options = onnx_recurrent_options<GruOptions>(node);
  options.linear_before_reset = node.integer("linear_before_reset", 0) != 0;
  const RnnOutputs out = gru(node.in(0), node.in(1), node.in(2), std::move(options));
  node.set(0, out.y);
  node.set(1, out.last_h);
}

void lstm_node(OnnxNode& node) {
  auto options = onnx_recurrent_options<LstmOptions>(node);
  options.initial_c = recurrent_input(node, 6);
  options.peepholes = recurrent_input(node, 7);
  options.input_forget = node.integer("input_forget", 0) != 0;
  const LstmOutputs out = lstm(node.in(0), node.in(1), node.in(2), std::move(options));
  node.set(0, out.y);
  node.set(1, out.last_h);
  node.set(2, out.last_c);
}

constexpr OnnxOp kRecurrentOps[] = {
    {"GRU", gru_node},
    {"LSTM", lstm_node},
    {"RNN", rnn_node},
};

}  // namespace

std::span<const OnnxOp> onnx_recurrent_ops() { return kRecurrentOps; }

}  // namespace troupe
