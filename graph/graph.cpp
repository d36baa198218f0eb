#include "troupe/graph/graph.hpp"

#include <algorithm>
#include <charconv>
#include <queue>

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

// Checks the inputs of a new node against its op, and deduces type, count and types attributes from them.
class InputMatcher {
 public:
  InputMatcher(const OpDef& op, Attributes& attributes, std::span<const DType> given)
      : op_(op), attributes_(attributes), given_(given) {}

  void match() {
    for (const ArgDef& arg : op_.inputs) {
      if (!arg.types_attr.empty())
        match_types(arg);
      else if (!arg.count_attr.empty())
        match_list(arg);
      else
        match_one(arg, take(arg));
    }
    if (next_ != given_.size()) invalid_argument("takes {} inputs, {} were given", next_, given_.size());
  }

 private:
  DType take(const ArgDef& arg) {
    if (next_ == given_.size()) invalid_argument("input '{}' is missing ({} were given)", arg.name, given_.size());
    return given_[next_++];
  }
  // Inputs that remain for a list: all but those of the single arguments after it.
  std::size_t remaining(const ArgDef& list) const {
    std::size_t after = 0;
    bool seen = false;
    for (const ArgDef& arg : op_.inputs) {
      if (&arg == &list)
        seen = true;
      else if (seen)
        ++after;
    }
    const std::size_t left = given_.size() - next_;
    return left >= after ? left - after : 0;
  }
  void match_types(const ArgDef& arg) {
    std::vector<DType> types;
    for (std::size_t n = remaining(arg); n > 0; --n) types.push_back(take(arg));
    if (attributes_.has(arg.types_attr) && attributes_.get<std::vector<DType>>(arg.types_attr) != types)
      invalid_argument("inputs '{}' do not have the dtypes of attribute '{}'", arg.name, arg.types_attr);
    attributes_.set(arg.types_attr, types);
  }
  void match_list(const ArgDef& arg) {
    const auto count = static_cast<std::int64_t>(attributes_.has(arg.count_attr) && count_is_shared(arg)
                                                     ? static_cast<std::size_t>(attributes_.integer(arg.count_attr))
                                                     : remaining(arg));
    if (attributes_.has(arg.count_attr) && attributes_.integer(arg.count_attr) != count)
      invalid_argument("attribute '{}' is {}, but {} inputs '{}' were given", arg.count_attr,
                       attributes_.integer(arg.count_attr), count, arg.name);
    attributes_.set(arg.count_attr, count);
    for (std::int64_t i = 0; i < count; ++i) match_one(arg, take(arg));
  }
  bool count_is_shared(const ArgDef& list) const {
    return std::ranges::count_if(op_.inputs, [&](const ArgDef& a) { return a.count_attr == list.count_attr; }) > 1;
  }
  void match_one(const ArgDef& arg, DType dtype) {
    if (arg.type_attr.empty()) {
      if (dtype != arg.fixed) invalid_argument("input '{}' must be {}, not {}", arg.name, name(arg.fixed), name(dtype));
    } else if (attributes_.has(arg.type_attr)) {
      if (attributes_.dtype(arg.type_attr) != dtype) refuse_type(arg, dtype);
    } else {
      attributes_.set(arg.type_attr, dtype);
      deduced_from_.emplace(arg.type_attr, arg.name);
    }
  }
  [[noreturn]] void refuse_type(const ArgDef& arg, DType dtype) const {
    const auto first = deduced_from_.find(arg.type_attr);
    const std::string with = first == deduced_from_.end() ? fmt::format("attribute '{}'", arg.type_attr)
                             : first->second == arg.name  ? fmt::format("the first of '{}'", arg.name)
                                                          : fmt::format("input '{}'", first->second);
    invalid_argument("input '{}' is {}, but {} is {}: they must have one dtype, use cast()", arg.name, name(dtype),
                     with, name(attributes_.dtype(arg.type_attr)));
  }

  const OpDef& op_;
  Attributes& attributes_;
  std::span<const DType> given_;
  std::size_t next_ = 0;
  std::map<std::string, std::string> deduced_from_;  // type attributes that no caller gave, by the input that set them
};

void check_attributes(const OpDef& op, Attributes& attributes) {
  for (const AttrDef& attr : op.attrs) {
    if (!attributes.has(attr.name)) {
      if (!attr.default_value) invalid_argument("attribute '{}' is missing", attr.name);
      attributes.set(attr.name, *attr.default_value);
    }
    const AttrValue& value = attributes.all().find(attr.name)->second;
    if (type_of(value) != attr.type)
      invalid_argument("attribute '{}' must be of type {}, not {}", attr.name, name(attr.type), name(type_of(value)));
    if (const auto* dtype = std::get_if<DType>(&value); dtype && !is_valid(*dtype))
      invalid_argument("attribute '{}' is not a dtype", attr.name);
    if (const auto* dtype = std::get_if<DType>(&value);
        dtype && !attr.allowed.empty() && std::ranges::find(attr.allowed, *dtype) == attr.allowed.end())
      invalid_argument("attribute '{}' cannot be {}", attr.name, name(*dtype));
  }
  for (const auto& [key, value] : attributes.all())
    if (!op.find_attr(key) && !key.starts_with('_')) invalid_argument("there is no attribute '{}'", key);
}

