// RNN, GRU and LSTM, whose weights and formulas are ONNX's.
#include <algorithm>

#include <troupe/graph/formats/onnx/export_graph.hpp>
#include <troupe/graph/formats/onnx/onnx_activations.hpp>

namespace troupe {
namespace {

using Names = std::vector<std::string>;
using Reals = std::vector<double>;

// Of all directions, as the cell has them if none are given.
Names default_activations(const std::string& cell, bool bidirectional) {
  Names one = cell == "RNN"   ? Names{"tanh"}
              : cell == "GRU" ? Names{"sigmoid", "tanh"}
                              : Names{"sigmoid", "tanh", "tanh"};
  const std::size_t count = one.size();
  for (std::size_t i = 0; bidirectional && i < count; ++i) one.push_back(std::string(one[i]));
  return one;
}

// Lists of alpha and beta have values for those activations only that have such a parameter.
void set_activations(const OnnxExportNode& node, Attributes& out) {
  const Attributes& a = node.attributes();
  const auto& names = a.get<Names>("activations");
  if (names == default_activations(node.node().op->name, a.string("direction") == "bidirectional")) return;
  Names written;
  Reals alphas, betas;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto* known = std::ranges::find(kOnnxActivations, names[i], &OnnxActivation::name);
    if (known == std::end(kOnnxActivations)) fail(Code::unimplemented, "ONNX has no activation '{}'", names[i]);
    written.emplace_back(known->written);
    if (known->parameters > 0) alphas.push_back(a.get<Reals>("alphas")[i]);
    if (known->parameters > 1) betas.push_back(a.get<Reals>("betas")[i]);
  }
  out.set("activations", written);
  if (!alphas.empty()) out.set("activation_alpha", alphas);
  if (!betas.empty()) out.set("activation_beta", betas);
}

// "": an absent one, which is a vector of no elements here.
OnnxName optional_input(const OnnxExportNode& node, int input) {
  return node.shape(input) == Shape{0} ? OnnxName() : node.in(input);
}

// ONNX has them as i32.
OnnxName lengths_of(const OnnxExportNode& node) {
  if (node.shape(4) == Shape{0}) return "";
  const Node& source = node.graph().node(node.endpoint(4).node);
  if (source.op->name == "Cast" && node.graph().dtype(source.inputs[0]) == DType::i32 &&
      !node.writer().is_given(node.endpoint(4)))
    return node.writer().plain(source.inputs[0]);
  return node.add("Cast", {node.in(4)}, {{"to", DType::i32}});
}

void write_recurrent(OnnxExportNode& node) {
  const Attributes& a = node.attributes();
  const std::string& cell = node.node().op->name;
  const std::int64_t units = node.shape(2).has_rank() ? node.shape(2)[2] : kUnknown;
  if (units == kUnknown) fail(Code::unimplemented, "the number of its units must be known");
  Attributes written{{"hidden_size", units}};
  if (a.string("direction") != "forward") written.set("direction", a.string("direction"));
  if (a.real("clip") != 0) written.set("clip", a.real("clip"));
  if (cell == "GRU" && a.boolean("linear_before_reset")) written.set("linear_before_reset", std::int64_t{1});
  if (cell == "LSTM" && a.boolean("input_forget")) written.set("input_forget", std::int64_t{1});
  set_activations(node, written);
  OnnxNames inputs{node.in(0), node.in(1), node.in(2), optional_input(node, 3), lengths_of(node)};
  for (int i = 5; i < node.num_inputs(); ++i) inputs.push_back(optional_input(node, i));
  while (inputs.back().empty()) inputs.pop_back();
  const int results = cell == "LSTM" ? 3 : 2;  // the others are for gradients only
  const OnnxNames outputs = node.add_many(cell, std::move(inputs), results, written);
  for (int i = 0; i < results; ++i) node.set(i, outputs[static_cast<std::size_t>(i)]);
}

constexpr OnnxExportOp kRecurrentWriters[] = {
    {"GRU", write_recurrent},
    {"LSTM", write_recurrent},
    {"RNN", write_recurrent},
};

}  // namespace

std::span<const OnnxExportOp> onnx_recurrent_writers() { return kRecurrentWriters; }

}  // namespace troupe
