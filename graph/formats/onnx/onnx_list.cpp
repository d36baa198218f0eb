// ONNX's sequences and optional values, which are lists of tensors.
#include <troupe/graph/formats/onnx/onnx_node.hpp>

namespace troupe {
namespace {

constexpr auto kSequence = OnnxType::List::sequence;
constexpr auto kOptional = OnnxType::List::optional;

// Item `index` of a list of the type.
void set_item(OnnxNode& node, Output list, const OnnxType& type, Output index) {
  if (!type.is_list()) invalid_argument("input 0 is a tensor, not a list");
  const OnnxType item = type.item();
  if (item.is_list()) return node.set(0, list_get(list, index, DType::list, Shape{}), item);
  const Shape shape = item.shape.has_rank() ? item.shape : node.declared_shape(0);
  node.set(list_get(list, index, item.dtype, shape));
}

OnnxType list_type(const OnnxNode& node, int input) {
  const OnnxType& type = node.type(input);
  if (!type.is_list()) invalid_argument("input {} is a tensor, not a list", input);
  return type;
}

Output index_in(const OnnxNode& node, int input) { return as_scalar(cast(node.in(input), DType::i64)); }

OnnxType merged(OnnxType list, const OnnxType& item) {
  if (list.dtype == DType::invalid) list.dtype = item.dtype;
  if (list.dtype != item.dtype)
    invalid_argument("a list of tensors of {} cannot hold one of {}", name(list.dtype), name(item.dtype));
  if (list.shape != item.shape) list.shape = Shape::unknown_rank();
  return list;
}

void sequence_construct(OnnxNode& node) {
  OnnxType type = node.type(0);
  for (int i = 1; i < node.num_inputs(); ++i) type = merged(type, node.type(i));
  node.set(0, list_of(node.graph(), node.all_inputs()), type.list_of(kSequence));
}

void sequence_empty(OnnxNode& node) {
  const OnnxType item{{}, node.dtype("dtype", DType::f32), Shape::unknown_rank()};
  node.set(0, list_of(node.graph(), {}), item.list_of(kSequence));
}

void sequence_insert(OnnxNode& node) {
  OnnxType type = list_type(node, 0);
  const std::vector<OnnxType::List> lists = type.lists;
  type = merged(type, node.type(1));
  type.shape = Shape::unknown_rank();  // items that the list has may be of any shape
  Output at{};
  if (node.has(2)) {  // below 0: counted from the end, before the last item for -1
    at = index_in(node, 2);
    const auto known = node.known(2);
    if (!known || known->num_elements() != 1 || !is_integer(known->dtype()))
      at = select(less(at, scalar_like(at, 0)), add(at, list_size(node.in(0))), at);
    else if (node.integers_in(2, "the position")[0] < 0)
      at = add(at, list_size(node.in(0)));
  }
  node.set(0, list_insert(node.in(0), node.in(1), at), type);
}

void sequence_erase(OnnxNode& node) {
  node.set(0, list_erase(node.in(0), node.has(1) ? index_in(node, 1) : Output{}), list_type(node, 0));
}

void sequence_at(OnnxNode& node) { set_item(node, node.in(0), node.type(0), index_in(node, 1)); }

void sequence_length(OnnxNode& node) { node.set(list_size(node.in(0))); }

void concat_from_sequence(OnnxNode& node) {
  const OnnxType type = list_type(node, 0);
  const std::int64_t axis = node.integer("axis");
  if (node.integer("new_axis", 0) == 0) return node.set(list_concat(node.in(0), axis, type.dtype));
  Shape item = type.shape;
  const Shape stacked = node.declared_shape(0);
  if (!item.has_rank() && stacked.has_rank() && stacked.rank() > 0 && axis == 0) item = stacked.sub(1, stacked.rank());
  const Output rows = list_stack(node.in(0), type.dtype, item);
  if (axis == 0) return node.set(rows);
  if (!rows.shape().has_rank()) fail(Code::unimplemented, "a new axis other than 0 needs items of known rank");
  const std::int64_t rank = rows.shape().rank(), at = axis < 0 ? axis + rank : axis;
  if (at < 0 || at >= rank) invalid_argument("axis {} is outside of rank {}", axis, rank);
  Integers perm;
  for (std::int64_t d = 1; d < rank; ++d) perm.push_back(d);
  perm.insert(perm.begin() + at, 0);
  node.set(transpose(rows, perm));
}

// ---- SplitToSequence

// Parts of x along `axis` as a list, of sizes that are known only when the graph runs: `size(i)` rows each.
Output list_of_parts(Output x, std::int64_t axis, Output count,
                     const std::function<Output(Output i, Output begin)>& size, bool squeezed) {
  const std::int64_t rank = x.shape().rank();
  Integers front{axis}, back;
  for (std::int64_t d = 0; d < rank; ++d)
    if (d != axis) front.push_back(d);
  for (std::int64_t d = 1; d < rank; ++d) back.push_back(d);
  back.insert(back.begin() + axis, 0);
  const Output rows = axis == 0 ? x : transpose(x, front);
  Graph& graph = *x.graph;
  const Output list = list_of(graph, {}), begin = constant<std::int64_t>(graph, 0);
  return for_loop(count,
                  [&](Output i, const Outputs& v) {
                    if (squeezed) return Outputs{list_insert(v[0], gather(rows, i)), v[1]};
                    const Output end = add(v[1], size(i, v[1]));
                    const Output part = gather(rows, range(v[1], end, constant<std::int64_t>(*i.graph, 1)));
                    return Outputs{list_insert(v[0], axis == 0 ? part : transpose(part, back)), end};
                  },
                  {list, begin})[0];
}

void split_to_sequence(OnnxNode& node) {
  const Output x = node.in(0);
  if (!x.shape().has_rank()) fail(Code::unimplemented, "splitting a tensor of unknown rank is not supported");
  const std::int64_t rank = x.shape().rank(), given = node.integer("axis", 0);
  const std::int64_t axis = given < 0 ? given + rank : given;
  if (axis < 0 || axis >= rank) invalid_argument("axis {} is outside of rank {}", given, rank);
  const bool squeezed = !node.has(1) && node.integer("keepdims", 1) == 0;
  OnnxType type{{}, x.dtype(), x.shape()};
  type.shape.set_dim(static_cast<int>(axis), node.has(1) ? kUnknown : 1);
  if (squeezed) type.shape = type.shape.without(static_cast<int>(axis));
  type = type.list_of(kSequence);
  Graph& graph = node.graph();
  const Output one = constant<std::int64_t>(graph, 1);
  const Output rows = gather(shape_of(x), constant<std::int64_t>(graph, axis));
  const auto of_size = [&](Output size) {  // the last may be smaller
    const Output count = div(sub(add(rows, size), one), size);
    return list_of_parts(
        x, axis, count, [&](Output, Output begin) { return minimum(sub(rows, begin), size); }, squeezed);
  };
  if (!node.has(1)) return node.set(0, of_size(one), type);
  const Output split = cast(node.in(1), DType::i64);
  if (!split.shape().has_rank()) fail(Code::unimplemented, "'split' of unknown rank is not supported");
  if (split.shape().is_scalar()) return node.set(0, of_size(split), type);
  const Output count = element_count(split);
  node.set(0,
           list_of_parts(
               x, axis, count, [&](Output i, Output) { return gather(split, i); }, false),
           type);
}

// ---- SequenceMap

void sequence_map(OnnxNode& node) {
  std::vector<OnnxType> types;
  for (int i = 0; i < node.num_inputs(); ++i) types.push_back(node.type(i));
  if (types.empty() || !types[0].is_list()) invalid_argument("input 0 is not a sequence");
  if (node.num_arguments("body") != node.num_inputs())
    invalid_argument("the body has {} inputs, not {}", node.num_arguments("body"), node.num_inputs());
  std::vector<OnnxType> made_types;
  const LoopStepFn step = [&](Output i, const Outputs&) {
    OnnxNode::Values arguments;
    for (int k = 0; k < node.num_inputs(); ++k) {
      const OnnxType& type = types[static_cast<std::size_t>(k)];
      const OnnxType item = type.is_list() ? type.item() : type;
      const Output value = i.graph->brought_in(node.in(k));
      arguments.outputs.push_back(!type.is_list()  ? value
                                  : item.is_list() ? list_get(value, i, DType::list, Shape{})
                                                   : list_get(value, i, item.dtype, item.shape));
      arguments.types.push_back(item);
    }
    const OnnxNode::Values made = node.build("body", *i.graph, arguments);
    made_types = made.types;
    return LoopStep{.again = constant(*i.graph, true), .values = {}, .items = made.outputs};
  };
  const LoopOutputs made = loop(constant(node.graph(), true), step, {}, {.limit = list_size(node.in(0))});
  for (std::size_t i = 0; i < made.lists.size(); ++i)
    node.set(static_cast<int>(i), made.lists[i], made_types[i].list_of(kSequence));
}

// ---- Optional values

void optional_node(OnnxNode& node) {
  if (node.has(0)) return node.set(0, list_of(node.graph(), {node.in(0)}), node.type(0).list_of(kOptional));
  node.set(0, list_of(node.graph(), {}), node.type_attr("type").list_of(kOptional));
}

bool is_optional(const OnnxType& type) { return type.is_list() && type.lists.front() == kOptional; }

void optional_has_element(OnnxNode& node) {
  if (!node.has(0) || !is_optional(node.type(0))) return node.set(constant(node.graph(), node.has(0)));
  node.set(greater(list_size(node.in(0)), constant<std::int64_t>(node.graph(), 0)));
}

void optional_get_element(OnnxNode& node) {
  if (!is_optional(node.type(0)))
    return node.type(0).is_list() ? node.set(0, node.in(0), node.type(0)) : node.set(identity(node.in(0)));
  set_item(node, node.in(0), node.type(0), constant<std::int64_t>(node.graph(), 0));
}

constexpr OnnxOp kListOps[] = {
    {"ConcatFromSequence", concat_from_sequence},
    {"Optional", optional_node},
    {"OptionalGetElement", optional_get_element},
    {"OptionalHasElement", optional_has_element},
    {"SequenceAt", sequence_at},
    {"SequenceConstruct", sequence_construct},
    {"SequenceEmpty", sequence_empty},
    {"SequenceErase", sequence_erase},
    {"SequenceInsert", sequence_insert},
    {"SequenceLength", sequence_length},
    {"SequenceMap", sequence_map},
    {"SplitToSequence", split_to_sequence},
};

}  // namespace

std::span<const OnnxOp> onnx_list_ops() { return kListOps; }

}  // namespace troupe
