// Ops that make, move and reshape tensors, as TensorFlow's.
#include <algorithm>
#include <limits>

#include <troupe/graph/formats/saved_model/export_node.hpp>

namespace troupe {
namespace {

// ---- shapes

void write_tf_reshape(TfExportNode& node) {
  TfName shape = node.in(1);
  const auto known = node.known_integers(1);
  const bool zeros = !known || std::ranges::count(*known, 0) > 0;
  if (node.attributes().boolean("copy_zeros") && zeros) {  // 0 is the dimension of x in that place
    const Shape& dims = node.shape(1);
    if (!dims.fully_known()) fail(Code::unimplemented, "the rank of its result must be known");
    const TfName is_zero = node.add("Equal", {shape, node.integer(0)});
    Integers ones(static_cast<std::size_t>(dims[0]), 1);
    const TfName padded = node.joined({node.shape_of(node.in(0)), node.integers(ones)});
    const TfName own = node.add("Slice", {padded, node.integers({0}), node.integers({dims[0]})});
    shape = node.add("SelectV2", {is_zero, own, shape});
  }
  node.set(node.add("Reshape", {node.in(0), shape}));
}
void write_tf_squeeze(TfExportNode& node) {
  const Integers axes = node.integers_in(1, "its axes");
  node.set(node.add("Squeeze", {node.in(0)}, {{"squeeze_dims", axes}}));
}
void write_tf_expand_dims(TfExportNode& node) {
  Integers axes = node.integers_in(1, "its axes");
  const int rank = node.output_shape().has_rank() ? node.output_shape().rank() : -1;
  for (std::int64_t& axis : axes) {
    if (axis < 0 && rank < 0 && axes.size() > 1) fail(Code::unimplemented, "the rank of its input must be known");
    if (axis < 0 && rank >= 0) axis += rank;
  }
  std::ranges::sort(axes);
  TfName y = node.in(0);
  for (const std::int64_t axis : axes) y = node.add("ExpandDims", {y, node.integer(axis)});
  node.set(axes.empty() ? node.add("Identity", {y}) : y);
}
void write_tf_broadcast_to(TfExportNode& node) { node.set(node.add("BroadcastTo", {node.in(0), node.in(1)})); }
void write_tf_transpose(TfExportNode& node) {
  Integers perm = node.attributes().integers("perm");
  if (perm.empty())
    for (int d = node.rank(0); d-- > 0;) perm.push_back(d);
  node.set(node.transposed(node.in(0), perm));
}

// ---- joins and parts

void write_tf_concat(TfExportNode& node) {
  TfNames inputs = node.all_inputs();
  if (inputs.size() == 1) return node.set(node.add("Identity", inputs));
  inputs.push_back(node.integer(node.attributes().integer("axis")));
  node.set(node.add("ConcatV2", inputs));
}
void write_tf_stack(TfExportNode& node) {
  node.set(node.add("Pack", node.all_inputs(), {{"axis", node.attributes().integer("axis")}}));
}
void write_tf_unstack(TfExportNode& node) {
  node.set_all(node.add_many("Unpack", {node.in(0)},
                             {{"axis", node.attributes().integer("axis")}, {"num", std::int64_t{node.num_outputs()}}}));
}
void write_tf_split(TfExportNode& node) {
  const TfName axis = node.integer32(static_cast<std::int32_t>(node.attributes().integer("axis")));
  const Attributes number{{"num_split", std::int64_t{node.num_outputs()}}};
  if (node.node().op->name == "Split") return node.set_all(node.add_many("Split", {axis, node.in(0)}, number));
  node.set_all(node.add_many("SplitV", {node.in(0), node.in(1), axis}, number));
}
void write_tf_slice(TfExportNode& node) { node.set(node.add("Slice", node.all_inputs())); }

// Ours names axes; TensorFlow's has an entry for each, and masks for those that stay whole.
void write_tf_strided_slice(TfExportNode& node) {
  const Integers axes = node.integers_in(4, "its axes");
  const auto rank = static_cast<std::size_t>(node.rank(0));
  Integers places;
  std::int64_t whole = (std::int64_t{1} << rank) - 1;
  for (const std::int64_t axis : axes) {
    places.push_back(node.axis_of(axis));
    whole &= ~(std::int64_t{1} << places.back());
  }
  TfNames bounds;
  for (int i = 1; i < 4; ++i) {
    Integers all(rank, i == 3 ? 1 : 0);
    if (const auto known = node.known_integers(i)) {
      for (std::size_t k = 0; k < places.size(); ++k) all[static_cast<std::size_t>(places[k])] = (*known)[k];
      bounds.push_back(node.integers(all));
      continue;
    }
    const TfName at = node.constant(Tensor::of<std::int64_t>(Shape{std::ssize(places), 1}, places));
    bounds.push_back(node.add("TensorScatterUpdate", {node.integers(all), at, node.in(i)}));
  }
  node.set(node.add("StridedSlice", {node.in(0), bounds[0], bounds[1], bounds[2]},
                    {{"begin_mask", whole}, {"end_mask", whole}}));
}

void write_tf_reverse(TfExportNode& node) { node.set(node.add("ReverseV2", node.all_inputs())); }
void write_tf_reverse_sequence(TfExportNode& node) {
  node.set(node.add("ReverseSequence", node.all_inputs(),
                    {{"seq_dim", node.axis_of(node.attributes().integer("seq_axis"))},
                     {"batch_dim", node.axis_of(node.attributes().integer("batch_axis"))}}));
}

// Ours are those before all dimensions, then those after; TensorFlow's are pairs.
TfName pairs_of(const TfExportNode& node, int input, const char* what) {
  if (const auto known = node.known_integers(input)) {
    if (std::ranges::any_of(*known, [](std::int64_t p) { return p < 0; }))
      fail(Code::unimplemented, "{} below 0", what);
    const std::size_t half = known->size() / 2;
    Integers pairs;
    for (std::size_t d = 0; d < half; ++d) pairs.insert(pairs.end(), {(*known)[d], (*known)[d + half]});
    return node.constant(Tensor::of<std::int64_t>(Shape{static_cast<std::int64_t>(half), 2}, pairs));
  }
  return node.transposed(node.add("Reshape", {node.in(input), node.integers({2, -1})}), {1, 0});
}
void write_tf_pad(TfExportNode& node) {
  const std::string& mode = node.attributes().string("mode");
  const TfName pairs = pairs_of(node, 1, "pads");
  if (mode == "constant") {
    const TfName value = node.shape(2) == Shape{} ? node.in(2) : node.add("Reshape", {node.in(2), node.integers({})});
    return node.set(node.add("PadV2", {node.in(0), pairs, value}));
  }
  if (mode != "reflect" && mode != "symmetric") fail(Code::unimplemented, "TensorFlow has no pads of mode '{}'", mode);
  node.set(node.add("MirrorPad", {node.in(0), pairs}, {{"mode", mode == "reflect" ? "REFLECT" : "SYMMETRIC"}}));
}
void write_tf_blocks(TfExportNode& node) {
  const bool to_batch = node.node().op->name == "SpaceToBatch";
  node.set(node.add(to_batch ? "SpaceToBatchND" : "BatchToSpaceND",
                    {node.in(0), node.in(1), pairs_of(node, 2, to_batch ? "pads" : "crops")}));
}
void write_tf_depth(TfExportNode& node) {
  const Attributes& a = node.attributes();
  if (a.string("mode") != "DCR") fail(Code::unimplemented, "TensorFlow has mode DCR only");
  const bool first = a.string("layout") == "NCHW";
  const TfName x = first ? node.transposed(node.in(0), {0, 2, 3, 1}) : node.in(0);
  const TfName y = node.add(node.node().op->name, {x}, {{"block_size", a.integer("block")}});
  node.set(first ? node.transposed(y, {0, 3, 1, 2}) : y);
}
void write_tf_roll(TfExportNode& node) { node.set(node.add("Roll", node.all_inputs())); }
void write_tf_tile(TfExportNode& node) { node.set(node.add("Tile", node.all_inputs())); }

// The triangle on one side of diagonal k, as bands and what is left of them.
void write_tf_trilu(TfExportNode& node) {
  const std::int64_t k = node.integers_in(1, "the diagonal").at(0);
  const bool upper = node.attributes().boolean("upper");
  const auto band = [&](std::int64_t lower, std::int64_t higher) {
    return node.add("MatrixBandPart", {node.in(0), node.integer(lower), node.integer(higher)});
  };
  if (upper ? k <= 0 : k >= 0) return node.set(upper ? band(-k, -1) : band(-1, k));
  const TfName ones = node.add("OnesLike", {node.in(0)});
  const TfName rest =
      node.add("MatrixBandPart", {ones, node.integer(upper ? -1 : -k - 1), node.integer(upper ? k - 1 : -1)});
  const TfName outside = node.add("Equal", {rest, node.number_like(0, 1)});
  node.set(node.add("SelectV2", {outside, node.number_like(0, 0), node.in(0)}));
}

// ---- makers

// Ours counts indices below 0 from the end.
void write_tf_one_hot(TfExportNode& node) {
  const TfName indices = node.cast(node.in(0), DType::i64);
  const TfName depth = node.add("Reshape", {node.in(1), node.integers({})});
  const TfName below = node.add("Less", {indices, node.integer(0)});
  const TfName from_begin = node.add("SelectV2", {below, node.add("AddV2", {indices, depth}), indices});
  const TfNames values = node.add_many("Unpack", {node.in(2)}, {{"num", std::int64_t{2}}});
  node.set(node.add("OneHot", {from_begin, node.cast(depth, DType::i32), values[1], values[0]},
                    {{"axis", node.attributes().integer("axis")}}));
}
void write_tf_fill(TfExportNode& node) { node.set(node.add("Fill", node.all_inputs())); }
void write_tf_range(TfExportNode& node) { node.set(node.add("Range", node.all_inputs())); }

constexpr TfExportOp kTfArrayWriters[] = {
    {"BatchToSpace", write_tf_blocks},
    {"BroadcastTo", write_tf_broadcast_to},
    {"Concat", write_tf_concat},
    {"DepthToSpace", write_tf_depth},
    {"ExpandDims", write_tf_expand_dims},
    {"Fill", write_tf_fill},
    {"OneHot", write_tf_one_hot},
    {"Pad", write_tf_pad},
    {"Range", write_tf_range},
    {"Reshape", write_tf_reshape},
    {"Reverse", write_tf_reverse},
    {"ReverseSequence", write_tf_reverse_sequence},
    {"Roll", write_tf_roll},
    {"Slice", write_tf_slice},
    {"SpaceToBatch", write_tf_blocks},
    {"SpaceToDepth", write_tf_depth},
    {"Split", write_tf_split},
    {"SplitSizes", write_tf_split},
    {"Squeeze", write_tf_squeeze},
    {"Stack", write_tf_stack},
    {"StridedSlice", write_tf_strided_slice},
    {"Tile", write_tf_tile},
    {"Transpose", write_tf_transpose},
    {"Trilu", write_tf_trilu},
    {"Unstack", write_tf_unstack},
};

}  // namespace

std::span<const TfExportOp> tensorflow_array_writers() { return kTfArrayWriters; }

}  // namespace troupe
