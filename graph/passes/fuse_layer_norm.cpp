#include "troupe/graph/passes/fuse_layer_norm.hpp"

#include <algorithm>
#include <initializer_list>
#include <optional>

#include <troupe/graph/op_table.hpp>
#include <troupe/graph/passes/prune.hpp>
#include <troupe/graph/rewrite.hpp>
#include <troupe/graph/verify.hpp>

namespace troupe {
namespace {

enum class LayerNormPart : std::uint8_t {
  none,
  sum,
  difference,
  product,
  quotient,
  mean,
  root,
  inverse_root,
  power,
  square,
  squared_difference,
};
struct LayerNormPiece {
  LayerNormPart part = LayerNormPart::none;
  std::string_view becomes;
};
constexpr auto kLayerNormPieces = op_table<LayerNormPiece>({
    {"Add", {LayerNormPart::sum, "LayerNorm"}},
    {"Sub", {LayerNormPart::difference, ""}},
    {"Mul", {LayerNormPart::product, ""}},
    {"Div", {LayerNormPart::quotient, ""}},
    {"Mean", {LayerNormPart::mean, ""}},
    {"Sqrt", {LayerNormPart::root, ""}},
    {"Rsqrt", {LayerNormPart::inverse_root, ""}},
    {"Pow", {LayerNormPart::power, ""}},
    {"Square", {LayerNormPart::square, ""}},
    {"SquaredDifference", {LayerNormPart::squared_difference, ""}},
});
LayerNormPart part_of_norm(const Node& node) { return kLayerNormPieces.of(node).part; }

struct FoundNorm {
  Endpoint x, scale, offset;
  double epsilon = 0;
};

class NormFinder {
 public:
  NormFinder(const Graph& graph, const NodeUses& uses) : graph_(graph), uses_(uses) {}

  // The normalisation that ends in `last`, which adds the offset.
  std::optional<FoundNorm> at(const Node& last) const {
    if (part_of_norm(last) != LayerNormPart::sum || last.output_types[0] != DType::f32) return std::nullopt;
    for (const std::size_t side : {0, 1}) {
      const Node& scaled = source(last.inputs[side]);
      if (!is_inner(scaled, LayerNormPart::product, last)) continue;
      for (const std::size_t scaled_side : {0, 1}) {
        const Node& normal = source(scaled.inputs[scaled_side]);
        if (!uses_.only_for(normal.id, scaled.id) || !is_plain(normal, last)) continue;
        auto found = normalised(normal);
        if (!found) continue;
        found->scale = scaled.inputs[1 - scaled_side];
        found->offset = last.inputs[1 - side];
        if (is_row(found->scale, found->x) && is_row(found->offset, found->x)) return found;
      }
    }
    return std::nullopt;
  }

 private:
  const Node& source(Endpoint e) const { return graph_.node(e.node); }

  bool is_plain(const Node& node, const Node& reader) const {
    return node.controls.empty() && same_place(node, reader) && !node.attributes.has(kTargetAttribute);
  }
  // A node that only `reader` needs.
  bool is_inner(const Node& node, LayerNormPart part, const Node& reader) const {
    return part_of_norm(node) == part && is_plain(node, reader) && uses_.only_for(node.id, reader.id);
  }
  bool only_inside(const Node& node, std::initializer_list<int> readers) const {
    return !uses_.has_control_successors(node.id) && std::ranges::all_of(uses_.data(node.id), [&](int user) {
      return std::ranges::find(readers, user) != readers.end();
    });
  }

  const Tensor* constant(Endpoint e) const {
    const Node& node = source(e);
    if (node.op->role != OpRole::constant) return nullptr;
    const Tensor& value = node.attributes.tensor("value");
    return value.num_elements() == 1 && value.space().on_host() ? &value : nullptr;
  }
  std::optional<double> number(Endpoint e) const {
    const Tensor* value = constant(e);
    if (!value || value->dtype() != DType::f32) return std::nullopt;
    return static_cast<double>(value->data<float>()[0]);
  }
  bool is_row(Endpoint e, Endpoint x) const {
    return graph_.dtype(e) == DType::f32 && graph_.shape(e) == Shape{graph_.shape(x)[-1]};
  }

  // Of a Mean over the last dimension, which it keeps: what it is the mean of.
  std::optional<Endpoint> averaged(const Node& node) const {
    if (part_of_norm(node) != LayerNormPart::mean || !node.attributes.boolean("keep_dims")) return std::nullopt;
    const Tensor* axis = constant(node.inputs[1]);
    const Shape& x = graph_.shape(node.inputs[0]);
    if (!axis || axis->dtype() != DType::i64 || !x.has_rank() || x.rank() == 0 || x[-1] == kUnknown || x[-1] == 0)
      return std::nullopt;
    const std::int64_t at = axis->data<std::int64_t>()[0];
    return at == -1 || at == x.rank() - 1 ? std::optional(node.inputs[0]) : std::nullopt;
  }

