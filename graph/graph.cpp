#include "troupe/graph/graph.hpp"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <queue>

#include <troupe/graph/graph_host.hpp>
#include <troupe/graph/infer_node.hpp>
#include <troupe/graph/op_runner.hpp>
#include <troupe/messages/device_name.hpp>

namespace troupe {
namespace {

bool valid_name(std::string_view name) {
  if (name.empty()) return false;
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
           c == '/' || c == '-';
  };
  return name.front() != '/' && name.front() != '-' && name.back() != '/' && std::ranges::all_of(name, allowed);
}

}  // namespace

DType Output::dtype() const { return eager ? eager->dtype() : source().output_types[static_cast<std::size_t>(index)]; }
const Shape& Output::shape() const {
  return eager ? eager->shape() : source().output_shapes[static_cast<std::size_t>(index)];
}
const Node& Output::source() const {
  if (eager) return eager->source();
  if (graph->is_eager()) fail(Code::failed_precondition, "a target of eager mode has no value: it is only an effect");
  return graph->node(node);
}
std::string Output::name() const {
  const std::string& base = eager ? source().op->name : source().name;
  return index == 0 ? base : base + ":" + std::to_string(index);
}

const Tensor& Output::value() const {
  if (!valid()) fail(Code::failed_precondition, "an invalid output has no value");
  if (!eager && graph->around())
    fail(Code::failed_precondition,
         "'{}' is a tensor of a function that is traced: it has no value before the function runs; decide by if_else() "
         "or "
         "while_loop(), in Python troupe.cond() or troupe.while_loop(), or do this outside of the function",
         name());
  if (!eager)
    fail(Code::failed_precondition, "'{}' is an output of a graph: it has no value before a session runs it", name());
  return eager->value();
}

DType Node::kernel_type() const { return op->kernel_type.empty() ? DType::invalid : attributes.dtype(op->kernel_type); }

const Node* Graph::find(std::string_view name) const {
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : nodes_[static_cast<std::size_t>(it->second)].get();
}

const Node& Graph::get(std::string_view name) const {
  const Node* found = find(name);
  if (!found) fail(Code::not_found, "the graph has no node '{}'", name);
  return *found;
}

Output Graph::output(std::string_view name) {
  const Endpoint e = endpoint(name);
  return {this, e.node, e.index};
}

Endpoint Graph::endpoint(std::string_view text) const {
  const auto colon = text.find(':');
  int index = 0;
  if (colon != std::string_view::npos) {
    const auto digits = text.substr(colon + 1);
    const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
    if (code != std::errc{} || end != digits.data() + digits.size() || index < 0)
      invalid_argument("'{}' does not name an output: expected NODE or NODE:INDEX", text);
  }
  const Node& found = get(text.substr(0, colon));
  if (static_cast<std::size_t>(index) >= found.output_types.size())
    fail(Code::out_of_range, "'{}': {} '{}' has {} outputs", text, found.op->name, found.name,
         found.output_types.size());
  return {found.id, index};
}

const Node& Graph::insert(std::unique_ptr<Node> node) {
  node->id = size();
  if (!by_name_.emplace(node->name, node->id).second)
    fail(Code::already_exists, "{} '{}': a node with this name already exists", node->op->name, node->name);
  nodes_.push_back(std::move(node));
  return *nodes_.back();
}

std::vector<Output> Graph::apply(NodeSpec spec) {
  if (used_graph_host) return used_graph_host->apply(*this, std::move(spec));
  std::vector<Output> out;
  if (runner_) {
    out = runner_->run(*this, spec);
    const bool traced = !out.empty() && !out.front().eager;  // a node, of which recorders know
    if (!traced) OpRecorder::tell_all([&](OpRecorder& recorder) { recorder.ran(spec, out); });
    return out;
  }
  const Node& node = add(std::move(spec));
  out.reserve(node.output_types.size());
  for (std::size_t i = 0; i < node.output_types.size(); ++i) out.push_back(output(node, static_cast<int>(i)));
  return out;
}

Output Graph::constant(Tensor value, std::string name) {
  if (runner_) return runner_->hold(*this, std::move(value));
  const DType dtype = value.dtype();
  return output(
      add({.op = "Const", .name = std::move(name), .attributes = {{"T", dtype}, {"value", std::move(value)}}}));
}

Node& Graph::mutable_node(int id) {
  if (runner_) fail(Code::failed_precondition, "an eager graph has no nodes that could be changed");
  return *nodes_[static_cast<std::size_t>(id)];
}

Graph::Defaults& Graph::eager_defaults() {
  std::shared_ptr<void>& defaults = eager_defaults_of_thread();
  if (!defaults) defaults = std::make_shared<Defaults>();
  return *static_cast<Defaults*>(defaults.get());
}

