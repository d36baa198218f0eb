#include "troupe/graph/passes/quantize.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include <troupe/graph/name_pattern.hpp>
#include <troupe/graph/op_table.hpp>
#include <troupe/graph/passes/groups.hpp>
#include <troupe/graph/passes/quantized_values.hpp>
#include <troupe/graph/rewrite.hpp>
#include <troupe/graph/verify.hpp>

namespace troupe {
namespace {

enum class LayerPart : std::uint8_t { none, conv, matmul, bias, relu, add, pool };
constexpr auto kLayerParts = op_table<LayerPart>({
    {"Conv", LayerPart::conv},
    {"MatMul", LayerPart::matmul},
    {"BiasAdd", LayerPart::bias},
    {"Relu", LayerPart::relu},
    {"Add", LayerPart::add},
    {"MaxPool", LayerPart::pool},
});

struct Layer {
  const Node* product = nullptr;
  const Node* bias_add = nullptr;
  const Node* relu = nullptr;
  const Tensor* weights = nullptr;
  const Tensor* bias = nullptr;
  Endpoint end() const { return {relu ? relu->id : bias_add ? bias_add->id : product->id, 0}; }
  bool is_conv() const { return kLayerParts.of(*product) == LayerPart::conv; }
  // As ONNX has it: of convolutions and products of matrices, not of batches of them.
  bool has_integer_bias() const {
    return bias && (is_conv() || (product->output_shapes[0].has_rank() && product->output_shapes[0].rank() == 2));
  }
};

class Layers {
 public:
  Layers(const Graph& graph, const QuantizeGraphOptions& options, bool convolutions) : graph_(graph), uses_(graph) {
    std::set<std::string> unused(options.keep.begin(), options.keep.end());
    for (const int id : graph.topological_order()) {
      const auto layer = layer_of(graph.node(id));
      if (!layer) continue;
      bool kept = false;
      for (const std::string& pattern : options.keep)
        if (matches(pattern, layer->product->name)) {
          unused.erase(pattern);
          kept = true;
        }
      if (!kept && (convolutions || !layer->is_conv())) layers_.push_back(*layer);
    }
    if (!unused.empty()) fail(Code::not_found, "no layer is named '{}', which is to stay f32", *unused.begin());
  }

  const std::vector<Layer>& all() const { return layers_; }

  // Tensors that are quantised, in the order of the graph.
  std::set<Endpoint> tensors() const {
    std::set<Endpoint> out;
    for (const Layer& layer : layers_) out.insert(layer.product->inputs[0]);
    // A sum of images that is quantised takes bytes, if it can be made where the sums of a convolution are. Later sums
    // first: what they add may itself be such a sum.
    const std::vector<int> order = graph_.topological_order();
    for (auto id = order.rbegin(); id != order.rend(); ++id) {
      const Node& node = graph_.node(*id);
      if (kLayerParts.of(node) == LayerPart::add && adds_residual(node, out))
        for (const Endpoint e : node.inputs) out.insert(e);
      if (kLayerParts.of(node) == LayerPart::pool && out.contains({node.id, 0}) && is_layer_end(node.inputs[0]))
        out.insert(node.inputs[0]);
    }
    return out;
  }
  // A pool's bytes have the steps of its input's.
  Endpoint range_of(Endpoint e, const std::set<Endpoint>& tensors) const {
    const Node& node = graph_.node(e.node);
    return kLayerParts.of(node) == LayerPart::pool && tensors.contains(node.inputs[0]) ? node.inputs[0] : e;
  }
  // Readers of a quantised tensor that read its bytes.
  bool reads_bytes(const Node& reader, Endpoint e, const std::set<Endpoint>& tensors) const {
    if (std::ranges::any_of(layers_, [&](const Layer& l) { return l.product == &reader && l.product->inputs[0] == e; }))
      return true;
    const LayerPart part = kLayerParts.of(reader);
    if (part == LayerPart::pool) return tensors.contains({reader.id, 0});
    return part == LayerPart::add && tensors.contains(reader.inputs[0]) && tensors.contains(reader.inputs[1]) &&
           adds_residual(reader, tensors);
  }