  // (x - m) / sqrt(...) or (x - m) rsqrt(...).
  std::optional<FoundNorm> normalised(const Node& normal) const {
    const bool divides = part_of_norm(normal) == LayerNormPart::quotient;
    if (!divides && part_of_norm(normal) != LayerNormPart::product) return std::nullopt;
    for (const std::size_t side : {0, 1}) {
      if (divides && side == 1) continue;
      const Node &distance = source(normal.inputs[side]), &root = source(normal.inputs[1 - side]);
      if (part_of_norm(distance) != LayerNormPart::difference || !is_plain(distance, normal) ||
          !is_inner(root, divides ? LayerNormPart::root : LayerNormPart::inverse_root, normal))
        continue;
      const Node& sum = source(root.inputs[0]);
      if (!is_inner(sum, LayerNormPart::sum, root)) continue;
      for (const std::size_t sum_side : {0, 1}) {
        const std::optional<double> epsilon = number(sum.inputs[1 - sum_side]);
        const Node& variance = source(sum.inputs[sum_side]);
        if (!epsilon || *epsilon < 0 || !is_inner(variance, LayerNormPart::mean, sum)) continue;
        if (const auto x = varied(normal, distance, variance)) return FoundNorm{.x = *x, .epsilon = *epsilon};
      }
    }
    return std::nullopt;
  }

  // x, if `variance` is the mean of the squares of `distance`, which is x - Mean(x).
  std::optional<Endpoint> varied(const Node& normal, const Node& distance, const Node& variance) const {
    const Endpoint x = distance.inputs[0];
    const Node& mean = source(distance.inputs[1]);
    const auto squares = averaged(variance);
    if (!squares || averaged(mean) != x || !is_plain(mean, distance)) return std::nullopt;
    const Node& square = source(*squares);
    if (!is_plain(square, variance) || !uses_.only_for(square.id, variance.id)) return std::nullopt;
    const bool fits = squares_of(square, {distance.id, 0}, x, {mean.id, 0});
    return fits && only_inside(distance, {square.id, normal.id}) && only_inside(mean, {distance.id, square.id})
               ? std::optional(x)
               : std::nullopt;
  }

  bool squares_of(const Node& square, Endpoint distance, Endpoint x, Endpoint mean) const {
    switch (part_of_norm(square)) {
      case LayerNormPart::square:
        return square.inputs[0] == distance;
      case LayerNormPart::product:
        return square.inputs[0] == distance && square.inputs[1] == distance;
      case LayerNormPart::power:
        return square.inputs[0] == distance && number(square.inputs[1]) == 2;
      case LayerNormPart::squared_difference:
        return (square.inputs[0] == x && square.inputs[1] == mean) ||
               (square.inputs[0] == mean && square.inputs[1] == x);
      default:
        return false;
    }
  }

  const Graph& graph_;
  const NodeUses& uses_;
};

}  // namespace

std::unique_ptr<Graph> fuse_layer_norm(const Graph& graph, const FuseOptions& options) {
  const NodeUses uses(graph);
  const NormFinder finder(graph, uses);
  Rewriter rewriter(graph);
  bool changed = false;
  for (const int id : graph.topological_order()) {
    const Node& node = graph.node(id);
    const std::string op(kLayerNormPieces.of(node).becomes);
    const auto found = op.empty() || !node.controls.empty() || !options.supports(graph, op, DType::f32)
                           ? std::nullopt
                           : finder.at(node);
    if (!found) {
      rewriter.copy(node);
      continue;
    }
    const Output y = rewriter.add_like(
        node, {.op = op,
               .inputs = {rewriter.output(found->x), rewriter.output(found->scale), rewriter.output(found->offset)},
               .attributes = {{"T", DType::f32}, {"U", DType::f32}, {"epsilon", found->epsilon}}});
    rewriter.replace({id, 0}, {y.node, y.index});
    rewriter.replace_node(node, y.source());
    changed = true;
    if (options.notes) options.notes->push_back(fmt::format("recognised LayerNorm that ends in '{}'", node.name));
  }
  auto made = rewriter.finish();
  // Its parts would keep later passes from what x is made of.
  return changed ? prune_callable(*made) : verified("fuse_layer_norm", graph, std::move(made));
}

}  // namespace troupe
