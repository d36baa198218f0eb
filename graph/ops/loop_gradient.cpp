// The gradient of Loop: a loop back through the iterations. Its body is the gradient of the forward body; what that
// needs of each iteration the forward loop keeps in lists, as further outputs. Lists are handles: nothing is copied.
#include <algorithm>
#include <map>
#include <set>

#include <troupe/graph/ops/gradients.hpp>

namespace troupe {
namespace {

// The forward loop's node, by the parts of its inputs and outputs.
struct Parts {
  explicit Parts(GradientContext& c)
      : carried(static_cast<int>(c.attributes().integer("carried"))),
        scanned(static_cast<int>(c.attributes().integer("scanned"))),
        others(c.num_inputs() - 2 - carried - scanned),
        lists(c.num_outputs() - 1 - carried),
        reverse(c.attributes().boolean("reverse")),
        recompute(c.attributes().boolean("recompute")) {}

  // Inputs of the node are arguments of the body but for its first two; the body's first is the index.
  int arguments() const { return 1 + carried + scanned + others; }
  static int input_of(int argument) { return argument + 1; }
  bool is_carried(int argument) const { return argument >= 1 && argument <= carried; }
  bool is_row(int argument) const { return argument > carried && argument <= carried + scanned; }

  int carried, scanned, others, lists;
  bool reverse, recompute;
};

bool is_differentiable(DType dtype) { return is_floating(dtype) || dtype == DType::list; }

class LoopGradient {
 public:
  explicit LoopGradient(GradientContext& c)
      : c_(c), outer_(c.graph()), parts_(c), function_(find_body(c)), body_(function_.body->clone()) {
    forward_nodes_ = body_->size();
    name_ = outer_.unique_name("LoopGradient");
  }

  void run() {
    find_differentiated();
    differentiate_body();
    if (results_.empty()) return;
    find_needed();
    build_backward_body();
    keep_forward_values();
    add_backward_loop();
  }

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }

  static Function find_body(GradientContext& c) {
    const std::string& wanted = c.attributes().get<FunctionName>("body").value;
    const Function* function = c.graph().function(wanted);
    if (!function) fail(Code::not_found, "the graph has no function '{}'", wanted);
    return *function;
  }

  Output in_body(Endpoint e) const { return {body_.get(), e.node, e.index}; }
  Output argument(int i) const { return in_body(function_.arguments[at(i)]); }

  // The arguments of the body with a gradient: those that an x reaches, directly or through earlier iterations.
  void find_differentiated() {
    differentiated_.assign(at(parts_.arguments()), false);
    for (int a = 1; a < parts_.arguments(); ++a)
      differentiated_[at(a)] = c_.needs(Parts::input_of(a)) && is_differentiable(argument(a).dtype());
    for (bool more = true; more;) {
      more = false;
      const std::vector<bool> reached = reached_nodes();
      for (int i = 1; i <= parts_.carried; ++i) {
        const Endpoint result = function_.results[at(i)];
        if (differentiated_[at(i)] || !reached[at(result.node)] || !is_differentiable(body_->dtype(result))) continue;
        differentiated_[at(i)] = more = true;
      }
    }
  }

  std::vector<bool> reached_nodes() const {
    std::vector<bool> reached(at(forward_nodes_), false);
    for (int a = 1; a < parts_.arguments(); ++a)
      if (differentiated_[at(a)]) reached[at(function_.arguments[at(a)].node)] = true;
    for (int id : body_->topological_order()) {
      const Node& node = body_->node(id);
      if (node.op->no_gradient) continue;
      for (const Endpoint& e : node.inputs)
        if (reached[at(e.node)] && is_differentiable(body_->dtype(e))) reached[at(id)] = true;
    }
    return reached;
  }

