#include "troupe/graph/passes/fold_shapes.hpp"

#include <algorithm>
#include <optional>
#include <string>

#include <troupe/graph/builder/functions.hpp>
#include <troupe/graph/infer_node.hpp>
#include <troupe/graph/known_values.hpp>
#include <troupe/graph/op_table.hpp>
#include <troupe/graph/run_order.hpp>
#include <troupe/graph/verify.hpp>

namespace troupe {
namespace {

// Ops that return their input if it already has the shape that they make, and products beside those that mixed
// precision knows.
enum class FoldedPart : std::uint8_t { none, shaper, product };
constexpr auto kFoldedParts = op_table<FoldedPart>({
    {"Reshape", FoldedPart::shaper},
    {"ReshapeLike", FoldedPart::shaper},
    {"BroadcastTo", FoldedPart::shaper},
    {"FusedMatMul", FoldedPart::product},
    {"GeluMatMul", FoldedPart::product},
});

constexpr int kMostFolds = 32;  // as functions nest

// Whether running the function has no effects, and takes no place of its own.
bool only_computes(const Function& function, const std::string& device, int depth = 0) {
  const Graph& body = *function.body;
  const auto calls_pure = [&](const Node& node) {
    return std::ranges::all_of(node.attributes.all(), [&](const auto& attribute) {
      const auto* called = std::get_if<FunctionName>(&attribute.second);
      if (!called) return true;
      const Function* inner = body.function(called->value);
      return inner && depth < kMostFolds && only_computes(*inner, device, depth + 1);
    });
  };
  for (int id = 0; id < body.size(); ++id) {
    const Node& node = body.node(id);
    if (!node.device.empty() && node.device != device) return false;
    if (node.op->role == OpRole::argument || node.op->role == OpRole::constant || node.op->is_pure()) continue;
    if (!node.op->is_control_flow() || !calls_pure(node)) return false;
  }
  return true;
}

bool may_change(const Node& node) {
  return node.controls.empty() && !node.attributes.has(kTargetAttribute) && node.op->role != OpRole::constant;
}

// One walk through the graph. Nodes of a branch that takes the place of its If are folded by the next.
class ShapeFolder {
 public:
  ShapeFolder(const Graph& graph, const Evaluator& evaluate, std::size_t max_bytes, PassNotes& notes)
      : old_(graph),
        evaluate_(evaluate),
        max_bytes_(max_bytes),
        notes_(notes),
        rewriter_(graph),
        readers_(data_consumers(graph)) {}

  std::unique_ptr<Graph> run() {
    for (const int id : old_.topological_order()) visit(inferred(old_.node(id)));
    auto made = rewriter_.finish();
    restore_order(old_, *made);
    return made;
  }

  int folded() const { return folded_; }
  bool has_cut() const { return has_cut_; }

 private:
  void visit(const Node& node) {
    if (may_change(node)) {
      if (cut(node)) return;
      if (replaced_by_input(node) || folded_to_constants(node)) {
        ++folded_;
        return;
      }
    }
    rewriter_.copy(node, rewriter_.mapped(node.inputs), rewriter_.mapped_controls(node));
    if (may_change(node)) fold_integers(node);
  }

  // The node with the shapes that follow from its new inputs.
  Node inferred(const Node& old) {
    Node node = old, there = old;
    if (old.op->role == OpRole::constant) return node;
    there.inputs = rewriter_.mapped(old.inputs);
    try {
      infer_node(rewriter_.to(), there);
    } catch (const Error&) {
      return node;
    }
    for (std::size_t i = 0; i < node.output_shapes.size(); ++i)
      if (const auto merged = there.output_shapes[i].merged(old.output_shapes[i])) node.output_shapes[i] = *merged;
    return node;
  }

  bool replaced_by_input(const Node& node) {
    if (kFoldedParts.of(node) != FoldedPart::shaper) return false;
    const Endpoint input = rewriter_.mapped(node.inputs[0]);
    const Shape& made = node.output_shapes[0];
    if (!made.fully_known() || rewriter_.to().shape(input) != made) return false;
    rewriter_.replace({node.id, 0}, input);
    rewriter_.replace_node(node, rewriter_.to().node(input.node));
    return true;
  }

  // Kernels of products may add up in another order where an operand is constant.
  bool is_factor(const Node& node) const {
    return std::ranges::any_of(node.output_types, is_floating) &&
           std::ranges::any_of(readers_[static_cast<std::size_t>(node.id)], [&](int id) {
             const Node& reader = old_.node(id);
             return reader.op->precision == PrecisionClass::narrow || kFoldedParts.of(reader) == FoldedPart::product;
           });
  }
  bool folded_to_constants(const Node& node) {
    return evaluate_ && !is_factor(node) && fold_node(rewriter_, node, evaluate_, max_bytes_);
  }

