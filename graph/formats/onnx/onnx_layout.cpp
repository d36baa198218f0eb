// ONNX's ops that slice, pad, repeat and reorder tensors.
#include <algorithm>
#include <limits>
#include <set>

#include <troupe/graph/formats/onnx/onnx_node.hpp>
#include <troupe/graph/known_values.hpp>

namespace troupe {
namespace {

constexpr std::int64_t kToEnd = std::numeric_limits<std::int64_t>::max();

// A list of integers: input `index` or, in earlier opsets, an attribute. None if neither is there.
std::optional<IntegersArg> list_of(OnnxNode& node, int index, std::string_view attribute) {
  if (node.has(index)) {
    const Output list = cast(node.in(index), DType::i64);
    return IntegersArg(list.shape().is_scalar() ? reshape(list, Shape{1}) : list);  // some models have one number
  }
  if (node.has_attr(attribute)) return IntegersArg(node.integers(attribute));
  return std::nullopt;
}
IntegersArg needed_list(OnnxNode& node, int index, std::string_view attribute) {
  const auto list = list_of(node, index, attribute);
  if (!list) invalid_argument("input {} ({}) is missing", index, attribute);
  return *list;
}

// Bounds of all dimensions that are certainly inside of x, as slice() takes them; none for others.
struct InnerSlice {
  Integers begin, size;
};
std::optional<InnerSlice> inner_slice(OnnxNode& node) {
  const Shape& x = node.in(0).shape();
  const auto known = [&](int input) -> std::optional<Integers> {
    if (!node.has(input) || !node.known(input)) return std::nullopt;
    return node.integers_in(input, "the bounds");
  };
  const auto starts = known(1), ends = known(2), axes = known(3);
  if (!x.has_rank() || !starts || !ends || node.has(4) || node.has(3) != axes.has_value()) return std::nullopt;
  const auto rank = static_cast<std::size_t>(x.rank());
  InnerSlice out{Integers(rank, 0), Integers(rank, -1)};
  std::set<std::int64_t> seen;
  for (std::size_t i = 0; i < starts->size(); ++i) {
    if (i >= ends->size() || (axes && i >= axes->size())) return std::nullopt;
    const std::int64_t given = axes ? (*axes)[i] : static_cast<std::int64_t>(i), begin = (*starts)[i], end = (*ends)[i];
    const std::int64_t axis = given < 0 ? given + x.rank() : given;
    if (axis < 0 || axis >= x.rank() || !seen.insert(axis).second) return std::nullopt;
    const std::int64_t size = x[static_cast<int>(axis)];
    const bool open = end == kToEnd;
    if (begin == 0 && open) continue;
    if (size == kUnknown || begin < 0 || begin > size || (!open && (end < begin || end > size))) return std::nullopt;
    out.begin[static_cast<std::size_t>(axis)] = begin;
    out.size[static_cast<std::size_t>(axis)] = open ? -1 : end - begin;
  }
  return out;
}

void slice_node(OnnxNode& node) {
  if (const auto inner = inner_slice(node)) return node.set(slice(node.in(0), inner->begin, inner->size));
  StridedSliceOptions options{.strides = list_of(node, 4, "steps"), .axes = list_of(node, 3, "axes")};
  const IntegersArg begin = needed_list(node, 1, "starts");
  node.set(strided_slice(node.in(0), begin, needed_list(node, 2, "ends"), std::move(options)));
}

// Sizes of `parts` parts of x along the axis, the last of which may be smaller: [parts].
IntegersArg uneven_sizes(Output x, std::int64_t axis, std::int64_t parts) {
  const Output size = strided_slice(shape_of(x), axis, axis == -1 ? kToEnd : axis + 1);
  const Output number = constant(*x.graph, Tensor::vector<std::int64_t>({parts}));
  const Output part = (size + static_cast<double>(parts - 1)) / number;
  const Output front = tile(part, parts - 1);
  const Output last = size - part * static_cast<double>(parts - 1);
  return concat({front, last}, 0);
}

// Whether all parts have the same size, and are the whole axis.
bool are_even(const OnnxNode& node, std::int64_t axis, const Integers& sizes) {
  const Shape& x = node.in(0).shape();
  if (!x.has_rank() || axis < -x.rank() || axis >= x.rank() || sizes.empty()) return false;
  return std::ranges::count(sizes, sizes[0]) == std::ssize(sizes) &&
         x[static_cast<int>(axis)] == sizes[0] * std::ssize(sizes);
}

void split_node(OnnxNode& node) {
  const std::int64_t axis = node.integer("axis", 0), parts = node.num_outputs();
  const auto sizes = list_of(node, 1, "split");
  Outputs out;
  const auto known = node.has(1) ? node.known(1) : std::nullopt;
  const Integers all = known ? node.integers_in(1, "the sizes") : node.integers("split", Integers{});
  if (std::ssize(all) == parts && are_even(node, axis, all)) {
    out = split(node.in(0), axis, parts);
  } else if (sizes && sizes->count() == kUnknown) {
    const Output list = reshape(cast(node.in(1), DType::i64), Shape{parts});
    out = split_sizes(node.in(0), axis, list);
  } else if (sizes) {
    out = split_sizes(node.in(0), axis, *sizes);
  } else {
    const Shape& x = node.in(0).shape();
    const bool known = x.has_rank() && axis >= -x.rank() && axis < x.rank() && x[static_cast<int>(axis)] != kUnknown;
    const bool even = node.opset() < 18 || parts == 1 || (known && x[static_cast<int>(axis)] % parts == 0);
    out = even ? split(node.in(0), axis, parts) : split_sizes(node.in(0), axis, uneven_sizes(node.in(0), axis, parts));
  }
  for (int i = 0; i < std::min(node.num_outputs(), static_cast<int>(out.size())); ++i)
    node.set(i, out[static_cast<std::size_t>(i)]);
}

// The pads of all dimensions from those of `axes` (opset 18).
IntegersArg pads_of_axes(OnnxNode& node, const IntegersArg& pads) {
  const Shape& x = node.in(0).shape();
  if (!x.has_rank()) fail(Code::unimplemented, "pads of some axes need a known rank");
  const Integers axes = node.integers_in(3, "the axes of a pad");
  const auto count = std::ssize(axes);
  const Output list = pads.in(node.in(0)), none = constant<std::int64_t>(node.graph(), {0});
  Outputs all(static_cast<std::size_t>(2 * x.rank()), none);
  for (std::int64_t i = 0; i < 2 * count; ++i) {
    const std::int64_t axis = axes[static_cast<std::size_t>(i % count)];
    const std::int64_t at = (axis < 0 ? axis + x.rank() : axis) + (i < count ? 0 : x.rank());
    if (at < 0 || at >= std::ssize(all)) invalid_argument("axis {} is out of range for {}", axis, x.to_string());
    all[static_cast<std::size_t>(at)] = slice(list, {i}, {1});
  }
  return concat(all, 0);
}

void pad_node(OnnxNode& node) {
  PadOptions options{.mode = parse_pad_mode(node.string("mode", "constant")), .value = node.real("value", 0)};
  if (node.has(2)) options.value_tensor = as_scalar(node.in(2));
  IntegersArg pads = needed_list(node, 1, node.has_attr("paddings") ? "paddings" : "pads");
  if (node.has(3)) pads = pads_of_axes(node, pads);
  node.set(pad_list(node.in(0), pads, std::move(options)));
}

// In opset 1 the inputs are a number of tiles and an axis.
void tile_node(OnnxNode& node) {
  if (node.num_inputs() < 3) return node.set(tile(node.in(0), node.in(1)));
  const Integers tiles = node.integers_in(1, "the number of tiles"), axis = node.integers_in(2, "the axis of a tile");
  const Shape& x = node.in(0).shape();
  if (!x.has_rank() || tiles.size() != 1 || axis.size() != 1 || axis[0] < 0 || axis[0] >= x.rank())
    invalid_argument("tiles along an axis of {}", x.to_string());
  Integers multiples(static_cast<std::size_t>(x.rank()), 1);
  multiples[static_cast<std::size_t>(axis[0])] = tiles[0];
  node.set(tile(node.in(0), multiples));
}

void expand_node(OnnxNode& node) { node.set(broadcast_to(node.in(0), node.in(1))); }

// Null if the input is no ExpandDims along the same axes, which this undoes.
const Node* undone_by(const OnnxNode& node) {
  const Node& source = node.in(0).source();
  if (source.op->name != "ExpandDims" || !node.has(1)) return nullptr;
  const auto made = known_tensor(node.graph(), source.inputs[1]), removed = node.known(1);
  return made && removed && bitwise_equal(*made, *removed) ? &source : nullptr;
}

void squeeze_node(OnnxNode& node) {
  if (const Node* made = undone_by(node))
    return node.set({node.in(0).graph, made->inputs[0].node, made->inputs[0].index});
  const auto axes = list_of(node, 1, "axes");
  node.set(axes ? squeeze(node.in(0), *axes) : squeeze(node.in(0)));
}
void unsqueeze_node(OnnxNode& node) { node.set(expand_dims(node.in(0), needed_list(node, 1, "axes"))); }
void flatten_node(OnnxNode& node) { node.set(flatten(node.in(0), node.integer("axis", 1))); }

void one_hot_node(OnnxNode& node) {
  const Output indices = node.in(0).dtype() == DType::i32 ? node.in(0) : cast(node.in(0), DType::i64);
  const Output depth = as_scalar(cast(node.in(1), DType::i64));
  node.set(one_hot(indices, depth, {.values = node.in(2), .axis = node.integer("axis", -1)}));
}

void range_node(OnnxNode& node) {
  const Output start = as_scalar(node.in(0)), limit = as_scalar(node.in(1));
  node.set(range(start, limit, as_scalar(node.in(2))));
}

void constant_of_shape_node(OnnxNode& node) {
  const Tensor value = node.has_attr("value") ? node.tensor("value") : Tensor::scalar(0.0f);
  if (value.num_elements() != 1) invalid_argument("attribute 'value' has {} elements, not 1", value.num_elements());
  node.set(fill(node.in(0), constant(node.graph(), value.reshaped(Shape{}))));
}

void eye_like_node(OnnxNode& node) {
  const Output x = node.in(0), shape = shape_of(x);
  const Outputs sizes = split(shape, 0, 2);
  const Output rows = as_scalar(sizes[0]);
  node.set(eye(rows, as_scalar(sizes[1]), {.dtype = node.dtype("dtype", x.dtype()), .k = node.integer("k", 0)}));
}

void trilu_node(OnnxNode& node) {
  const IntegersArg k = node.has(1) ? IntegersArg(as_scalar(cast(node.in(1), DType::i64))) : IntegersArg(0);
  node.set(node.integer("upper", 1) != 0 ? triu(node.in(0), k) : tril(node.in(0), k));
}

void reverse_sequence_node(OnnxNode& node) {
  node.set(reverse_sequence(node.in(0), node.in(1),
                            {.seq_axis = node.integer("time_axis", 0), .batch_axis = node.integer("batch_axis", 1)}));
}

void depth_to_space_node(OnnxNode& node) {
  node.set(
      depth_to_space(node.in(0), node.integer("blocksize"), {.column_first = node.string("mode", "DCR") == "CRD"}));
}
void space_to_depth_node(OnnxNode& node) { node.set(space_to_depth(node.in(0), node.integer("blocksize"))); }

// Crops or pads axes to given sizes, around the centre (opset 18).
void center_crop_pad_node(OnnxNode& node) {
  const Output x = node.in(0), wanted = cast(node.in(1), DType::i64);
  const Shape& shape = x.shape();
  if (!shape.has_rank()) fail(Code::unimplemented, "the rank must be known");
  Integers axes = node.integers("axes", Integers{});
  if (axes.empty())
    for (int d = 0; d < shape.rank(); ++d) axes.push_back(d);
  const Output sizes = shape_of(x), two = constant<std::int64_t>(node.graph(), {2});
  const Output none = constant<std::int64_t>(node.graph(), {0});
  Outputs pads(static_cast<std::size_t>(2 * shape.rank()), none);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::int64_t axis = axes[i] < 0 ? axes[i] + shape.rank() : axes[i];
    if (axis < 0 || axis >= shape.rank())
      invalid_argument("axis {} is out of range for {}", axes[i], shape.to_string());
    const Output size = slice(sizes, {axis}, {1});
    const Output added = slice(wanted, {static_cast<std::int64_t>(i)}, {1}) - size;
    // The lesser half goes before, of elements added as of those cropped.
    const Output grown = div(maximum(added, none), two);
    const Output cropped = div(maximum(-added, none), two);
    const Output before = grown - cropped;
    pads[static_cast<std::size_t>(axis)] = before;
    pads[static_cast<std::size_t>(axis + shape.rank())] = added - before;
  }
  node.set(pad_list(x, concat(pads, 0)));
}

constexpr OnnxOp kLayoutOps[] = {
    {"CenterCropPad", center_crop_pad_node},
    {"ConstantOfShape", constant_of_shape_node},
    {"DepthToSpace", depth_to_space_node},
    {"Expand", expand_node},
    {"EyeLike", eye_like_node},
    {"Flatten", flatten_node},
    {"OneHot", one_hot_node},
    {"Pad", pad_node},
    {"Range", range_node},
    {"ReverseSequence", reverse_sequence_node},
    {"Slice", slice_node},
    {"SpaceToDepth", space_to_depth_node},
    {"Split", split_node},
    {"Squeeze", squeeze_node},
    {"Tile", tile_node},
    {"Trilu", trilu_node},
    {"Unsqueeze", unsqueeze_node},
};

}  // namespace

std::span<const OnnxOp> onnx_layout_ops() { return kLayoutOps; }

}  // namespace troupe
