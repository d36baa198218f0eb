#include "troupe/graph/passes/quantized_products.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include <troupe/graph/op_table.hpp>
#include <troupe/graph/passes/quantized_values.hpp>
#include <troupe/graph/rewrite.hpp>
#include <troupe/graph/verify.hpp>

namespace troupe {
namespace {

enum class ProductPart : std::uint8_t { none, conv, matmul, bias, add, relu, pool };
struct ProductPiece {
  ProductPart part = ProductPart::none;
  std::string_view becomes;  // of bytes
};
constexpr auto kProductParts = op_table<ProductPiece>({
    {"Conv", {ProductPart::conv, "QuantizedConv"}},
    {"MatMul", {ProductPart::matmul, "QuantizedMatMul"}},
    {"BiasAdd", {ProductPart::bias, ""}},
    {"Add", {ProductPart::add, ""}},
    {"Relu", {ProductPart::relu, ""}},
    {"MaxPool", {ProductPart::pool, ""}},
});

ProductPart product_part(const Node& node) { return kProductParts.of(node).part; }

// A product and what follows it, up to the last node: that node becomes the product of bytes.
struct ByteProduct {
  const Node* product = nullptr;
  std::vector<int> members{};
  const Node* last = nullptr;
  SteppedBytes x{};
  ByteWeights weights{};
  std::optional<Tensor> bias{};
  std::optional<SteppedBytes> residual{};
  std::optional<SteppedBytes> y{};  // none: f32
  bool relu = false;
  bool channels_first = false;  // of the convolution: its images are transposed

  void take(const Node& node) {
    members.push_back(node.id);
    last = &node;
  }
};

using Integers = std::vector<std::int64_t>;
const Integers kFilterToLast{2, 3, 1, 0}, kImagesToLast{0, 2, 3, 1}, kImagesToFirst{0, 3, 1, 2};

bool has_channels_last(const Node& node) {
  return !node.attributes.has("data_format") || node.attributes.string("data_format") == "channels_last";
}

class Finder {
 public:
  explicit Finder(const Graph& graph) : graph_(graph), uses_(graph) {}

  std::optional<ByteProduct> product(const Node& node, const std::set<int>& taken) const {
    const ProductPart part = product_part(node);
    const bool conv = part == ProductPart::conv;
    if ((!conv && part != ProductPart::matmul) || !node.controls.empty()) return std::nullopt;
    if (!conv && node.attributes.boolean("transpose_a")) return std::nullopt;
    const bool first = conv && !has_channels_last(node);
    if (first && graph_.shape(node.inputs[1]).has_rank() && graph_.shape(node.inputs[1]).rank() != 4)
      return std::nullopt;
    const auto x = dequantized(graph_, node.inputs[0]);
    if (!x) return std::nullopt;
    if (!conv && graph_.shape(node.inputs[1]).has_rank() && graph_.shape(node.inputs[1]).rank() != 2)
      return std::nullopt;
    Integers order;
    if (first) order = kFilterToLast;
    if (!conv && node.attributes.boolean("transpose_b")) order = {1, 0};
    auto weights = byte_weights(graph_, node.inputs[1], order);
    if (!weights) return std::nullopt;
    ByteProduct out{.product = &node, .x = *x, .weights = std::move(*weights), .channels_first = first};
    out.take(node);
    take_bias(out);
    if (conv) take_residual(out, taken);
    take_relu(out);
    take_result(out);
    return out;
  }

  // MaxPool of dequantised bytes, quantised with the same steps.
  const Node* pool_of(const Node& quantize) const {
    const auto y = quantized(graph_, quantize);
    if (!y) return nullptr;
    const Node& pool = graph_.node(quantize.inputs[0].node);
    if (product_part(pool) != ProductPart::pool || !uses_.only_for(pool.id, quantize.id) || !pool.controls.empty())
      return nullptr;
    const auto x = dequantized(graph_, pool.inputs[0]);
    return x && x->steps == y->steps && x->dtype == y->dtype && same_place(pool, quantize) ? &pool : nullptr;
  }

