#include "troupe/graph/passes/quantized_values.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include <troupe/graph/op_table.hpp>

namespace troupe {
namespace {

enum class ValuePart : std::uint8_t { none, quantize, dequantize, transpose };
constexpr auto kValueParts = op_table<ValuePart>({
    {"QuantizeLinear", ValuePart::quantize},
    {"DequantizeLinear", ValuePart::dequantize},
    {"Transpose", ValuePart::transpose},
});

using Dims = std::vector<std::int64_t>;

std::int64_t integer_at(const Tensor& t, std::int64_t i) {
  if (t.dtype() == DType::i8) return t.data<std::int8_t>()[i];
  if (t.dtype() == DType::u8) return t.data<std::uint8_t>()[i];
  return t.data<std::int32_t>()[i];
}

bool is_bytes(DType dtype) { return dtype == DType::i8 || dtype == DType::u8; }

std::optional<StepsOfTensor> steps_of(const Graph& graph, Endpoint scale, Endpoint zero) {
  const Tensor *s = constant_value(graph, scale), *z = constant_value(graph, zero);
  if (!s || !z || s->dtype() != DType::f32 || !is_bytes(z->dtype()) || s->num_elements() != 1 || z->num_elements() != 1)
    return std::nullopt;
  const StepsOfTensor out{static_cast<double>(*s->data<float>()), integer_at(*z, 0)};
  return out.scale > 0 && std::isfinite(out.scale) ? std::optional(out) : std::nullopt;
}

// transpose(t, perm), of i8.
Tensor permuted(const Tensor& t, const Dims& perm) {
  const auto rank = perm.size();
  Dims dims(rank), strides(rank, 1), steps(rank), at(rank, 0);
  for (std::size_t d = rank - 1; d-- > 0;) strides[d] = strides[d + 1] * t.shape().dim(static_cast<int>(d) + 1);
  for (std::size_t d = 0; d < rank; ++d) {
    dims[d] = t.shape().dim(static_cast<int>(perm[d]));
    steps[d] = strides[static_cast<std::size_t>(perm[d])];
  }
  Tensor out(DType::i8, Shape(dims));
  std::int64_t from = 0;
  for (std::int8_t& value : out.mutable_values<std::int8_t>()) {
    value = t.data<std::int8_t>()[from];
    for (std::size_t d = rank; d-- > 0;) {
      from += steps[d];
      if (++at[d] < dims[d]) break;
      from -= steps[d] * dims[d];
      at[d] = 0;
    }
  }
  return out;
}

}  // namespace

const Tensor* constant_value(const Graph& graph, Endpoint e) {
  const Node& node = graph.node(e.node);
  return node.op->role == OpRole::constant && node.controls.empty() ? &node.attributes.tensor("value") : nullptr;
}

std::optional<SteppedBytes> dequantized(const Graph& graph, Endpoint e) {
  const Node& node = graph.node(e.node);
  if (kValueParts.of(node) != ValuePart::dequantize || !node.controls.empty()) return std::nullopt;
  const auto steps = steps_of(graph, node.inputs[1], node.inputs[2]);
  if (!steps) return std::nullopt;
  return SteppedBytes{node.inputs[0], graph.dtype(node.inputs[0]), *steps};
}

std::optional<SteppedBytes> quantized(const Graph& graph, const Node& node) {
  if (kValueParts.of(node) != ValuePart::quantize || !node.controls.empty()) return std::nullopt;
  const auto steps = steps_of(graph, node.inputs[1], node.inputs[2]);
  if (!steps || graph.dtype(node.inputs[0]) != DType::f32) return std::nullopt;
  return SteppedBytes{{node.id, 0}, node.output_types[0], *steps};
}

std::optional<ByteWeights> byte_weights(const Graph& graph, Endpoint e, const Dims& order) {
  const int rank = graph.shape(e).has_rank() ? graph.shape(e).rank() : 0;
  if (rank < 2) return std::nullopt;
  Dims perm(static_cast<std::size_t>(rank));
  std::iota(perm.begin(), perm.end(), 0);
  const Node* node = &graph.node(e.node);
  if (kValueParts.of(*node) == ValuePart::transpose && node->controls.empty()) {
    const Dims& given = node->attributes.integers("perm");
    if (given.empty())
      std::ranges::reverse(perm);
    else
      perm = given;
    for (std::int64_t& d : perm) d += d < 0 ? rank : 0;
    node = &graph.node(node->inputs[0].node);
  }
  if (!order.empty()) {
    if (order.size() != perm.size()) return std::nullopt;
    const Dims given = perm;
    for (std::size_t d = 0; d < perm.size(); ++d) perm[d] = given[static_cast<std::size_t>(order[d])];
  }
  if (kValueParts.of(*node) != ValuePart::dequantize || !node->controls.empty()) return std::nullopt;
  const Tensor *bytes = constant_value(graph, node->inputs[0]), *scale = constant_value(graph, node->inputs[1]),
               *zero = constant_value(graph, node->inputs[2]);
  if (!bytes || !scale || !zero || scale->dtype() != DType::f32 || !is_bytes(bytes->dtype())) return std::nullopt;
  std::int64_t axis = node->attributes.integer("axis");
  axis += axis < 0 ? rank : 0;
  const std::int64_t channels = scale->num_elements();
  if (channels != 1 && axis != perm.back()) return std::nullopt;
  if (channels == 0 ||
      std::ranges::any_of(scale->values<float>(), [](float s) { return !(s > 0) || !std::isfinite(s); }))
    return std::nullopt;
  std::int64_t inside = 1;
  for (int d = static_cast<int>(axis) + 1; d < rank; ++d) inside *= bytes->shape().dim(d);
  Tensor values(DType::i8, bytes->shape());
  for (std::int64_t i = 0; i < bytes->num_elements(); ++i) {
    const std::int64_t q =
        integer_at(*bytes, i) - integer_at(*zero, zero->num_elements() == 1 ? 0 : i / inside % zero->num_elements());
    if (q < -128 || q > 127) return std::nullopt;
    values.mutable_data<std::int8_t>()[i] = static_cast<std::int8_t>(q);
  }
  return ByteWeights{permuted(values, perm), channels == 1 ? Tensor::scalar(*scale->data<float>()) : *scale};
}

std::optional<Tensor> real_vector(const Graph& graph, Endpoint e) {
  if (const Tensor* value = constant_value(graph, e)) {
    if (value->dtype() != DType::f32 || value->shape().rank() != 1) return std::nullopt;
    return *value;
  }
  const Node& node = graph.node(e.node);
  if (kValueParts.of(node) != ValuePart::dequantize || !node.controls.empty()) return std::nullopt;
  const Tensor *q = constant_value(graph, node.inputs[0]), *scale = constant_value(graph, node.inputs[1]),
               *zero = constant_value(graph, node.inputs[2]);
  if (!q || !scale || !zero || scale->dtype() != DType::f32 || q->shape().rank() != 1 ||
      (!is_bytes(q->dtype()) && q->dtype() != DType::i32))
    return std::nullopt;
  Tensor out(DType::f32, q->shape());
  for (std::int64_t i = 0; i < q->num_elements(); ++i) {
    const std::int64_t at = scale->num_elements() == 1 ? 0 : i;
    out.mutable_data<float>()[i] =
        static_cast<float>(integer_at(*q, i) - integer_at(*zero, at)) * scale->data<float>()[at];
  }
  return out;
}

ByteWeights quantized_weights(const Tensor& weights, bool per_channel) {
  const std::int64_t channels = per_channel ? weights.shape()[-1] : 1;
  const float* const from = weights.data<float>();
  std::vector<float> greatest(static_cast<std::size_t>(channels), 0.0f);
  const auto at = [&](std::int64_t i) { return static_cast<std::size_t>(i % channels); };
  for (std::int64_t i = 0; i < weights.num_elements(); ++i)
    greatest[at(i)] = std::max(greatest[at(i)], std::abs(from[i]));
  for (float& g : greatest) g = g > 0 && std::isfinite(g) ? std::max(g / 127, 1e-30f) : 1;
  Tensor values(DType::i8, weights.shape());
  for (std::int64_t i = 0; i < weights.num_elements(); ++i) {
    const float q = std::nearbyint(from[i] / greatest[at(i)]);
    values.mutable_data<std::int8_t>()[i] = static_cast<std::int8_t>(q == q ? std::clamp(q, -127.0f, 127.0f) : 0);
  }
  return {values, per_channel ? Tensor::of<float>(Shape{channels}, std::span<const float>(greatest))
                              : Tensor::scalar(greatest[0])};
}

}  // namespace troupe