const Node& Graph::add(NodeSpec spec) {
  if (used_graph_host) return used_graph_host->add(*this, std::move(spec));
  const OpDef& op = ops_->get(spec.op);
  if (runner_) fail(Code::failed_precondition, "{}: an eager graph has no nodes", op.name);
  auto node = std::make_unique<Node>();
  node->op = &op;
  // In a function that is traced names may repeat, as they may in eager mode.
  node->name = spec.name.empty()  ? unique_name(op.name)
               : shares_defaults_ ? unique_name(spec.name)
                                  : defaults().scope + spec.name;
  try {
    if (!valid_name(node->name))
      invalid_argument(
          "a name consists of letters, digits and _ . / -, must not begin with / or -, and must not end with /");
    node->attributes = std::move(spec.attributes);
    node->colocate_with = std::move(spec.colocate_with);
    node->device = DeviceName::parse(spec.device).or_else(DeviceName::parse(defaults().device)).to_string();
    for (const Output& given : spec.inputs) {
      if (!can_bring_in(given))
        invalid_argument("input {} {}", node->inputs.size(),
                         given.eager     ? "is a value of eager mode: make it a constant of this graph"
                         : given.valid() ? "belongs to another graph"
                                         : "is not a tensor");
      const Output input = brought_in(given);
      node->inputs.push_back({input.node, input.index});
    }
    for (const Output& control : spec.controls) {
      if (control.graph && control.graph->is_eager() && is_within(*control.graph)) continue;  // has run
      if (control.graph != this) invalid_argument("a control input belongs to another graph");
      node->controls.push_back(control.node);
    }
    node->controls.insert(node->controls.end(), defaults().controls.begin(), defaults().controls.end());
    infer_node(*this, *node);
  } catch (const Error& error) {
    throw error.within(fmt::format("{} '{}'", op.name, node->name));
  }
  const Node& added = insert(std::move(node));
  if (around_ && OpRecorder::any()) {
    std::vector<Output> outputs;
    for (int i = 0; i < static_cast<int>(added.output_types.size()); ++i) outputs.push_back(output(added, i));
    OpRecorder::tell_all([&](OpRecorder& recorder) { recorder.ran(spec, outputs); });
  }
  return added;
}

bool Graph::is_within(const Graph& outer) const {
  const Graph* inner = this;
  while (inner && inner != &outer) inner = inner->around_;
  return inner != nullptr;
}

void Graph::set_around(Graph* around, BringIn bring_in) {
  around_ = around;
  bring_in_ = std::move(bring_in);
}

bool Graph::can_bring_in(const Output& output) const {
  if (output.graph == this) return true;
  return around_ && output.valid() && around_->can_bring_in(output);
}

Output Graph::brought_in(const Output& output) {
  if (output.graph == this) return output;
  if (!can_bring_in(output))
    invalid_argument("a result {}", output.valid() ? "belongs to another graph" : "is not a tensor");
  return bring_in_(around_->brought_in(output));
}

void Graph::change_attributes(const Node& node, const Attributes& changes) {
  Node changed = node;
  for (const auto& [name, value] : changes.all()) changed.attributes.set(name, value);
  infer_node(*this, changed);
  for (std::size_t i = 0; i < node.output_types.size(); ++i) {
    if (i >= changed.output_types.size() || changed.output_types[i] != node.output_types[i])
      invalid_argument("{} '{}': output {} would change", node.op->name, node.name, i);
    if (const auto merged = changed.output_shapes[i].merged(node.output_shapes[i])) changed.output_shapes[i] = *merged;
  }
  Node& target = mutable_node(node.id);
  target.attributes = std::move(changed.attributes);
  target.output_types = std::move(changed.output_types);
  target.output_shapes = std::move(changed.output_shapes);
}

const Node& Graph::add_copy(const Node& source, std::vector<Endpoint> inputs, std::vector<int> controls) {
  auto node = std::make_unique<Node>(source);
  node->inputs = std::move(inputs);
  node->controls = std::move(controls);
  return insert(std::move(node));
}

void Graph::add_control_edge(const Node& before, const Node& after) {
  if (runner_) return;
  auto& controls = mutable_node(after.id).controls;
  if (std::ranges::find(controls, before.id) == controls.end()) controls.push_back(before.id);
}

void Graph::set_input(const Node& node, int index, Endpoint source) {
  mutable_node(node.id).inputs.at(static_cast<std::size_t>(index)) = source;
}

void Graph::refine_shape(const Node& node, int index, const Shape& shape) {
  if (runner_) return;
  Shape& known = mutable_node(node.id).output_shapes.at(static_cast<std::size_t>(index));
  const auto merged = known.merged(shape);
  if (!merged)
    invalid_argument("{} '{}': output {} is {} and cannot be {}", node.op->name, node.name, index, known.to_string(),
                     shape.to_string());
  known = *merged;
}