  // Adds the gradient nodes to the copy of the body.
  void differentiate_body() {
    const auto scope = body_->scope(name_ + "/body");
    Outputs ys;
    GradientOptions options;
    const auto seed = [&](Endpoint result, int argument) {
      const Node& arg = body_->add(
          {.op = "Arg",
           .attributes = {
               {"T", body_->dtype(result)}, {"index", std::int64_t{argument}}, {"shape", body_->shape(result)}}});
      ys.push_back(in_body(result));
      options.grad_ys.push_back(body_->output(arg));
      return arg.id;
    };
    for (int i = 1; i <= parts_.carried; ++i)
      if (differentiated_[at(i)]) carried_seeds_[i] = seed(function_.results[at(i)], i);
    for (int l = 0; l < parts_.lists; ++l) {
      const Endpoint item = function_.results[at(1 + parts_.carried + l)];
      if (c_.has_grad(1 + parts_.carried + l) && is_differentiable(body_->dtype(item)))
        list_seeds_[l] = seed(item, parts_.arguments() + l);
    }
    Outputs xs;
    for (int a = 1; a < parts_.arguments(); ++a)
      if (differentiated_[at(a)]) xs.push_back(argument(a));
    if (ys.empty() || xs.empty()) return;
    const std::vector<Gradient> found = gradients(ys, xs, options);
    std::size_t next = 0;
    for (int a = 1; a < parts_.arguments(); ++a) {
      if (!differentiated_[at(a)]) continue;
      const Gradient& gradient = found[next];
      const bool total = parts_.is_carried(a) || parts_.is_row(a);  // others only add to a sum
      if (gradient || total) results_[a] = dense(gradient, xs[next]);
      ++next;
    }
  }

  // The nodes of the backward body, and the values of the forward body that they read.
  void find_needed() {
    std::vector<int> pending;
    const auto want = [&](Endpoint e) {
      const Node& node = body_->node(e.node);
      const bool own = e.node >= forward_nodes_ || node.op->role == OpRole::constant ||
                       (parts_.recompute && node.op->role != OpRole::argument);
      if (!own) {
        read_.insert(e);
      } else if (backward_.insert(e.node).second) {
        pending.push_back(e.node);
      }
    };
    for (const auto& [argument, result] : results_) want({result.node, result.index});
    while (!pending.empty()) {
      const int id = pending.back();
      pending.pop_back();
      for (const Endpoint& e : body_->node(id).inputs) want(e);
    }
  }

  // Builds body(i, gradients and sums, rows, others) -> (true, gradients and sums, gradients of rows).
  void build_backward_body() {
    auto body = std::make_shared<Graph>(outer_.ops());
    std::map<Endpoint, Endpoint> moved;  // from the copy of the forward body
    Function made{.name = name_ + "/body"};
    {
      const auto scope = body->scope(made.name);
      const auto add_argument = [&](DType dtype, const Shape& shape) -> Endpoint {
        const Node& arg = body->add(
            {.op = "Arg",
             .attributes = {
                 {"T", dtype}, {"index", static_cast<std::int64_t>(made.arguments.size())}, {"shape", shape}}});
        made.arguments.push_back({arg.id, 0});
        return {arg.id, 0};
      };
      const auto add_like = [&](Endpoint e) { return add_argument(body_->dtype(e), body_->shape(e)); };
      const Endpoint index = add_argument(DType::i64, Shape{});
      for (const auto& [i, arg] : carried_seeds_) moved[{arg, 0}] = add_like({arg, 0});
      std::map<int, Endpoint> sums;
      for (const auto& [a, result] : results_)
        if (is_summed(a)) sums[a] = add_like(function_.arguments[at(a)]);
      // Rows: the gradients of items, then what is read of the forward iteration.
      for (const auto& [l, arg] : list_seeds_) moved[{arg, 0}] = add_like({arg, 0});
      std::vector<Endpoint> others;
      for (const Endpoint e : read_) {
        const int a = argument_of(e);
        if (a == 0) {
          moved[e] = index;
        } else if (a > parts_.carried + parts_.scanned) {
          others.push_back(e);
        } else {
          rows_.push_back(e);
          moved[e] = add_like(e);
        }
      }
      for (const Endpoint e : others) {
        others_.push_back(argument_of(e));
        moved[e] = add_like(e);
      }
      for (int id : body_->topological_order()) {
        if (!backward_.contains(id)) continue;
        const Node& node = body_->node(id);
        if (node.op->role == OpRole::argument) continue;
        std::vector<Endpoint> inputs = node.inputs;
        for (Endpoint& e : inputs) e = moved.at(e);
        const Node& copy = body->add_copy(renamed(node, *body), std::move(inputs), {});
        for (int i = 0; i < static_cast<int>(copy.output_types.size()); ++i) moved[{id, i}] = {copy.id, i};
      }
      for (const auto& [name, inner] : body_->functions()) body->add_function(inner);
      const auto moved_output = [&](const Output& o) {
        const Endpoint e = moved.at({o.node, o.index});
        return Output{body.get(), e.node, e.index};
      };
      const Output yes = constant(*body, true);
      made.results.push_back({yes.node, 0});
      const auto add_result = [&](const Output& o) { made.results.push_back({o.node, o.index}); };
      for (const auto& [i, arg] : carried_seeds_) add_result(moved_output(results_.at(i)));
      for (const auto& [a, sum] : sums) {
        const Output before{body.get(), sum.node, 0}, more = moved_output(results_.at(a));
        add_result(before.dtype() == DType::list ? add_op("ListAdd", {before, more}) : before + more);
      }
      for (const auto& [a, result] : results_)
        if (parts_.is_row(a)) add_result(moved_output(result));
    }
    made.body = std::move(body);
    outer_.add_function(std::move(made));
  }

