// ONNX's RNN, GRU and LSTM: weights and formulas are those of our ops.
#include <algorithm>
#include <cctype>

#include <troupe/graph/builder/recurrent.hpp>
#include <troupe/graph/formats/onnx/onnx_activations.hpp>
#include <troupe/graph/formats/onnx/onnx_node.hpp>

namespace troupe {
namespace {

bool same_but_for_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

std::vector<RecurrentActivation> onnx_activations(const OnnxNode& node) {
  const std::vector<double> alphas = node.reals("activation_alpha", std::vector<double>{}),
                            betas = node.reals("activation_beta", std::vector<double>{});
  std::vector<RecurrentActivation> out;
  std::size_t alpha = 0, beta = 0;  // values are consumed by the activations that have them
  for (const std::string& given : node.strings("activations", std::vector<std::string>{})) {
    const auto* known = std::ranges::find_if(
        kOnnxActivations, [&](const OnnxActivation& f) { return same_but_for_case(given, f.written); });
    if (known == std::end(kOnnxActivations)) fail(Code::unimplemented, "activation '{}' is not known", given);
    RecurrentActivation f{std::string(known->name), known->alpha, known->beta};
    if (known->parameters > 0 && alpha < alphas.size()) f.alpha = alphas[alpha++];
    if (known->parameters > 1 && beta < betas.size()) f.beta = betas[beta++];
    out.push_back(f);
  }
  return out;
}

// What was cast to ONNX's i32 only to be written.
Output lengths_of_sequences(const OnnxNode& node) {
  if (!node.has(4)) return {};
  const Output given = node.in(4);
  const Node& source = given.source();
  const bool narrowed = source.op->name == "Cast" && given.graph->dtype(source.inputs[0]) == DType::i64;
  return narrowed ? Output{given.graph, source.inputs[0].node, source.inputs[0].index} : given;
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
  options.lengths = lengths_of_sequences(node);
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