  // Replaces the copy of a node, if its integers are known, by a constant.
  void fold_integers(const Node& node) {
    if (!node.op->is_pure() || node.output_types.size() != 1) return;
    if (node.output_types[0] != DType::i64 && node.output_types[0] != DType::i32) return;
    const auto value = known_tensor(rewriter_.to(), rewriter_.mapped({node.id, 0}));
    if (!value || value->num_bytes() > max_bytes_ || !node.output_shapes[0].compatible_with(value->shape())) return;
    const Output constant =
        rewriter_.add_like(node, {.op = "Const", .attributes = {{"T", value->dtype()}, {"value", *value}}});
    rewriter_.replace({node.id, 0}, {constant.node, constant.index});
    rewriter_.replace_node(node, constant.source());
    ++folded_;
  }

  // Whether the condition of an If is known, and which it is.
  std::optional<bool> condition(const Node& node) {
    const Node& source = rewriter_.to().node(rewriter_.mapped(node.inputs[0]).node);
    if (source.op->role != OpRole::constant) return std::nullopt;
    const Tensor& value = source.attributes.tensor("value");
    if (value.dtype() != DType::boolean || value.num_elements() != 1 || !value.space().on_host()) return std::nullopt;
    return value.item<bool>();
  }

  bool cut(const Node& node) {
    if (node.op->role != OpRole::branch || !node.colocate_with.empty()) return false;
    const std::optional<bool> taken = condition(node);
    if (!taken) return false;
    const char* const branch = *taken ? "then_branch" : "else_branch";
    const Function* function = old_.function(node.attributes.get<FunctionName>(branch).value);
    if (!function || !only_computes(*function, node.device)) return false;
    Outputs inputs;
    for (std::size_t i = 1; i < node.inputs.size(); ++i) inputs.push_back(rewriter_.output(node.inputs[i]));
    const auto device = rewriter_.to().on_device(node.device);
    const Outputs results = inline_function(rewriter_.to(), *function, inputs, unused_scope(node.name));
    for (std::size_t i = 0; i < results.size(); ++i)
      rewriter_.replace({node.id, static_cast<int>(i)}, {results[i].node, results[i].index});
    if (!results.empty()) rewriter_.replace_node(node, results[0].source());
    notes_.push_back(fmt::format("cut '{}': always its {}", node.name, *taken ? "then" : "else"));
    has_cut_ = true;
    return true;
  }

  // A scope in which neither graph has a node.
  std::string unused_scope(const std::string& base) {
    std::string scope = base;
    const auto taken = [&](const Graph& graph) {
      for (int id = 0; id < graph.size(); ++id)
        if (graph.node(id).name.starts_with(scope + "/")) return true;
      return false;
    };
    while (taken(old_) || taken(rewriter_.to())) scope += "_taken";
    return scope;
  }

  const Graph& old_;
  const Evaluator& evaluate_;
  const std::size_t max_bytes_;
  PassNotes& notes_;
  Rewriter rewriter_;
  const std::vector<std::vector<int>> readers_;  // by node
  int folded_ = 0;
  bool has_cut_ = false;
};

}  // namespace

std::unique_ptr<Graph> with_feed_shapes(const Graph& graph, const std::map<std::int64_t, Shape>& shapes,
                                        PassNotes& notes) {
  Rewriter rewriter(graph);
  for (const int id : graph.topological_order()) {
    Node node = graph.node(id);
    if (node.op->role == OpRole::feed)
      if (const auto given = shapes.find(node.attributes.integer("index")); given != shapes.end()) {
        const auto merged = node.output_shapes[0].merged(given->second);
        if (!merged)
          invalid_argument("Feed '{}' is {}{}: it cannot be {}", node.name, name(node.output_types[0]),
                           node.output_shapes[0].to_string(), given->second.to_string());
        node.output_shapes[0] = *merged;
        node.attributes.set("shape", *merged);
        notes.push_back(fmt::format("'{}' is {}{}", node.name, name(node.output_types[0]), merged->to_string()));
      }
    rewriter.copy(node, rewriter.mapped(node.inputs), rewriter.mapped_controls(node));
  }
  return verified("with_feed_shapes", graph, rewriter.finish());
}

std::unique_ptr<Graph> fold_shapes(const Graph& graph, const Evaluator& evaluate, std::size_t max_bytes,
                                   PassNotes& notes) {
  int folded = 0;
  std::unique_ptr<Graph> made;
  for (int round = 0; round < kMostFolds; ++round) {
    const std::unique_ptr<Graph> before = std::move(made);
    ShapeFolder folder(before ? *before : graph, evaluate, max_bytes, notes);
    made = folder.run();
    folded += folder.folded();
    if (!folder.has_cut()) break;
  }
  if (folded > 0) notes.push_back(fmt::format("folded {} nodes", folded));
  return verified("fold_shapes", graph, std::move(made));
}

}  // namespace troupe