  // A recomputed node has the name of the forward node, which is taken elsewhere in the program.
  Node renamed(const Node& node, Graph& body) const {
    Node copy = node;
    if (node.id >= forward_nodes_) return copy;
    if (!copy.attributes.has("_original_name")) copy.attributes.set("_original_name", node.name);  // its random numbers
    copy.name = body.unique_name(node.name.substr(node.name.rfind('/') + 1));
    return copy;
  }

  bool is_summed(int argument) const { return argument > parts_.carried + parts_.scanned; }

  // The argument that an endpoint of the forward body is, or -1.
  int argument_of(Endpoint e) const {
    for (int a = 0; a < parts_.arguments(); ++a)
      if (function_.arguments[at(a)] == e) return a;
    return -1;
  }

  // Makes the forward loop return lists of the values that are read.
  void keep_forward_values() {
    Function kept{
        .name = outer_.unique_name(function_.name), .arguments = function_.arguments, .results = function_.results};
    for (const Endpoint e : rows_) {
      if (parts_.is_row(argument_of(e))) continue;  // a row of a scanned input
      const auto items = kept.results.begin() + 1 + parts_.carried;
      const auto known = std::find(items, kept.results.end(), e);
      lists_[e] = static_cast<int>(known - items);
      if (known == kept.results.end()) kept.results.push_back(e);
    }
    auto body = std::make_shared<Graph>(outer_.ops());
    std::vector<int> moved(at(forward_nodes_), -1);
    for (int id : body_->topological_order()) {
      if (id >= forward_nodes_) continue;
      const Node& node = body_->node(id);
      std::vector<Endpoint> inputs = node.inputs;
      for (Endpoint& e : inputs) e.node = moved[at(e.node)];
      std::vector<int> controls;
      for (const int control : node.controls) controls.push_back(moved[at(control)]);
      moved[at(id)] = body->add_copy(node, std::move(inputs), std::move(controls)).id;
    }
    for (const auto& [name, inner] : body_->functions()) body->add_function(inner);
    for (auto* endpoints : {&kept.arguments, &kept.results})
      for (Endpoint& e : *endpoints) e.node = moved[at(e.node)];
    kept.body = std::move(body);
    std::vector<DType> types = c_.attributes().get<std::vector<DType>>("Tout");
    types.resize(kept.results.size() - 1, DType::list);
    const Attributes changes{{"body", FunctionName{kept.name}}, {"Tout", types}};
    outer_.add_function(std::move(kept));
    outer_.change_attributes(c_.node(), changes);
  }