 private:
  // The only reader of the last node, if it may join.
  const Node* next(const Node& last) const {
    const int id = uses_.only_consumer(last.id);
    if (id < 0) return nullptr;
    const Node& node = graph_.node(id);
    return node.controls.empty() && same_place(node, last) ? &node : nullptr;
  }
  static Endpoint other(const Node& add, const Node& than) { return add.inputs[add.inputs[0].node == than.id ? 1 : 0]; }

  void take_bias(ByteProduct& p) const {
    const Node* node = next(*p.last);
    if (!node) return;
    const ProductPart part = product_part(*node);
    const bool fits = part == ProductPart::bias ? has_channels_last(*node) != p.channels_first
                                                : part == ProductPart::add && !p.channels_first;
    if (!fits) return;
    if (part == ProductPart::bias && node->inputs[0].node != p.last->id) return;
    auto bias = real_vector(graph_, other(*node, *p.last));
    if (!bias || bias->num_elements() != p.weights.values.shape()[-1]) return;
    p.bias = std::move(bias);
    p.take(*node);
  }

  void take_residual(ByteProduct& p, const std::set<int>& taken) const {
    ByteProduct tried = p;
    const Node* node = next(*tried.last);
    if (node && quantized(graph_, *node)) {  // a rounding that is left out
      tried.take(*node);
      node = next(*node);
      if (!node || !dequantized(graph_, {node->id, 0})) return;
      tried.take(*node);
      node = next(*node);
    }
    if (!node || product_part(*node) != ProductPart::add || taken.contains(node->id)) return;
    const auto residual = dequantized(graph_, other(*node, *tried.last));
    const Shape& sum = node->output_shapes[0];
    if (!residual || !same_shape(graph_.shape(residual->bytes), sum) || !same_shape(p.last->output_shapes[0], sum))
      return;
    tried.residual = residual;
    tried.take(*node);
    ByteProduct rest = tried;
    take_relu(rest);
    take_result(rest);
    if (rest.y) p = std::move(tried);
  }
  // The same as far as it is known: sizes of 1 are not broadcast.
  static bool same_shape(const Shape& a, const Shape& b) {
    if (!a.has_rank() || !b.has_rank() || a.rank() != b.rank()) return false;
    for (int d = 0; d < a.rank(); ++d)
      if (a[d] != b[d]) return false;
    return true;
  }

  void take_relu(ByteProduct& p) const {
    const Node* node = next(*p.last);
    if (!node || product_part(*node) != ProductPart::relu) return;
    p.relu = true;
    p.take(*node);
  }

  void take_result(ByteProduct& p) const {
    const Node* node = next(*p.last);
    if (!node) return;
    p.y = quantized(graph_, *node);
    if (p.y) p.take(*node);
  }

