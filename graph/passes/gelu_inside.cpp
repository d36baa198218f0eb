#include "troupe/graph/passes/gelu_inside.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>
#include <set>

#include <troupe/graph/known_values.hpp>
#include <troupe/graph/op_table.hpp>
#include <troupe/graph/verify.hpp>

namespace troupe {
namespace {

enum class GeluPart : std::uint8_t { none, product, factor, quotient, sum, erf };
struct GeluPiece {
  GeluPart part = GeluPart::none;
  std::string_view becomes;
};
constexpr auto kGeluPieces = op_table<GeluPiece>({
    {"FusedMatMul", {GeluPart::product, "GeluMatMul"}},
    {"Mul", {GeluPart::factor, ""}},
    {"Div", {GeluPart::quotient, ""}},
    {"Add", {GeluPart::sum, ""}},
    {"Erf", {GeluPart::erf, ""}},
});

constexpr double kNear = 1e-6;
bool is_near(double a, double b) { return std::abs(a - b) <= kNear; }

// Follows a Gelu from its last node to the product it is of.
class GeluFinder {
 public:
  explicit GeluFinder(const Graph& graph) : graph_(graph) {}

  // Nodes of a Gelu that ends with `last`, in no order, and the product in front of it; nullopt: it is none.
  struct Found {
    std::vector<int> members;
    int product = -1;
  };
  std::optional<Found> at(const Node& last) {
    members_.clear();
    scale_ = 1;
    sum_ = x_ = Endpoint{-1, 0};
    if (part_of(last) != GeluPart::factor || !gather({last.id, 0}, 0) || sum_.node < 0 || x_.node < 0 ||
        !is_near(scale_, 0.5) || !is_one_plus_erf())
      return std::nullopt;
    return Found{members_, x_.node};
  }

 private:
  static constexpr int kDepth = 4;

  GeluPart part_of(const Node& node) const {
    const bool fits = node.kernel_type() == DType::f32 && node.controls.empty();
    return fits ? kGeluPieces.of(node).part : GeluPart::none;
  }
  GeluPart part_of(Endpoint e) const { return part_of(graph_.node(e.node)); }

  std::optional<double> scalar(Endpoint e) const {
    const auto value = known_tensor(graph_, e);
    if (!value || value->dtype() != DType::f32 || value->num_elements() != 1 || graph_.shape(e).rank() > 1)
      return std::nullopt;
    return static_cast<double>(value->data<float>()[0]);
  }

  // The factors of a product: numbers, the product of matrices, and a sum.
  bool gather(Endpoint e, int depth) {
    if (const auto number = scalar(e)) {
      scale_ *= *number;
      return true;
    }
    switch (part_of(e)) {
      case GeluPart::product:
        return x_.node < 0 && (x_ = e, true);
      case GeluPart::sum:
        return sum_.node < 0 && (sum_ = e, true);
      case GeluPart::factor: {
        if (depth == kDepth) return false;
        const Node& node = graph_.node(e.node);
        members_.push_back(e.node);
        return gather(node.inputs[0], depth + 1) && gather(node.inputs[1], depth + 1);
      }
      default:
        return false;
    }
  }

  // Whether the sum is 1 + erf(x / sqrt(2)).
  bool is_one_plus_erf() {
    const Node& sum = graph_.node(sum_.node);
    for (const std::size_t side : {0, 1}) {
      const auto one = scalar(sum.inputs[side]);
      const Endpoint erf = sum.inputs[1 - side];
      if (!one || !is_near(*one, 1) || part_of(erf) != GeluPart::erf) continue;
      const Endpoint scaled = graph_.node(erf.node).inputs[0];
      members_.insert(members_.end(), {sum.id, erf.node, scaled.node});
      return is_scaled_x(graph_.node(scaled.node));
    }
    return false;
  }
  bool is_scaled_x(const Node& node) const {
    const GeluPart part = part_of(node);
    if (part == GeluPart::quotient) {
      const auto by = scalar(node.inputs[1]);
      return node.inputs[0] == x_ && by && is_near(*by, std::numbers::sqrt2);
    }
    if (part != GeluPart::factor) return false;
    for (const std::size_t side : {0, 1})
      if (const auto by = scalar(node.inputs[side]); by && node.inputs[1 - side] == x_)
        return is_near(*by, std::numbers::sqrt2 / 2);
    return false;
  }

  const Graph& graph_;
  std::vector<int> members_;
  double scale_ = 1;
  Endpoint sum_, x_;
};

// Whether all but the last are read by members alone.
bool is_closed(const NodeUses& uses, const std::vector<int>& members, int last) {
  const auto inside = [&](int id) { return std::ranges::find(members, id) != members.end(); };
  return std::ranges::all_of(members, [&](int id) {
    return id == last || (!uses.has_control_successors(id) && std::ranges::all_of(uses.data(id), inside));
  });
}

// `place`: by node, in topological order.
std::optional<FusedGroup> gelu_group(const Graph& graph, const NodeUses& uses, const FuseOptions& options,
                                     const std::vector<int>& place, const Node& last) {
  auto found = GeluFinder(graph).at(last);
  if (!found) return std::nullopt;
  const Node& product = graph.node(found->product);
  const std::string becomes(kGeluPieces.of(product).becomes);
  if (product.attributes.string("activation") != "none" || !options.supports(graph, becomes, DType::f32))
    return std::nullopt;
  found->members.push_back(product.id);
  std::vector<int> members = found->members;
  std::ranges::sort(members, {}, [&](int id) { return place[static_cast<std::size_t>(id)]; });
  for (const int id : members)
    if (!same_place(graph.node(id), last)) return std::nullopt;
  if (members.back() != last.id || !is_closed(uses, members, last.id)) return std::nullopt;
  return FusedGroup{.members = members,
                    .op = becomes,
                    .attributes = product.attributes,
                    .inputs = product.inputs,
                    .outputs = {{last.id, 0}}};
}

}  // namespace

std::unique_ptr<Graph> gelu_inside(const Graph& graph, const FuseOptions& options) {
  const NodeUses uses(graph);
  std::vector<FusedGroup> groups;
  std::set<int> taken;  // products
  const std::vector<int> order = graph.topological_order();
  std::vector<int> place(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) place[static_cast<std::size_t>(order[i])] = static_cast<int>(i);
  for (const int id : order)
    if (auto group = gelu_group(graph, uses, options, place, graph.node(id));
        group && taken.insert(group->members[0]).second)
      groups.push_back(std::move(*group));
  return verified("gelu_inside", graph, replace_groups(graph, groups, options.notes));
}

}  // namespace troupe