  void add_backward_loop() {
    Outputs inputs{c_.output(0), constant(outer_, true)};
    std::vector<DType> types;
    for (const auto& [i, arg] : carried_seeds_) inputs.push_back(c_.grad(i));
    for (const auto& [a, result] : results_)
      if (is_summed(a)) inputs.push_back(zeros_like(c_.input(Parts::input_of(a))));
    for (std::size_t i = 2; i < inputs.size(); ++i) types.push_back(inputs[i].dtype());
    const auto values = static_cast<std::int64_t>(inputs.size()) - 2;
    for (const auto& [l, arg] : list_seeds_) inputs.push_back(c_.grad(1 + parts_.carried + l));
    for (const Endpoint e : rows_) {
      const int a = argument_of(e);
      inputs.push_back(parts_.is_row(a) ? c_.input(Parts::input_of(a))
                                        : outer_.output(c_.node(), 1 + parts_.carried + lists_.at(e)));
    }
    const auto scanned = static_cast<std::int64_t>(inputs.size()) - 2 - values;
    for (const int a : others_) inputs.push_back(c_.input(Parts::input_of(a)));
    for (const auto& [a, result] : results_)
      if (parts_.is_row(a)) types.push_back(DType::list);
    const Node& node = outer_.add({.op = "Loop",
                                   .name = name_.substr(outer_.current_scope().size()),
                                   .inputs = inputs,
                                   .attributes = {{"Tout", types},
                                                  {"body", FunctionName{name_ + "/body"}},
                                                  {"carried", values},
                                                  {"scanned", scanned},
                                                  {"reverse", !parts_.reverse},
                                                  {"recompute", parts_.recompute}}});
    int next = 1;
    const auto take = [&] { return outer_.output(node, next++); };
    for (const auto& [i, arg] : carried_seeds_) {
      outer_.refine_shape(node, next, c_.input(Parts::input_of(i)).shape());
      c_.set(Parts::input_of(i), take());
    }
    for (const auto& [a, result] : results_)
      if (is_summed(a)) {
        outer_.refine_shape(node, next, c_.input(Parts::input_of(a)).shape());
        c_.set(Parts::input_of(a), take());
      }
    for (const auto& [a, result] : results_) {
      if (!parts_.is_row(a)) continue;
      const Output list = take(), x = c_.input(Parts::input_of(a));
      if (x.dtype() == DType::list) {
        c_.set(Parts::input_of(a), list);
      } else {
        const Output stacked = list_stack(list, x.dtype(), argument(a).shape());
        outer_.refine_shape(stacked.source(), 0, x.shape());
        c_.set(Parts::input_of(a), stacked);
      }
    }
  }

  GradientContext& c_;
  Graph& outer_;
  const Parts parts_;
  const Function function_;
  const std::shared_ptr<Graph> body_;  // a copy of the forward body, to which its gradient is added
  int forward_nodes_ = 0;
  std::string name_;
  std::vector<bool> differentiated_;  // by argument
  std::map<int, int> carried_seeds_;  // the gradient of a value, by argument: an Arg node of the copy
  std::map<int, int> list_seeds_;     // the gradient of an item, by list
  std::map<int, Output> results_;     // gradients in the copy, by argument
  std::set<int> backward_;            // nodes of the copy that are in the backward body
  std::set<Endpoint> read_;           // of the forward body
  std::vector<Endpoint> rows_;        // of them, those that are scanned
  std::vector<int> others_;           // arguments that the backward body reads as they are
  std::map<Endpoint, int> lists_;     // of the forward loop
};

}  // namespace

void loop_gradient(GradientContext& c) { LoopGradient(c).run(); }

}  // namespace troupe