  const Graph& graph_;
  NodeUses uses_;
};

Output add_constant(Rewriter& rewriter, const Node& like, const Tensor& value, const char* suffix) {
  return rewriter.to().output(rewriter.to().add({.op = "Const",
                                                 .name = rewriter.new_name(like.name + suffix),
                                                 .attributes = {{"T", value.dtype()}, {"value", value}},
                                                 .device = like.device}));
}

Output transposed(Rewriter& rewriter, const Node& like, const Output& images, const Integers& perm) {
  return rewriter.to().output(rewriter.to().add({.op = "Transpose",
                                                 .name = rewriter.new_name(like.name + "/transpose"),
                                                 .inputs = {images},
                                                 .attributes = {{"perm", perm}},
                                                 .device = like.device}));
}

void add_product(Rewriter& rewriter, const ByteProduct& p) {
  const Node &product = *p.product, &last = *p.last;
  const bool conv = product_part(product) == ProductPart::conv;
  const Tensor bias = p.bias ? *p.bias : Tensor::zeros(DType::f32, Shape{p.weights.values.shape()[-1]});
  const std::string x = conv ? "x" : "a";
  const auto images = [&](Endpoint e) {
    return p.channels_first ? transposed(rewriter, product, rewriter.output(e), kImagesToLast) : rewriter.output(e);
  };
  NodeSpec spec{.op = std::string(kProductParts.of(product).becomes),
                .name = p.channels_first ? rewriter.new_name(product.name + "/product") : last.name,
                .inputs = {images(p.x.bytes), add_constant(rewriter, product, p.weights.values, "/bytes"),
                           add_constant(rewriter, product, bias, "/bias"),
                           add_constant(rewriter, product, p.weights.scale, "/scale")},
                .attributes = {{x + "_scale", p.x.steps.scale},
                               {x + "_zero", p.x.steps.zero},
                               {"Y", p.y ? p.y->dtype : DType::f32},
                               {"activation", std::string(p.relu ? "relu" : "none")}},
                .device = last.device,
                .colocate_with = last.colocate_with};
  if (p.y) {
    spec.attributes.set("y_scale", p.y->steps.scale);
    spec.attributes.set("y_zero", p.y->steps.zero);
  }
  for (const auto& [key, value] : last.attributes.all())
    if (key.starts_with('_')) spec.attributes.set(key, value);
  if (conv)
    for (const char* name : {"strides", "dilations", "groups", "padding", "pads", "data_format"})
      if (product.attributes.has(name)) spec.attributes.set(name, product.attributes.all().find(name)->second);
  if (p.residual) {
    spec.inputs.push_back(images(p.residual->bytes));
    spec.attributes.set("residual_scale", p.residual->steps.scale);
    spec.attributes.set("residual_zero", p.residual->steps.zero);
  }
  if (p.channels_first) spec.attributes.set("data_format", std::string("channels_last"));
  const Node* made = &rewriter.to().add(std::move(spec));
  if (p.channels_first) {
    NodeSpec back{.op = "Transpose",
                  .name = last.name,
                  .inputs = {rewriter.to().output(*made)},
                  .attributes = {{"perm", kImagesToFirst}},
                  .device = last.device,
                  .colocate_with = last.colocate_with};
    made = &rewriter.to().add(std::move(back));
  }
  rewriter.replace({last.id, 0}, {made->id, 0});
  rewriter.replace_node(last, *made);
}

}  // namespace

std::unique_ptr<Graph> quantized_products(const Graph& graph, const FuseOptions& options) {
  for (const auto& [op, piece] : kProductParts.rows)
    if (!piece.becomes.empty() && !options.supports(graph, piece.becomes, DType::u8)) return graph.clone();
  const Finder finder(graph);
  std::map<int, ByteProduct> by_last;
  std::set<int> taken;
  const std::vector<int> order = graph.topological_order();
  // The later of two products takes the sum of both, so that the other is ready.
  for (auto id = order.rbegin(); id != order.rend(); ++id) {
    if (taken.contains(*id)) continue;
    auto found = finder.product(graph.node(*id), taken);
    if (!found) continue;
    if (std::ranges::any_of(found->members, [&](int member) { return taken.contains(member); })) continue;
    taken.insert(found->members.begin(), found->members.end());
    by_last.emplace(found->last->id, std::move(*found));
  }
  Rewriter rewriter(graph);
  int pools = 0;
  for (const int id : order) {
    const Node& node = graph.node(id);
    if (const auto found = by_last.find(id); found != by_last.end()) {
      add_product(rewriter, found->second);
      const ByteProduct& p = found->second;
      if (options.notes)
        options.notes->push_back(fmt::format("{} '{}' multiplies bytes{}{}{}", p.product->op->name, p.product->name,
                                             p.residual ? ", adds a residual" : "", p.relu ? ", relu" : "",
                                             p.y ? ", makes bytes" : ""));
    } else if (taken.contains(id)) {
      continue;
    } else if (const Node* pool = finder.pool_of(node)) {
      NodeSpec spec{.op = pool->op->name,
                    .name = node.name,
                    .inputs = {rewriter.output(graph.node(pool->inputs[0].node).inputs[0])},
                    .attributes = pool->attributes,
                    .device = node.device,
                    .colocate_with = node.colocate_with};
      spec.attributes.set("T", node.output_types[0]);
      const Node& made = rewriter.to().add(std::move(spec));
      rewriter.replace({id, 0}, {made.id, 0});
      rewriter.replace_node(node, made);
      ++pools;
    } else {
      rewriter.copy(node);
    }
  }
  if (pools > 0 && options.notes) options.notes->push_back(fmt::format("{} MaxPool of bytes", pools));
  return verified("quantized_products", graph, rewriter.finish());
}

}  // namespace troupe
