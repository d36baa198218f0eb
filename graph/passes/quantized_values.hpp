// Bytes that stand for real numbers in a graph, as passes find and make them: QuantizeLinear and DequantizeLinear with
// constant scales and zero points ("QDQ form").
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <troupe/graph/graph.hpp>

namespace troupe {

// Bytes (q - zero) scale of a whole tensor.
struct StepsOfTensor {
  double scale = 1;
  std::int64_t zero = 0;
  bool operator==(const StepsOfTensor&) const = default;
};

// The value of a Const node without control inputs; null for others.
const Tensor* constant_value(const Graph& graph, Endpoint e);

// What a DequantizeLinear reads or a QuantizeLinear makes: i8 or u8 with one scale (f32) for all, both constant.
struct SteppedBytes {
  Endpoint bytes{};
  DType dtype = DType::u8;
  StepsOfTensor steps{};
};
std::optional<SteppedBytes> dequantized(const Graph& graph, Endpoint e);      // e is y of a DequantizeLinear
std::optional<SteppedBytes> quantized(const Graph& graph, const Node& node);  // a QuantizeLinear

// Weights of a product, i8 without zero points, whose last dimension is the channels of the result.
struct ByteWeights {
  Tensor values{};
  Tensor scale{};  // f32, [] or [channels]
};
// `e` is a DequantizeLinear of constants, perhaps transposed. `order`: of the dimensions of `e`, as the reader takes
// them; empty: as they are. None if it is something else, or a zero point cannot be taken off in 8 bits.
std::optional<ByteWeights> byte_weights(const Graph& graph, Endpoint e, const std::vector<std::int64_t>& order);

// A vector of f32, constant or dequantised from constants; none for others.
std::optional<Tensor> real_vector(const Graph& graph, Endpoint e);

// f32 weights as i8 with scales greatest / 127, for each index of the last dimension or one for all: round to nearest
// even. Channels of zeros have scale 1.
ByteWeights quantized_weights(const Tensor& weights, bool per_channel);

}  // namespace troupe