 private:
  std::optional<Layer> layer_of(const Node& node) const {
    const LayerPart part = kLayerParts.of(node);
    if (part != LayerPart::conv && part != LayerPart::matmul) return std::nullopt;
    if (node.kernel_type() != DType::f32 || !node.controls.empty()) return std::nullopt;
    const Tensor* weights = constant_value(graph_, node.inputs[1]);
    if (!weights || weights->num_elements() == 0 || graph_.node(node.inputs[0].node).op->role == OpRole::constant)
      return std::nullopt;
    if (part == LayerPart::matmul && (weights->shape().rank() != 2 || node.attributes.boolean("transpose_a") ||
                                      node.attributes.boolean("transpose_b")))
      return std::nullopt;
    if (part == LayerPart::conv && node.attributes.string("data_format") != "channels_last") return std::nullopt;
    Layer out{.product = &node, .weights = weights};
    const Node* last = &node;
    const auto next = [&](LayerPart wanted) -> const Node* {
      const int id = uses_.only_consumer(last->id);
      if (id < 0 || kLayerParts.of(graph_.node(id)) != wanted || graph_.node(id).inputs[0].node != last->id)
        return nullptr;
      return &graph_.node(id);
    };
    if (const Node* bias = next(LayerPart::bias))
      if (const Tensor* value = constant_value(graph_, bias->inputs[1])) {
        out.bias_add = last = bias;
        out.bias = value;
      }
    out.relu = next(LayerPart::relu);
    return out;
  }

  bool is_layer_end(Endpoint e) const {
    return std::ranges::any_of(layers_, [&](const Layer& l) { return l.end() == e; });
  }

  bool adds_residual(const Node& add, const std::set<Endpoint>& tensors) const {
    if (add.kernel_type() != DType::f32) return false;
    const Shape &a = graph_.shape(add.inputs[0]), &b = graph_.shape(add.inputs[1]);
    if (!a.has_rank() || a.rank() < 3 || a.to_string() != b.to_string()) return false;
    Endpoint sum{add.id, 0};
    if (const int next = uses_.only_consumer(add.id); next >= 0 && kLayerParts.of(graph_.node(next)) == LayerPart::relu)
      sum = {next, 0};
    if (!tensors.contains(sum)) return false;
    return std::ranges::any_of(layers_, [&](const Layer& l) {
      return l.is_conv() && !l.relu && (l.end() == add.inputs[0] || l.end() == add.inputs[1]) &&
             uses_.only_for(l.end().node, add.id);
    });
  }

  const Graph& graph_;
  NodeUses uses_;
  std::vector<Layer> layers_;
};

std::vector<QuantizedLayer> described(const Graph& graph, const Layers& layers, const QuantizeGraphOptions& options,
                                      bool integer_biases) {
  std::vector<QuantizedLayer> out;
  for (const Layer& l : layers.all()) {
    const std::int64_t weights = l.weights->num_elements(), bias = l.bias ? 4 * l.bias->num_elements() : 0;
    const std::int64_t scales = 4 * (options.per_channel ? l.weights->shape()[-1] : 1);
    // An i32 bias has scales of its own.
    out.push_back({l.product->name, l.product->op->name, output_name(graph, l.end()), 4 * weights + bias,
                   weights + bias + scales + (integer_biases && l.has_integer_bias() ? scales : 0)});
  }
  return out;
}

struct Steps {
  float scale = 1;
  std::uint8_t zero = 0;
};
Steps fitting_steps(ValueRange range) {
  const float low = std::min(range.low, 0.0f), high = std::max(range.high, 0.0f);
  const float scale = (high - low) / 255;
  if (!(scale > 0) || !std::isfinite(scale)) return {};
  return {scale, static_cast<std::uint8_t>(std::nearbyint(std::clamp(-low / scale, 0.0f, 255.0f)))};
}

class StaticRewrite {
 public:
  StaticRewrite(const Graph& graph, const ValueRanges& ranges, const QuantizeGraphOptions& options)
      : graph_(graph),
        ranges_(ranges),
        options_(options),
        layers_(graph, options, true),
        tensors_(layers_.tensors()),
        rewriter_(graph) {
    for (const Layer& l : layers_.all()) {
      products_[l.product->id] = &l;
      if (l.has_integer_bias()) biases_[l.bias_add->id] = &l;
    }
  }

