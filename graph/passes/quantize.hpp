// Quantisation of frozen graphs to 8 bits (docs/guide/quantization.md): weights i8, activations u8.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <troupe/graph/graph.hpp>

namespace troupe {

struct QuantizeGraphOptions {
  // Layers that stay f32: patterns of names (graph/name_pattern.hpp) of Conv and MatMul nodes.
  std::vector<std::string> keep{};
  bool per_channel = true;  // scales of weights: one for each output channel, or one
};

// The least and greatest value of a tensor, by its name ("node" or "node:1").
struct ValueRange {
  float low = 0;
  float high = 0;
};
using ValueRanges = std::map<std::string, ValueRange>;

// The tensors whose ranges quantize_static() needs: inputs of layers, and what residuals add. Layers are Conv and
// MatMul nodes whose weights are f32 constants, of a matrix for MatMul.
std::vector<std::string> tensors_to_calibrate(const Graph& graph, const QuantizeGraphOptions& options = {});

// QDQ form of a frozen graph: QuantizeLinear and DequantizeLinear around inputs, weights and biases of layers, by the
// steps that fit the ranges and 0. Sessions for inference make products of bytes of it
// (graph/passes/quantized_products.hpp), others compute the same in f32; export_onnx() writes it. Biases of
// convolutions and of products of two matrices become i32. Batch normalisation should be folded before
// (graph/passes/fold_batch_norm.hpp). Throws not_found, naming the tensor, for one without a range, and for a pattern
// that fits no layer.
std::unique_ptr<Graph> quantize_static(const Graph& graph, const ValueRanges& ranges,
                                       const QuantizeGraphOptions& options = {});

// MatMul layers, with a bias and Relu behind them, become DynamicQuantizedMatMul: activations are quantised in each run
// by their least and greatest element.
std::unique_ptr<Graph> quantize_dynamic(const Graph& graph, const QuantizeGraphOptions& options = {});

// The layers that would be quantised, in the order in which they run.
struct QuantizedLayer {
  std::string name{};
  std::string op{};
  std::string result{};           // the tensor behind its bias and Relu, in the graph and in the quantised one
  std::int64_t bytes_before = 0;  // of weights and bias
  std::int64_t bytes_after = 0;   // with scales
};
std::vector<QuantizedLayer> static_layers(const Graph& graph, const QuantizeGraphOptions& options = {});
std::vector<QuantizedLayer> dynamic_layers(const Graph& graph, const QuantizeGraphOptions& options = {});

}  // namespace troupe