std::vector<DType> output_types(const OpDef& op, const Attributes& attributes) {
  std::vector<DType> types;
  for (const ArgDef& arg : op.outputs) {
    if (!arg.types_attr.empty()) {
      const auto& list = attributes.get<std::vector<DType>>(arg.types_attr);
      types.insert(types.end(), list.begin(), list.end());
      continue;
    }
    const DType dtype = arg.type_attr.empty() ? arg.fixed : attributes.dtype(arg.type_attr);
    const std::int64_t count = arg.count_attr.empty() ? 1 : attributes.integer(arg.count_attr);
    if (count < 0 || count > 1'000'000) invalid_argument("attribute '{}' is {}", arg.count_attr, count);
    types.insert(types.end(), static_cast<std::size_t>(count), dtype);
  }
  return types;
}

class NodeShapeContext final : public ShapeContext {
 public:
  NodeShapeContext(const Graph& graph, Node& node) : graph_(graph), node_(node) {}
  int num_inputs() const override { return static_cast<int>(node_.inputs.size()); }
  const Shape& input(int index) const override { return graph_.shape(endpoint(index)); }
  DType input_dtype(int index) const override { return graph_.dtype(endpoint(index)); }
  const Tensor* constant(int index) const override {
    const Node& source = graph_.node(endpoint(index).node);
    return source.op->name == "Const" ? &source.attributes.tensor("value") : nullptr;
  }
  const Attributes& attributes() const override { return node_.attributes; }
  int num_outputs() const override { return static_cast<int>(node_.output_types.size()); }
  void set_output(int index, Shape shape) override { node_.output_shapes.at(static_cast<std::size_t>(index)) = shape; }

 private:
  Endpoint endpoint(int index) const { return node_.inputs.at(static_cast<std::size_t>(index)); }
  const Graph& graph_;
  Node& node_;
};

}  // namespace

DType Output::dtype() const { return graph->dtype({node, index}); }
const Shape& Output::shape() const { return graph->shape({node, index}); }
const Node& Output::source() const { return graph->node(node); }
std::string Output::name() const {
  const std::string& base = source().name;
  return index == 0 ? base : base + ":" + std::to_string(index);
}

DType Node::kernel_type() const { return op->kernel_type.empty() ? DType::invalid : attributes.dtype(op->kernel_type); }

const Node* Graph::find(std::string_view name) const {
  const auto it = by_name_.find(std::string(name));
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
    fail(Code::already_exists, "{} '{}': a node of this name exists already", node->op->name, node->name);
  nodes_.push_back(std::move(node));
  return *nodes_.back();
}

const Node& Graph::add(NodeSpec spec) {
  const OpDef& op = ops_->get(spec.op);
  auto node = std::make_unique<Node>();
  node->op = &op;
  node->name = spec.name.empty() ? unique_name(op.name) : defaults_.scope + spec.name;
  try {
    if (!valid_name(node->name))
      invalid_argument("a name consists of letters, digits and _ . / -, and does not begin with / or - or end with /");
    node->attributes = std::move(spec.attributes);
    node->colocate_with = std::move(spec.colocate_with);
    node->device = DeviceName::parse(spec.device).or_else(DeviceName::parse(defaults_.device)).to_string();
    std::vector<DType> types;
    for (const Output& input : spec.inputs) {
      if (input.graph != this)
        invalid_argument("input {} {}", types.size(), input.valid() ? "belongs to another graph" : "is not a tensor");
      types.push_back(input.dtype());
      node->inputs.push_back({input.node, input.index});
    }
    for (const Output& control : spec.controls) {
      if (control.graph != this) invalid_argument("a control input belongs to another graph");
      node->controls.push_back(control.node);
    }
    node->controls.insert(node->controls.end(), defaults_.controls.begin(), defaults_.controls.end());
    InputMatcher(op, node->attributes, types).match();
    check_attributes(op, node->attributes);
    node->output_types = output_types(op, node->attributes);
    infer_shapes(*node);
  } catch (const Error& error) {
    throw error.within(fmt::format("{} '{}'", op.name, node->name));
  }
  return insert(std::move(node));
}

void Graph::infer_shapes(Node& node) {
  node.output_shapes.assign(node.output_types.size(), Shape::unknown_rank());
  NodeShapeContext context(*this, node);
  if (node.op->shape) node.op->shape(context);
}

const Node& Graph::add_copy(const Node& source, std::vector<Endpoint> inputs, std::vector<int> controls) {
  auto node = std::make_unique<Node>(source);
  node->inputs = std::move(inputs);
  node->controls = std::move(controls);
  return insert(std::move(node));
}

void Graph::add_control_edge(const Node& before, const Node& after) {
  auto& controls = mutable_node(after.id).controls;
  if (std::ranges::find(controls, before.id) == controls.end()) controls.push_back(before.id);
}

