// ONNX's signal processing.
#include <troupe/graph/builder/signal.hpp>
#include <troupe/graph/formats/onnx/onnx_node.hpp>

namespace troupe {
namespace {

// In opset 20 the axis is an input, -2 by default.
void dft_node(OnnxNode& node) {
  DftOptions options{.inverse = node.integer("inverse", 0) != 0, .onesided = node.integer("onesided", 0) != 0};
  if (node.opset() < 20)
    options.axis = node.integer("axis", 1);
  else
    options.axis = node.has(2) ? node.integers_in(2, "the axis").at(0) : -2;
  if (node.has(1)) options.length = node.in(1);
  node.set(dft(node.in(0), options));
}

void stft_node(OnnxNode& node) {
  StftOptions options{.onesided = node.integer("onesided", 1) != 0};
  if (node.has(2)) options.window = node.in(2);
  if (node.has(3)) options.frame_length = node.in(3);
  node.set(stft(node.in(0), node.in(1), options));
}

template <Output (*window)(Output, bool, DType, Name)>
void window_node(OnnxNode& node) {
  node.set(window(node.in(0), node.integer("periodic", 1) != 0, node.dtype("output_datatype", DType::f32), {}));
}

void mel_node(OnnxNode& node) {
  node.set(mel_weight_matrix(node.in(0), node.in(1), node.in(2), node.in(3), node.in(4),
                             node.dtype("output_datatype", DType::f32)));
}

constexpr OnnxOp kSignalOps[] = {
    {"BlackmanWindow", window_node<blackman_window>},
    {"DFT", dft_node},
    {"HammingWindow", window_node<hamming_window>},
    {"HannWindow", window_node<hann_window>},
    {"MelWeightMatrix", mel_node},
    {"STFT", stft_node},
};

}  // namespace

std::span<const OnnxOp> onnx_signal_ops() { return kSignalOps; }

}  // namespace troupe
