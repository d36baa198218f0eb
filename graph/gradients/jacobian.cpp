#include "troupe/graph/gradients/jacobian.hpp"

#include <algorithm>
#include <set>

#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/builder/functions.hpp>

namespace troupe {
namespace {

// The gradient of y for x as a function of y's gradient: what it computes without knowing that gradient is in the graph
// once, the rest is added by each call of apply(). (The gradient of a seed that is never fed stays in the graph, where
// nothing reads it.)
class GradientFunction {
 public:
  GradientFunction(Output y, Output x) : graph_(*y.graph) {
    seed_ = placeholder(graph_, y.dtype(), y.shape());
    const Outputs ys{y}, xs{x};
    result_ = dense(gradients(ys, xs, {.grad_ys = {seed_}})[0], x);
    values_.resize(static_cast<std::size_t>(graph_.size()));
    depends_.resize(values_.size());
    order_ = graph_.topological_order();
    for (const int id : order_)
      depends_[at(id)] = id == seed_.node || std::ranges::any_of(graph_.node(id).inputs, [&](const Endpoint& e) {
                           return depends_[at(e.node)];
                         });
    need(result_.node);
  }

  // In the body of a function, to which `seed` belongs.
  Output apply(Output seed) {
    values_[at(seed_.node)] = {seed};
    for (const int id : order_)
      if (needed_.contains(id) && depends_[at(id)] && id != seed_.node) copy(graph_.node(id), *seed.graph);
    return value({result_.node, result_.index});
  }

 private:
  static std::size_t at(int id) { return static_cast<std::size_t>(id); }

  void need(int id) {
    std::vector<int> pending{id};
    while (!pending.empty()) {
      const int next = pending.back();
      pending.pop_back();
      if (!needed_.insert(next).second) continue;
      for (const Endpoint& e : graph_.node(next).inputs) pending.push_back(e.node);
    }
  }

  Output value(Endpoint e) {
    if (!depends_[at(e.node)]) return {&graph_, e.node, e.index};
    return values_[at(e.node)][at(e.index)];
  }

  void copy(const Node& node, Graph& to) {
    NodeSpec spec{.op = node.op->name, .attributes = node.attributes, .device = node.device};
    for (const Endpoint& e : node.inputs) spec.inputs.push_back(value(e));
    copy_functions(graph_, node, to);
    const Node& made = to.add(std::move(spec));
    for (std::size_t i = 0; i < node.output_shapes.size(); ++i)
      to.refine_shape(made, static_cast<int>(i), node.output_shapes[i]);
    values_[at(node.id)] = outputs_of(to, made);
  }

  Graph& graph_;
  Output seed_, result_;
  std::vector<int> order_;
  std::vector<bool> depends_;    // on the seed
  std::set<int> needed_;         // for the result
  std::vector<Outputs> values_;  // of nodes that depend on the seed: the copies
};

}  // namespace

Output jacobian(Output y, Output x) {
  Graph& graph = *y.graph;
  const auto scope = graph.scope("jacobian");
  GradientFunction gradient(y, x);
  const auto number = [&](std::int64_t n) { return constant<std::int64_t>(graph, n); };
  const Output count = element_count(y);
  const Output numbers = range(number(0), count, number(1));
  const Scanned rows = scan(
      [&](const Outputs&, const Outputs& index) {
        const Output one = cast(equal(numbers, index[0]), y.dtype());
        return Scanned{{}, {gradient.apply(reshape_like(one, y))}};
      },
      {}, {numbers});
  const Output shape = concat({shape_of(y), shape_of(x)}, 0);
  const Output all = reshape(rows.ys[0], shape);
  graph.refine_shape(all.source(), 0, y.shape().concatenated(x.shape()));
  return all;
}

std::vector<Output> hessian_vector_product(Output y, std::span<const Output> xs, std::span<const Output> vs) {
  if (xs.size() != vs.size()) invalid_argument("hessian_vector_product: {} xs and {} vs", xs.size(), vs.size());
  const Outputs ys{y};
  const std::vector<Gradient> first = gradients(ys, xs);
  Outputs products;
  for (std::size_t i = 0; i < xs.size(); ++i)
    if (first[i]) products.push_back(sum(dense(first[i], xs[i]) * stop_gradient(vs[i])));
  std::vector<Output> out;
  if (products.empty()) {
    for (const Output& x : xs) out.push_back(zeros_like(x));
    return out;
  }
  const Outputs total{add_n(products)};
  const std::vector<Gradient> second = gradients(total, xs);
  for (std::size_t i = 0; i < xs.size(); ++i) out.push_back(dense(second[i], xs[i]));
  return out;
}

}  // namespace troupe