std::vector<int> Graph::topological_order() const {
  // Edges to the consumers of node i are those from first[i] to first[i + 1].
  std::vector<int> missing(nodes_.size(), 0), first(nodes_.size() + 1, 0);
  const auto each_edge = [&](auto&& visit) {
    for (const auto& n : nodes_) {
      for (const Endpoint& e : n->inputs) visit(static_cast<std::size_t>(e.node), n->id);
      for (const int c : n->controls) visit(static_cast<std::size_t>(c), n->id);
    }
  };
  each_edge([&](std::size_t source, int consumer) {
    ++first[source + 1];
    ++missing[static_cast<std::size_t>(consumer)];
  });
  std::partial_sum(first.begin(), first.end(), first.begin());
  std::vector<int> consumers(static_cast<std::size_t>(first.back())), next(first.begin(), first.end() - 1);
  each_edge([&](std::size_t source, int consumer) { consumers[static_cast<std::size_t>(next[source]++)] = consumer; });
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (const auto& n : nodes_)
    if (missing[static_cast<std::size_t>(n->id)] == 0) ready.push(n->id);
  std::vector<int> order;
  order.reserve(nodes_.size());
  while (!ready.empty()) {
    const int id = ready.top();
    ready.pop();
    order.push_back(id);
    for (int i = first[static_cast<std::size_t>(id)]; i < first[static_cast<std::size_t>(id) + 1]; ++i) {
      const int consumer = consumers[static_cast<std::size_t>(i)];
      if (--missing[static_cast<std::size_t>(consumer)] == 0) ready.push(consumer);
    }
  }
  if (order.size() == nodes_.size()) return order;

  // Walk backwards among the remaining nodes until one repeats: that is a cycle.
  int at = static_cast<int>(std::ranges::find_if(missing, [](int m) { return m > 0; }) - missing.begin());
  std::vector<int> path;
  std::vector<bool> seen(nodes_.size(), false);
  while (!seen[static_cast<std::size_t>(at)]) {
    seen[static_cast<std::size_t>(at)] = true;
    path.push_back(at);
    const Node& n = node(at);
    const auto left_over = [&](int id) { return missing[static_cast<std::size_t>(id)] > 0; };
    int before = -1;
    for (const Endpoint& e : n.inputs)
      if (left_over(e.node)) before = e.node;
    for (int c : n.controls)
      if (left_over(c)) before = c;
    at = before;
  }
  std::string names = node(at).name;
  const auto begin = std::ranges::find(path, at);
  int shown = 0;
  for (auto it = path.end(); it != begin && shown < 20; ++shown) names += " -> " + node(*--it).name;
  if (shown == 20) names += " -> ...";
  invalid_argument("the graph has a cycle: {}", names);
}

std::unique_ptr<Graph> Graph::clone() const {
  auto copy = std::make_unique<Graph>(*ops_);
  copy->by_name_.reserve(nodes_.size());
  copy->name_counters_ = name_counters_;
  copy->functions_ = functions_;
  copy->nodes_.reserve(nodes_.size());
  for (const auto& n : nodes_) {
    copy->nodes_.push_back(std::make_unique<Node>(*n));
    copy->by_name_.emplace(copy->nodes_.back()->name, n->id);
  }
  return copy;
}

void Graph::add_function(Function function) {
  const std::string name = function.name;
  if (!functions_.emplace(name, std::move(function)).second)
    fail(Code::already_exists, "the graph already has a function '{}'", name);
}

void Graph::replace_function(Function function) {
  const std::string name = function.name;
  functions_.insert_or_assign(name, std::move(function));
}

const Function* Graph::function(std::string_view name) const {
  const auto it = functions_.find(name);
  return it == functions_.end() ? nullptr : &it->second;
}

Graph::ScopedDefaults Graph::scope(std::string_view name) {
  Defaults inner = defaults();
  inner.scope += std::string(name) + "/";
  return {*this, std::move(inner)};
}

Graph::ScopedDefaults Graph::on_device(std::string_view device) {
  Defaults inner = defaults();
  inner.device = DeviceName::parse(device).or_else(DeviceName::parse(defaults().device)).to_string();
  return {*this, std::move(inner)};
}

Graph::ScopedDefaults Graph::without_defaults() { return {*this, Defaults{}}; }

Graph::ScopedDefaults Graph::after(std::vector<Output> controls) {
  Defaults inner = defaults();
  for (const Output& c : controls)
    if (!runner_) inner.controls.push_back(c.node);
  return {*this, std::move(inner)};
}

std::string Graph::unique_name(std::string_view base) {
  const std::string prefix = defaults().scope + std::string(base);
  if (runner_) return prefix;
  int& counter = name_counters_[prefix];
  std::string candidate = prefix;
  const auto taken = [&](const std::string& name) {
    const auto function = functions_.lower_bound(name + "/");  // a node's functions are named after it
    return by_name_.contains(name) || (function != functions_.end() && function->first.starts_with(name + "/"));
  };
  while (taken(candidate)) candidate = prefix + "_" + std::to_string(++counter);
  return candidate;
}

}  // namespace troupe
