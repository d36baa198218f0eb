#include "troupe/graph/passes/common_subexpressions.hpp"

#include <algorithm>
#include <bit>
#include <unordered_map>

#include <troupe/graph/passes/prune.hpp>
#include <troupe/graph/rewrite.hpp>
#include <troupe/graph/verify.hpp>

namespace troupe {
namespace {

// A node as it would be in the new graph.
struct Candidate {
  const Node* node;
  std::vector<Endpoint> inputs;
  std::vector<int> controls;  // sorted
};

bool same_real(double a, double b) { return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b); }

bool same_value(const AttrValue& a, const AttrValue& b) {
  if (a.index() != b.index()) return false;
  if (const auto* real = std::get_if<double>(&a)) return same_real(*real, std::get<double>(b));
  if (const auto* reals = std::get_if<std::vector<double>>(&a))
    return std::ranges::equal(*reals, std::get<std::vector<double>>(b), same_real);
  if (const auto* tensor = std::get_if<Tensor>(&a); tensor && !tensor->space().on_host()) return false;
  return equal(a, b);
}

bool counts(const Attributes::Map::value_type& attribute) { return !attribute.first.starts_with('_'); }

bool same_attributes(const Attributes& a, const Attributes& b) {
  auto x = a.all().begin();
  auto y = b.all().begin();
  for (;; ++x, ++y) {
    x = std::find_if(x, a.all().end(), counts);
    y = std::find_if(y, b.all().end(), counts);
    if (x == a.all().end() || y == b.all().end()) return x == a.all().end() && y == b.all().end();
    if (x->first != y->first || !same_value(x->second, y->second)) return false;
  }
}

bool same(const Candidate& a, const Candidate& b) {
  return a.node->op == b.node->op && a.inputs == b.inputs && a.controls == b.controls &&
         a.node->device == b.node->device && a.node->colocate_with == b.node->colocate_with &&
         same_attributes(a.node->attributes, b.node->attributes);
}

// Of fields that are cheap to read. Constants differ mostly in their first bytes, if not in shape.
std::size_t hash_of(const Candidate& c) {
  std::size_t hash = std::hash<const void*>{}(c.node->op);
  const auto mix = [&hash](std::size_t value) { hash = (hash ^ value) * 0x9e3779b97f4a7c15ull + (hash >> 29); };
  for (const Endpoint& e : c.inputs) {
    mix(static_cast<std::size_t>(e.node));
    mix(static_cast<std::size_t>(e.index));
  }
  for (const auto& attribute : c.node->attributes.all()) {
    if (!counts(attribute)) continue;
    const AttrValue& value = attribute.second;
    if (const auto* integer = std::get_if<std::int64_t>(&value)) mix(static_cast<std::size_t>(*integer));
    const auto* tensor = std::get_if<Tensor>(&value);
    if (!tensor || tensor->dtype() == DType::string || !tensor->space().on_host()) continue;
    const std::size_t looked_at = std::min<std::size_t>(tensor->num_bytes(), 256);
    mix(tensor->num_bytes());
    mix(std::hash<std::string_view>{}({reinterpret_cast<const char*>(tensor->raw()), looked_at}));
  }
  return hash;
}

}  // namespace

std::unique_ptr<Graph> eliminate_common_subexpressions(const Graph& graph) {
  Rewriter rewriter(graph);
  struct Kept {
    Candidate candidate;
    int id;  // in the new graph
  };
  std::unordered_multimap<std::size_t, Kept> kept;
  for (int id : graph.topological_order()) {
    const Node& node = graph.node(id);
    if (!node.op->is_pure() && node.op->role != OpRole::constant) {
      rewriter.copy(node);
      continue;
    }
    Candidate candidate{&node, rewriter.mapped(node.inputs), rewriter.mapped_controls(node)};
    std::ranges::sort(candidate.controls);
    const std::size_t hash = hash_of(candidate);
    const auto [begin, end] = kept.equal_range(hash);
    const auto twin =
        std::find_if(begin, end, [&](const auto& entry) { return same(entry.second.candidate, candidate); });
    if (twin == end) {
      const Node& copy = rewriter.copy(node, candidate.inputs, rewriter.mapped_controls(node));
      kept.emplace(hash, Kept{std::move(candidate), copy.id});
      continue;
    }
    const Node& first = rewriter.to().node(twin->second.id);
    for (int i = 0; i < static_cast<int>(node.output_types.size()); ++i) rewriter.replace({id, i}, {first.id, i});
    rewriter.replace_node(node, first);
    if (node.attributes.has(kTargetAttribute)) rewriter.to().set_attribute(first, std::string(kTargetAttribute), true);
  }
  return verified("common_subexpressions", graph, rewriter.finish());
}

}  // namespace troupe