void Graph::set_input(const Node& node, int index, Endpoint source) {
  mutable_node(node.id).inputs.at(static_cast<std::size_t>(index)) = source;
}

void Graph::refine_shape(const Node& node, int index, const Shape& shape) {
  Shape& known = mutable_node(node.id).output_shapes.at(static_cast<std::size_t>(index));
  const auto merged = known.merged(shape);
  if (!merged)
    invalid_argument("{} '{}': output {} is {}, it cannot be {}", node.op->name, node.name, index, known.to_string(),
                     shape.to_string());
  known = *merged;
}

std::vector<int> Graph::topological_order() const {
  std::vector<int> missing(nodes_.size(), 0);
  std::vector<std::vector<int>> consumers(nodes_.size());
  for (const auto& n : nodes_) {
    const auto depend = [&](int source) {
      consumers[static_cast<std::size_t>(source)].push_back(n->id);
      ++missing[static_cast<std::size_t>(n->id)];
    };
    for (const Endpoint& e : n->inputs) depend(e.node);
    for (int c : n->controls) depend(c);
  }
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (const auto& n : nodes_)
    if (missing[static_cast<std::size_t>(n->id)] == 0) ready.push(n->id);
  std::vector<int> order;
  order.reserve(nodes_.size());
  while (!ready.empty()) {
    const int id = ready.top();
    ready.pop();
    order.push_back(id);
    for (int c : consumers[static_cast<std::size_t>(id)])
      if (--missing[static_cast<std::size_t>(c)] == 0) ready.push(c);
  }
  if (order.size() == nodes_.size()) return order;

  // Walk backwards among the nodes left over until one repeats: that is a cycle.
  int at = static_cast<int>(std::ranges::find_if(missing, [](int m) { return m > 0; }) - missing.begin());
  std::vector<int> path;
  std::vector<bool> seen(nodes_.size(), false);
  while (!seen[static_cast<std::size_t>(at)]) {
    seen[static_cast<std::size_t>(at)] = true;
    path.push_back(at);
    const Node& n = node(at);
    const auto left_over = [&](int id) { return missing[static_cast<std::size_t>(id)] > 0; };
    int next = -1;
    for (const Endpoint& e : n.inputs)
      if (left_over(e.node)) next = e.node;
    for (int c : n.controls)
      if (left_over(c)) next = c;
    at = next;
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
  copy->by_name_ = by_name_;
  copy->name_counters_ = name_counters_;
  copy->functions_ = functions_;
  copy->nodes_.reserve(nodes_.size());
  for (const auto& n : nodes_) copy->nodes_.push_back(std::make_unique<Node>(*n));
  return copy;
}

void Graph::add_function(Function function) {
  const std::string name = function.name;
  if (!functions_.emplace(name, std::move(function)).second)
    fail(Code::already_exists, "the graph has a function '{}' already", name);
}

const Function* Graph::function(std::string_view name) const {
  const auto it = functions_.find(name);
  return it == functions_.end() ? nullptr : &it->second;
}

Graph::ScopedDefaults Graph::scope(std::string_view name) {
  Defaults inner = defaults_;
  inner.scope += std::string(name) + "/";
  return {*this, std::move(inner)};
}

Graph::ScopedDefaults Graph::on_device(std::string_view device) {
  Defaults inner = defaults_;
  inner.device = DeviceName::parse(device).or_else(DeviceName::parse(defaults_.device)).to_string();
  return {*this, std::move(inner)};
}

Graph::ScopedDefaults Graph::after(std::vector<Output> controls) {
  Defaults inner = defaults_;
  for (const Output& c : controls) inner.controls.push_back(c.node);
  return {*this, std::move(inner)};
}

std::string Graph::unique_name(std::string_view base) {
  const std::string prefix = defaults_.scope + std::string(base);
  int& counter = name_counters_[prefix];
  std::string candidate = prefix;
  while (by_name_.contains(candidate)) candidate = prefix + "_" + std::to_string(++counter);
  return candidate;
}

std::string Graph::dump() const {
  std::string text;
  for (const auto& n : nodes_) {
    text += n->name + " = " + n->op->name + "(";
    std::string separator;
    for (const Endpoint& e : n->inputs) {
      text += separator + node(e.node).name;
      if (e.index) text.append(1, ':').append(std::to_string(e.index));
      separator = ", ";
    }
    for (int c : n->controls) {
      text += separator + "^" + node(c).name;
      separator = ", ";
    }
    text += ")";
    for (const auto& [key, value] : n->attributes.all()) text += fmt::format(" {}={}", key, to_string(value));
    for (std::size_t i = 0; i < n->output_types.size(); ++i)
      text += fmt::format("{}{}{}", i == 0 ? " -> " : ", ", troupe::name(n->output_types[i]),
                          n->output_shapes[i].to_string());
    if (!n->device.empty()) text += " @ " + n->device;
    text += "\n";
  }
  for (const auto& [name, f] : functions_) text += "function " + name + ":\n" + f.body->dump();
  return text;
}

}  // namespace troupe
