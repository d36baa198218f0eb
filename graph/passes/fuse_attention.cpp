#include "troupe/graph/passes/fuse_attention.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <troupe/graph/op_table.hpp>
#include <troupe/graph/rewrite.hpp>
#include <troupe/graph/verify.hpp>

namespace troupe {
namespace {

enum class AttentionPart : std::uint8_t { none, product, softmax, sum, scale, inverse_scale, transpose };
struct AttentionPiece {
  AttentionPart part = AttentionPart::none;
  std::string_view becomes;
};
constexpr auto kAttentionPieces = op_table<AttentionPiece>({
    {"MatMul", {AttentionPart::product, "Attention"}},
    {"Softmax", {AttentionPart::softmax, ""}},
    {"Add", {AttentionPart::sum, ""}},
    {"Mul", {AttentionPart::scale, ""}},
    {"Div", {AttentionPart::inverse_scale, ""}},
    {"Transpose", {AttentionPart::transpose, ""}},
});

// An attention and the tensors it is made of.
struct FoundAttention {
  Endpoint q, k, v;
  std::optional<Endpoint> mask;
  std::optional<std::vector<std::int64_t>> k_order;  // of a Transpose that makes k of `k`
  double scale = 1;
};

class AttentionFinder {
 public:
  AttentionFinder(const Graph& graph, const NodeUses& uses) : graph_(graph), uses_(uses) {}

  std::optional<FoundAttention> at(const Node& last) const {
    if (!is_product(last, false)) return std::nullopt;
    const Node& softmax = graph_.node(last.inputs[0].node);
    if (!is_inner(softmax, AttentionPart::softmax, last)) return std::nullopt;
    const int rank = graph_.shape(last.inputs[1]).rank();
    if (const auto axis = softmax.attributes.integer("axis"); axis != -1 && axis != rank - 1) return std::nullopt;
    FoundAttention out{.v = last.inputs[1]};
    const Node* scores = &graph_.node(softmax.inputs[0].node);
    const Node* reader = &softmax;
    if (is_inner(*scores, AttentionPart::sum, *reader)) {
      const std::size_t side = makes_scores(scores->inputs[0], *scores) ? 0 : 1;
      out.mask = scores->inputs[1 - side];
      reader = scores;
      scores = &graph_.node(scores->inputs[side].node);
    }
    if (const auto scaled = scaling(*scores); scaled && is_inner(*scores, part_of(*scores), *reader)) {
      out.scale *= scaled->second;
      reader = scores;
      scores = &graph_.node(scaled->first.node);
    }
    if (!is_product(*scores, true) || !uses_.only_for(scores->id, reader->id) || !same_place(*scores, last))
      return std::nullopt;
    out.q = unscaled(scores->inputs[0], out.scale);
    out.k = unscaled(scores->inputs[1], out.scale);
    if (!scores->attributes.boolean("transpose_b") && !untranspose(out)) return std::nullopt;
    return fits(out, graph_.shape({scores->id, 0})) ? std::optional(out) : std::nullopt;
  }

 private:
  static AttentionPart part_of(const Node& node) { return kAttentionPieces.of(node).part; }

  bool is_product(const Node& node, bool may_transpose_b) const {
    return part_of(node) == AttentionPart::product && node.kernel_type() == DType::f32 && node.controls.empty() &&
           !node.attributes.boolean("transpose_a") && (may_transpose_b || !node.attributes.boolean("transpose_b"));
  }
  // A node that only `reader` needs.
  bool is_inner(const Node& node, AttentionPart part, const Node& reader) const {
    return part_of(node) == part && node.controls.empty() && uses_.only_for(node.id, reader.id) &&
           same_place(node, reader);
  }
  // Whether it is a product, scaled or not, that only `reader` needs.
  bool makes_scores(Endpoint e, const Node& reader) const {
    const Node& node = graph_.node(e.node);
    if (is_inner(node, AttentionPart::product, reader)) return true;
    const auto scaled = scaling(node);
    return scaled && is_inner(node, part_of(node), reader) &&
           is_inner(graph_.node(scaled->first.node), AttentionPart::product, node);
  }