  std::unique_ptr<Graph> run() {
    for (const int id : graph_.topological_order()) {
      const Node& node = graph_.node(id);
      std::vector<Endpoint> inputs;
      for (const Endpoint e : node.inputs)
        inputs.push_back(tensors_.contains(e) && layers_.reads_bytes(node, e, tensors_) ? as_bytes(e)
                                                                                        : rewriter_.mapped(e));
      if (const auto found = products_.find(id); found != products_.end()) inputs[1] = weights_of(*found->second);
      if (const auto found = biases_.find(id); found != biases_.end()) inputs[1] = bias_of(*found->second);
      rewriter_.copy(node, inputs, rewriter_.mapped_controls(node));
    }
    return verified("quantize_static", rewriter_.finish());
  }

 private:
  Steps steps_of_tensor(Endpoint e) const {
    const std::string name = output_name(graph_, layers_.range_of(e, tensors_));
    const auto found = ranges_.find(name);
    if (found == ranges_.end()) fail(Code::not_found, "there is no range of '{}', which is quantised", name);
    return fitting_steps(found->second);
  }
  Output add_op(std::string op, const Node& like, const std::string& suffix, std::vector<Output> inputs,
                Attributes attributes) {
    return rewriter_.to().output(rewriter_.to().add({.op = std::move(op),
                                                     .name = rewriter_.new_name(like.name + suffix),
                                                     .inputs = std::move(inputs),
                                                     .attributes = std::move(attributes),
                                                     .device = like.device,
                                                     .colocate_with = {}}));
  }
  Output add_constant(const Node& like, const std::string& suffix, const Tensor& value) {
    return add_op("Const", like, suffix, {}, {{"T", value.dtype()}, {"value", value}});
  }
  static Endpoint at(const Output& output) { return {output.node, output.index}; }

  Endpoint as_bytes(Endpoint e) {
    if (const auto made = bytes_.find(e); made != bytes_.end()) return made->second;
    const Node& node = graph_.node(e.node);
    const Steps steps = steps_of_tensor(e);
    const Output scale = add_constant(node, "/step", Tensor::scalar(steps.scale)),
                 zero = add_constant(node, "/zero", Tensor::scalar(steps.zero));
    const Output q = add_op("QuantizeLinear", node, "/quantized", {rewriter_.output(e), scale, zero}, {});
    return bytes_[e] = at(add_op("DequantizeLinear", node, "/dequantized", {q, scale, zero}, {}));
  }
  // i8, by channels.
  Endpoint weights_of(const Layer& layer) {
    const ByteWeights made = quantized_weights(*layer.weights, options_.per_channel);
    scales_[layer.product->id] = made.scale;
    const Node& node = *layer.product;
    const Output scale = add_constant(node, "/weights_scale", made.scale),
                 zero = add_constant(node, "/weights_zero", Tensor::zeros(DType::i8, made.scale.shape())),
                 bytes = add_constant(node, "/weights_bytes", made.values);
    return at(add_op("DequantizeLinear", node, "/weights", {bytes, scale, zero},
                     {{"axis", std::int64_t{layer.weights->shape().rank() - 1}}}));
  }
  // i32, in steps of the sums.
  Endpoint bias_of(const Layer& layer) {
    const Node& node = *layer.bias_add;
    const double x = static_cast<double>(steps_of_tensor(layer.product->inputs[0]).scale);
    const Tensor& weights = scales_.at(layer.product->id);
    const std::int64_t count = layer.bias->num_elements();
    Tensor scale(DType::f32, weights.shape()), bias(DType::i32, layer.bias->shape());
    for (std::int64_t i = 0; i < scale.num_elements(); ++i)
      scale.mutable_data<float>()[i] = static_cast<float>(x * static_cast<double>(weights.data<float>()[i]));
    for (std::int64_t i = 0; i < count; ++i) {
      const double step = static_cast<double>(scale.data<float>()[scale.num_elements() == 1 ? 0 : i]);
      const double exact = std::nearbyint(static_cast<double>(layer.bias->data<float>()[i]) / step);
      bias.mutable_data<std::int32_t>()[i] =
          static_cast<std::int32_t>(exact == exact ? std::clamp(exact, -2147483647.0, 2147483647.0) : 0);
    }
    const Output q = add_constant(node, "/bias_integers", bias), s = add_constant(node, "/bias_scale", scale),
                 zero = add_constant(node, "/bias_zero", Tensor::zeros(DType::i32, scale.shape()));
    return at(add_op("DequantizeLinear", node, "/bias", {q, s, zero}, {{"axis", std::int64_t{0}}}));
  }

