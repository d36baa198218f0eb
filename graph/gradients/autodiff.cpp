#include "troupe/graph/gradients/autodiff.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/gradients/reverse_mode.hpp>

namespace troupe {
namespace {

constexpr std::string_view kScope = "gradients";

// The node's name without the scope in which gradients() was called.
std::string_view relative_name(const Graph& graph, const Node& node) {
  std::string_view scope = graph.current_scope();
  scope.remove_suffix(kScope.size() + 1);
  std::string_view name = node.name;
  if (name.starts_with(scope)) name.remove_prefix(scope.size());
  return name;
}

// During its lifetime, new nodes get the device and colocation group of a forward node.
class BesideNode {
 public:
  BesideNode(Graph& graph, const Node& node)
      : graph_(graph),
        node_(node),
        first_(graph.size()),
        scope_(graph.scope(relative_name(graph, node))),
        device_(graph.on_device(node.device)) {}
  BesideNode(const BesideNode&) = delete;
  BesideNode& operator=(const BesideNode&) = delete;
  ~BesideNode() {
    if (node_.colocate_with.empty()) return;
    for (int id = first_; id < graph_.size(); ++id) graph_.set_colocation(graph_.node(id), node_.colocate_with);
  }

 private:
  Graph& graph_;
  const Node& node_;
  int first_;
  Graph::ScopedDefaults scope_;
  Graph::ScopedDefaults device_;
};

class ReverseMode {
 public:
  ReverseMode(Graph& graph, std::span<const Output> ys, std::span<const Output> xs, const GradientOptions& options)
      : graph_(graph), order_(graph.topological_order()) {
    for (const Output& x : xs) xs_.insert({x.node, x.index});
    for (const Output& s : options.stop_gradients) stops_.insert({s.node, s.index});
    find_ancestors(ys);
    find_dependants();
  }

  void seed(Output y, Output gradient) { partial_[{y.node, y.index}].push_back({.dense = gradient}); }

  void run() {
    for (auto it = order_.rbegin(); it != order_.rend(); ++it) {
      const Node& node = graph_.node(*it);
      if (ancestor_[index(node.id)] && dependant_[index(node.id)]) differentiate(node);
    }
  }

  Gradient result(Output x) { return total({x.node, x.index}); }

 private:
  static std::size_t index(int id) { return static_cast<std::size_t>(id); }

  void find_ancestors(std::span<const Output> ys) {
    ancestor_.assign(index(graph_.size()), false);
    std::vector<int> pending;
    const auto visit = [&](int id) {
      if (ancestor_[index(id)]) return;
      ancestor_[index(id)] = true;
      pending.push_back(id);
    };
    for (const Output& y : ys) visit(y.node);
    while (!pending.empty()) {
      const Node& node = graph_.node(pending.back());
      pending.pop_back();
      for (const Endpoint& e : node.inputs) visit(e.node);
    }
  }

  // A node is a dependant if an x reaches it along differentiable edges.
  void find_dependants() {
    dependant_.assign(index(graph_.size()), false);
    for (int id : order_) {
      const Node& node = graph_.node(id);
      if (!ancestor_[index(id)] || node.op->no_gradient) continue;
      dependant_[index(id)] = std::ranges::any_of(node.inputs, [&](Endpoint e) { return depends(e); });
    }
  }

  // Whether a gradient with respect to `e` matters.
  bool depends(Endpoint e) const {
    const DType dtype = graph_.dtype(e);
    if (!is_floating(dtype) && dtype != DType::list) return false;
    if (xs_.contains(e)) return true;
    return dependant_[index(e.node)] && !stops_.contains(e);
  }

  void differentiate(const Node& node) {
    std::vector<Output> flowing(node.output_types.size());
    bool any = false;
    for (int i = 0; i < static_cast<int>(flowing.size()); ++i) {
      const Endpoint e{node.id, i};
      if (stops_.contains(e)) continue;
      if (const Gradient gradient = total(e)) {
        flowing[index(i)] = dense_beside(gradient, e);
        any = true;
      }
    }
    if (!any) return;
    if (!node.op->gradient)
      fail(Code::unimplemented, "{} '{}': the op has no gradient; use stop_gradient if it is meant to be constant",
           node.op->name, node.name);
    std::vector<bool> needed;
    for (const Endpoint& e : node.inputs) needed.push_back(depends(e));
    GradientContext context(graph_, node, inputs_of(node), outputs_of(graph_, node), std::move(flowing), needed);
    {
      const BesideNode beside(graph_, node);
      try {
        node.op->gradient(context);
      } catch (const Error& error) {
        throw error.within(fmt::format("gradient of {} '{}'", node.op->name, node.name));
      }
    }
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      if (needed[i] && context.results()[i]) partial_[node.inputs[i]].push_back(context.results()[i]);
  }

  Outputs inputs_of(const Node& node) {
    Outputs inputs;
    for (const Endpoint& e : node.inputs) inputs.push_back({&graph_, e.node, e.index});
    return inputs;
  }

  Output dense_beside(const Gradient& gradient, Endpoint e) {
    if (gradient.is_dense()) return gradient.dense;
    const BesideNode beside(graph_, graph_.node(e.node));
    return dense(gradient, {&graph_, e.node, e.index});
  }

  // The sum of the gradients of `e`, in order of arrival; cached, so that it is built once.
  Gradient total(Endpoint e) {
    const auto found = partial_.find(e);
    if (found == partial_.end()) return {};
    std::vector<Gradient>& parts = found->second;
    if (parts.size() > 1) parts = {sum_of(parts, e)};
    return parts.front();
  }

  Gradient sum_of(const std::vector<Gradient>& parts, Endpoint e) {
    const BesideNode beside(graph_, graph_.node(e.node));
    return sum_of_gradients(parts, {&graph_, e.node, e.index});
  }

  Graph& graph_;
  std::vector<int> order_;
  std::set<Endpoint> xs_;
  std::set<Endpoint> stops_;
  std::vector<bool> ancestor_;   // of ys
  std::vector<bool> dependant_;  // on xs
  std::map<Endpoint, std::vector<Gradient>> partial_;
};

}  // namespace

Output GradientContext::grad(int i) {
  Output& gradient = output_gradients_[static_cast<std::size_t>(i)];
  if (!gradient.valid()) gradient = zeros_like(output(i));
  return gradient;
}

Output dense(const Gradient& gradient, Output x) {
  if (gradient.is_dense()) return gradient.dense;
  return gradient.is_sparse() ? scatter_add_rows(gradient.indices, gradient.values, x) : zeros_like(x);
}

std::vector<Gradient> gradients(std::span<const Output> ys, std::span<const Output> xs,
                                const GradientOptions& options) {
  if (!ys.empty() && ys.front().eager)
    fail(Code::failed_precondition, "gradients: eager mode keeps no graph; record the ops with a GradientTape");
  check_gradient_arguments(ys, xs, options);
  Graph& graph = *ys.front().graph;
  Outputs inside(xs.begin(), xs.end());  // values of an eager graph around it are constants
  for (Output& x : inside) x = graph.brought_in(x);
  xs = inside;
  const auto scope = graph.scope(kScope);
  ReverseMode reverse(graph, ys, xs, options);
  for (std::size_t i = 0; i < ys.size(); ++i) {
    const BesideNode beside(graph, graph.node(ys[i].node));
    reverse.seed(ys[i], options.grad_ys.empty() ? ones_like(ys[i]) : options.grad_ys[i]);
  }
  reverse.run();
  std::vector<Gradient> out;
  for (const Output& x : xs) out.push_back(reverse.result(x));
  return out;
}

}  // namespace troupe
