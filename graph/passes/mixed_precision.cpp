#include "troupe/graph/passes/mixed_precision.hpp"

#include <algorithm>

#include <troupe/graph/rewrite.hpp>
#include <troupe/graph/verify.hpp>

namespace troupe {
namespace {

constexpr const char* kCast = "Cast";

// An operand that may come from f32: a small tensor beside the main operand, or a gradient flowing back to a 16-bit
// result, which would be rounded to 16 bits one step later.
bool may_come_wide(const Node& node, std::size_t input) {
  const std::string& argument = node.op->inputs[node.op->inputs.size() == 1 ? 0 : input].name;
  return argument == "bias" || argument == "dy";
}
// An input with its own dtype that only provides its shape.
bool is_like(const Node& node, std::size_t input) {
  const auto& inputs = node.op->inputs;
  return inputs.size() > 1 && inputs[input].shape_only && inputs[input].type_attr != node.op->kernel_type;
}
// An operand whose dtype changes. A list is the only input of its op.
bool is_operand(const Node& node, std::size_t input) {
  const auto& inputs = node.op->inputs;
  return (inputs.size() == 1 ? inputs[0] : inputs[input]).type_attr == node.op->kernel_type;
}
// The same for an output: statistics do not change.
bool changes(const Node& node, int output) {
  return node.op->outputs[static_cast<std::size_t>(output)].type_attr == node.op->kernel_type;
}

class Rewriting {
 public:
  Rewriting(const Graph& graph, const MixedPrecisionOptions& options, MixedPrecisionReport& report)
      : graph_(graph), options_(options), report_(report), order_(graph.topological_order()), rewriter_(graph) {}

  std::unique_ptr<Graph> run() {
    choose();
    for (int id : order_) {
      const Node& node = graph_.node(id);
      if (narrowed(id))
        add_narrowed(node);
      else
        rewriter_.copy(node, wide(node.inputs), rewriter_.mapped_controls(node));
    }
    return rewriter_.finish();
  }

 private:
  enum class Role : std::uint8_t { wide, product, fed, narrow };  // fed: a follower whose operands are narrow
  Role& role(int id) { return roles_[static_cast<std::size_t>(id)]; }
  bool narrowed(int id) { return role(id) == Role::product || role(id) == Role::narrow; }

  bool may_change(const Node& node) const {
    return node.kernel_type() == DType::f32 &&
           (!options_.supports || options_.supports(node.op->name, options_.precision));
  }

  void choose() {
    roles_.assign(static_cast<std::size_t>(graph_.size()), Role::wide);
    for (int id : order_) {
      const Node& node = graph_.node(id);
      const PrecisionClass precision = node.op->precision;
      if (precision == PrecisionClass::sensitive || !may_change(node)) continue;
      if (precision == PrecisionClass::narrow)
        role(id) = Role::product;
      else if (all_operands_narrow(node))
        role(id) = Role::fed;
    }
    const auto consumers = data_consumers(graph_);
    for (auto it = order_.rbegin(); it != order_.rend(); ++it) {
      const auto& users = consumers[static_cast<std::size_t>(*it)];
      if (role(*it) == Role::fed && std::ranges::any_of(users, [&](int user) { return goes_on(user, *it); }))
        role(*it) = Role::narrow;
    }
  }

  bool all_operands_narrow(const Node& node) {
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      if (is_operand(node, i) && !may_come_wide(node, i) && !may_be_narrow(node.inputs[i])) return false;
    return true;
  }

  bool may_be_narrow(const Endpoint& e) { return role(e.node) != Role::wide && changes(graph_.node(e.node), e.index); }

  // Whether `user` takes the result of `id` in 16 bits.
  bool goes_on(int user, int id) {
    if (!narrowed(user)) return false;
    const Node& node = graph_.node(user);
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      if (node.inputs[i].node == id && is_operand(node, i) && changes(graph_.node(id), node.inputs[i].index))
        return true;
    return false;
  }