  const Graph& graph_;
  const ValueRanges& ranges_;
  const QuantizeGraphOptions& options_;
  Layers layers_;
  std::set<Endpoint> tensors_;
  Rewriter rewriter_;
  std::map<int, const Layer*> products_, biases_;  // by node
  std::map<int, Tensor> scales_;                   // of weights, by product
  std::map<Endpoint, Endpoint> bytes_;             // dequantised, in the new graph
};

}  // namespace

std::vector<std::string> tensors_to_calibrate(const Graph& graph, const QuantizeGraphOptions& options) {
  const Layers layers(graph, options, true);
  const std::set<Endpoint> tensors = layers.tensors();
  std::set<std::string> names;
  for (const Endpoint e : tensors) names.insert(output_name(graph, layers.range_of(e, tensors)));
  return {names.begin(), names.end()};
}

std::unique_ptr<Graph> quantize_static(const Graph& graph, const ValueRanges& ranges,
                                       const QuantizeGraphOptions& options) {
  return StaticRewrite(graph, ranges, options).run();
}

std::unique_ptr<Graph> quantize_dynamic(const Graph& graph, const QuantizeGraphOptions& options) {
  const Layers layers(graph, options, false);
  Rewriter rewriter(graph);
  std::map<int, const Layer*> by_end;
  std::set<int> members;
  for (const Layer& l : layers.all()) {
    by_end[l.end().node] = &l;
    for (const Node* node : {l.product, l.bias_add, l.relu})
      if (node) members.insert(node->id);
  }
  for (const int id : graph.topological_order()) {
    const Node& node = graph.node(id);
    const auto found = by_end.find(id);
    if (found == by_end.end()) {
      if (!members.contains(id)) rewriter.copy(node);
      continue;
    }
    const Layer& l = *found->second;
    const ByteWeights weights = quantized_weights(*l.weights, options.per_channel);
    const auto constant = [&](const char* suffix, const Tensor& value) {
      return rewriter.to().output(rewriter.to().add({.op = "Const",
                                                     .name = rewriter.new_name(l.product->name + suffix),
                                                     .attributes = {{"T", value.dtype()}, {"value", value}},
                                                     .device = node.device}));
    };
    const Tensor bias = l.bias ? *l.bias : Tensor::zeros(DType::f32, Shape{l.weights->shape()[-1]});
    const Node& made =
        rewriter.to().add({.op = "DynamicQuantizedMatMul",
                           .name = node.name,
                           .inputs = {rewriter.output(l.product->inputs[0]), constant("/bytes", weights.values),
                                      constant("/bias", bias), constant("/scale", weights.scale)},
                           .attributes = {{"activation", std::string(l.relu ? "relu" : "none")}},
                           .device = node.device,
                           .colocate_with = node.colocate_with});
    rewriter.replace({id, 0}, {made.id, 0});
    rewriter.replace_node(node, made);
  }
  return verified("quantize_dynamic", rewriter.finish());
}

std::vector<QuantizedLayer> static_layers(const Graph& graph, const QuantizeGraphOptions& options) {
  return described(graph, Layers(graph, options, true), options, true);
}
std::vector<QuantizedLayer> dynamic_layers(const Graph& graph, const QuantizeGraphOptions& options) {
  return described(graph, Layers(graph, options, false), options, false);
}

}  // namespace troupe