  // A constant number, of f32 like the products.
  std::optional<double> scalar(Endpoint e) const {
    const Node& node = graph_.node(e.node);
    if (node.op->role != OpRole::constant || !node.controls.empty()) return std::nullopt;
    const Tensor& value = node.attributes.get<Tensor>("value");
    if (value.num_elements() != 1 || !value.space().on_host()) return std::nullopt;
    return static_cast<double>(value.data<float>()[0]);
  }
  // What a product with a constant number multiplies, and by which.
  std::optional<std::pair<Endpoint, double>> scaling(const Node& node) const {
    const AttentionPart part = part_of(node);
    if ((part != AttentionPart::scale && part != AttentionPart::inverse_scale) || !node.controls.empty())
      return std::nullopt;
    for (const std::size_t side : {1, 0}) {
      const auto number = scalar(node.inputs[side]);
      // A number of more dimensions than the other would add some; -1 is a rank that is not known.
      if (!number || graph_.shape(node.inputs[side]).rank() > graph_.shape(node.inputs[1 - side]).rank()) continue;
      if (part == AttentionPart::scale) return std::pair(node.inputs[1 - side], *number);
      if (side == 1 && *number != 0) return std::pair(node.inputs[0], 1 / *number);
    }
    return std::nullopt;
  }
  Endpoint unscaled(Endpoint e, double& scale) const {
    const auto scaled = scaling(graph_.node(e.node));
    if (!scaled) return e;
    scale *= scaled->second;
    return scaled->first;
  }

  // k' is transposed: finds k, or how it is made of what was transposed.
  bool untranspose(FoundAttention& found) const {
    const Node& node = graph_.node(found.k.node);
    if (part_of(node) != AttentionPart::transpose || !node.controls.empty()) return false;
    auto order = node.attributes.get<std::vector<std::int64_t>>("perm");
    const std::size_t rank = order.size();
    if (rank < 3) return false;
    std::swap(order[rank - 1], order[rank - 2]);
    found.k = unscaled(node.inputs[0], found.scale);
    if (!std::ranges::is_sorted(order)) found.k_order = std::move(order);
    return true;
  }

  // Whether Attention means the same for these shapes.
  bool fits(const FoundAttention& found, const Shape& scores) const {
    const Shape &q = graph_.shape(found.q), &v = graph_.shape(found.v), &given = graph_.shape(found.k);
    Shape k = given;
    if (found.k_order)
      for (int i = 0; i < k.rank(); ++i)
        k.set_dim(i, given[static_cast<int>((*found.k_order)[static_cast<std::size_t>(i)])]);
    if (q.rank() < 3 || k.rank() != q.rank() || v.rank() != q.rank()) return false;  // -1: not known
    // Products would broadcast heads and batches.
    for (int i = 0; i < q.rank() - 2; ++i)
      if (q[i] != k[i] || q[i] != v[i]) return false;
    if (q[-3] == kUnknown) return false;
    if (!found.mask) return true;
    const Shape& mask = graph_.shape(*found.mask);
    if (!mask.has_rank() || mask.rank() > scores.rank()) return false;
    for (int i = 1; i <= mask.rank(); ++i)
      if (mask[-i] != 1 && mask[-i] != scores[-i]) return false;
    return true;  // Shape{0}, which means no mask, is one for no keys
  }

  const Graph& graph_;
  const NodeUses& uses_;
};

void fuse(Rewriter& rewriter, const Node& last, const std::string& op, const FoundAttention& found) {
  Output k = rewriter.output(found.k);
  if (found.k_order)
    k = rewriter.add_like(
        last, {.op = "Transpose", .inputs = {k}, .attributes = {{"T", DType::f32}, {"perm", *found.k_order}}});
  const Tensor none(DType::f32, Shape{0});
  const Output mask =
      found.mask ? rewriter.output(*found.mask)
                 : rewriter.add_like(last, {.op = "Const", .attributes = {{"T", DType::f32}, {"value", none}}});
  const Output y = rewriter.add_like(
      last, {.op = op,
             .inputs = {rewriter.output(found.q), k, rewriter.output(found.v), mask},
             .attributes = {{"T", DType::f32}, {"M", DType::f32}, {"U", DType::f32}, {"scale", found.scale}}});
  rewriter.replace({last.id, 0}, {y.node, y.index});
  rewriter.replace_node(last, rewriter.to().node(y.node));
}

}  // namespace

std::unique_ptr<Graph> fuse_attention(const Graph& graph, const FuseOptions& options) {
  const NodeUses uses(graph);
  const AttentionFinder finder(graph, uses);
  Rewriter rewriter(graph);
  for (const int id : graph.topological_order()) {
    const Node& node = graph.node(id);
    const std::string op(kAttentionPieces.of(node).becomes);
    const auto found = options.supports(graph, op, DType::f32) ? finder.at(node) : std::nullopt;
    if (!found) {
      rewriter.copy(node);
      continue;
    }
    fuse(rewriter, node, op, *found);
    if (options.notes) options.notes->push_back(fmt::format("recognised attention that ends in '{}'", node.name));
  }
  return verified("fuse_attention", graph, rewriter.finish());
}

}  // namespace troupe