  // Inputs for a node in f32.
  std::vector<Endpoint> wide(const std::vector<Endpoint>& inputs) {
    std::vector<Endpoint> out;
    for (const Endpoint& e : inputs) {
      const auto narrow = narrow_.find(e);
      if (!rewriter_.has(e) && narrow != narrow_.end()) rewriter_.replace(e, cast(narrow->second, e, DType::f32));
      out.push_back(rewriter_.mapped(e));
    }
    return out;
  }

  // An f32 tensor, in 16 bits.
  Endpoint narrow(Endpoint e) {
    const auto [at, fresh] = narrow_.try_emplace(e);
    if (!fresh) return at->second;
    const Node& source = graph_.node(e.node);
    // If it was in 16 bits before, nothing is lost by taking it from there.
    if (source.op->name == kCast && graph_.dtype(source.inputs[0]) == options_.precision)
      return at->second = rewriter_.mapped(source.inputs[0]);
    return at->second = cast(rewriter_.mapped(e), e, options_.precision);
  }

  // Next to the producer: a tensor for other devices is cast once, before it leaves.
  Endpoint cast(Endpoint from, Endpoint old, DType to) {
    const Node& source = graph_.node(old.node);
    const DType before = rewriter_.to().dtype(from);
    const Node& made = rewriter_.to().add({.op = kCast,
                                           .name = rewriter_.new_name(fmt::format("{}/to_{}", source.name, name(to))),
                                           .inputs = {{&rewriter_.to(), from.node, from.index}},
                                           .attributes = {{"SrcT", before}, {"DstT", to}},
                                           .device = source.device,
                                           .colocate_with = source.colocate_with});
    ++report_.casts;
    return {made.id, 0};
  }

  void add_narrowed(const Node& node) {
    NodeSpec spec{.op = node.op->name, .name = node.name, .attributes = node.attributes};
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const Endpoint e = input_of(node, i);
      spec.inputs.push_back({&rewriter_.to(), e.node, e.index});
      if (is_like(node, i)) spec.attributes.set(node.op->inputs[i].type_attr, rewriter_.to().dtype(e));
    }
    for (int c : rewriter_.mapped_controls(node)) spec.controls.push_back({&rewriter_.to(), c, 0});
    spec.attributes.set(node.op->kernel_type, options_.precision);
    spec.device = node.device;
    spec.colocate_with = node.colocate_with;
    const Node& made = rewriter_.to().add(std::move(spec));
    for (int i = 0; i < static_cast<int>(made.output_types.size()); ++i) {
      rewriter_.to().refine_shape(made, i, node.output_shapes[static_cast<std::size_t>(i)]);
      if (changes(node, i))
        narrow_[{node.id, i}] = {made.id, i};
      else
        rewriter_.replace({node.id, i}, {made.id, i});
    }
    rewriter_.replace_node(node, made);
    ++report_.narrowed[node.op->name];
  }

  Endpoint input_of(const Node& node, std::size_t i) {
    const Endpoint e = node.inputs[i];
    if (is_operand(node, i)) return narrow(e);
    if (const auto known = narrow_.find(e); is_like(node, i) && known != narrow_.end()) return known->second;
    return wide({e})[0];
  }

  const Graph& graph_;
  const MixedPrecisionOptions& options_;
  MixedPrecisionReport& report_;
  std::vector<int> order_;
  Rewriter rewriter_;
  std::vector<Role> roles_;              // by node
  std::map<Endpoint, Endpoint> narrow_;  // tensors available in 16 bits, by output of the old graph
};

}  // namespace

std::string MixedPrecisionReport::to_string() const {
  std::string text;
  for (const auto& [op, count] : narrowed) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, op);
  return fmt::format("{}; {} casts", text.empty() ? "nothing to change" : text, casts);
}

std::unique_ptr<Graph> mixed_precision(const Graph& graph, const MixedPrecisionOptions& options,
                                       MixedPrecisionReport* report) {
  if (options.precision != DType::bf16 && options.precision != DType::f16)
    invalid_argument("mixed precision: the products can be in bf16 or f16, not in {}", name(options.precision));
  MixedPrecisionReport unused;
  return verified("mixed_precision", graph, Rewriting(graph, options, report ? *report : unused).run());
}

}  // namespace troupe
