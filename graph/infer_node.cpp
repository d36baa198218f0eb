#include "troupe/graph/infer_node.hpp"

#include <algorithm>
#include <map>

#include <troupe/graph/known_values.hpp>

namespace troupe {
namespace {

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
  // Inputs left for a list: all but those of the single arguments after it.
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
    invalid_argument("input '{}' is {}, but {} is {}: they must have the same dtype, use cast()", arg.name, name(dtype),
                     with, name(attributes_.dtype(arg.type_attr)));
  }

  const OpDef& op_;
  Attributes& attributes_;
  std::span<const DType> given_;
  std::size_t next_ = 0;
  std::map<std::string, std::string> deduced_from_;  // type attributes that no caller gave, by the input that set them
};

// "f32, f64 or i32".
std::string one_of(const std::vector<DType>& types) {
  std::string text;
  for (std::size_t i = 0; i < types.size(); ++i)
    text += (i == 0 ? "" : i + 1 == types.size() ? " or " : ", ") + std::string(name(types[i]));
  return text;
}

// Names the input that determines the dtype: most callers do not know the attribute.
[[noreturn]] void refuse_dtype(const OpDef& op, const AttrDef& attr, DType dtype) {
  const auto input = std::ranges::find(op.inputs, attr.name, &ArgDef::type_attr);
  if (input == op.inputs.end())
    invalid_argument("attribute '{}' is {}, but must be {}", attr.name, name(dtype), one_of(attr.allowed));
  invalid_argument("input '{}' is {}, but must be {}: use cast()", input->name, name(dtype), one_of(attr.allowed));
}

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
      refuse_dtype(op, attr, *dtype);
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
  NodeShapeContext(const NodeInputs& inputs, Node& node) : inputs_(inputs), node_(node) {}
  int num_inputs() const override { return inputs_.count(); }
  const Shape& input(int index) const override { return inputs_.shape(index); }
  DType input_dtype(int index) const override { return inputs_.dtype(index); }
  const Tensor* constant(int index) const override { return inputs_.constant(index); }
  std::optional<KnownIntegers> integers(int index) const override { return inputs_.integers(index); }
  const Attributes& attributes() const override { return node_.attributes; }
  int num_outputs() const override { return static_cast<int>(node_.output_types.size()); }
  void set_output(int index, Shape shape) override { node_.output_shapes.at(static_cast<std::size_t>(index)) = shape; }

 private:
  const NodeInputs& inputs_;
  Node& node_;
};

class GraphInputs final : public NodeInputs {
 public:
  GraphInputs(const Graph& graph, const Node& node) : graph_(graph), node_(node) {}
  int count() const override { return static_cast<int>(node_.inputs.size()); }
  DType dtype(int index) const override { return graph_.dtype(endpoint(index)); }
  const Shape& shape(int index) const override { return graph_.shape(endpoint(index)); }
  const Tensor* constant(int index) const override {
    const Node& source = graph_.node(endpoint(index).node);
    return source.op->role == OpRole::constant ? &source.attributes.tensor("value") : nullptr;
  }
  std::optional<KnownIntegers> integers(int index) const override { return known_integers(graph_, endpoint(index)); }

 private:
  Endpoint endpoint(int index) const { return node_.inputs.at(static_cast<std::size_t>(index)); }
  const Graph& graph_;
  const Node& node_;
};

}  // namespace

void infer_node(const NodeInputs& inputs, Node& node) {
  const OpDef& op = *node.op;
  std::vector<DType> types;
  for (int i = 0; i < inputs.count(); ++i) types.push_back(inputs.dtype(i));
  InputMatcher(op, node.attributes, types).match();
  check_attributes(op, node.attributes);
  node.output_types = output_types(op, node.attributes);
  node.output_shapes.assign(node.output_types.size(), Shape::unknown_rank());
  NodeShapeContext context(inputs, node);
  if (op.shape) op.shape(context);
}

void infer_node(const Graph& graph, Node& node) { infer_node(GraphInputs(graph, node), node); }

}  // namespace troupe
