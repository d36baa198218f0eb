// TensorFlow's constants, variables, shapes, slices and joins.
#include <troupe/graph/formats/saved_model/node.hpp>

namespace troupe {
namespace {

void tf_const(TfNode& node) { node.set(constant(node.graph(), node.tensor("value"))); }

void tf_read_variable(TfNode& node) {
  const TfResource& found = node.resource(0);
  if (!found.read) invalid_argument("{} is no variable", found.name);
  node.set(node.graph().brought_in(found.read()));
}

void tf_shape(TfNode& node) { node.set(cast(shape_of(node.in(0)), node.dtype("out_type", DType::i32))); }
void tf_variable_shape(TfNode& node) {
  tf_read_variable(node);
  const Output value = node.take_outputs()[0].output;
  node.set(cast(shape_of(value), node.dtype("out_type", DType::i32)));
}
void tf_size(TfNode& node) { node.set(cast(element_count(node.in(0)), node.dtype("out_type", DType::i32))); }
void tf_rank(TfNode& node) {
  const Output x = node.in(0);
  if (x.shape().has_rank()) return node.set(constant<std::int32_t>(node.graph(), x.shape().rank()));
  node.set(cast(element_count(shape_of(x)), DType::i32));
}

// A shape that is known in part keeps what is.
void tf_reshape(TfNode& node) { node.set(reshape(node.in(0), node.index_in(1).in(node.in(0)))); }
void tf_expand_dims(TfNode& node) { node.set(expand_dims(node.in(0), node.integer_in(1, "the axis"))); }
void tf_squeeze(TfNode& node) {
  node.set(squeeze(node.in(0), node.integers(node.has_attr("squeeze_dims") ? "squeeze_dims" : "axis")));
}
void tf_transpose(TfNode& node) { node.set(transpose(node.in(0), node.integers_in(1, "the order of dimensions"))); }
void tf_fill(TfNode& node) { node.set(fill(node.index_in(0).in(node.in(1)), node.in(1))); }
void tf_range(TfNode& node) { node.set(range(node.in(0), node.in(1), node.in(2))); }
void tf_lin_space(TfNode& node) { node.set(linspace(node.in(0), node.in(1), node.integer_in(2, "the number"))); }
void tf_tile(TfNode& node) { node.set(tile(node.in(0), node.index_in(1))); }
void tf_broadcast_to(TfNode& node) { node.set(broadcast_to(node.in(0), node.index_in(1))); }

void tf_pack(TfNode& node) { node.set(stack(node.in(0, node.num_inputs()), node.integer("axis", 0))); }
void tf_unpack(TfNode& node) { node.set_all(unstack(node.in(0), node.integer("axis", 0))); }
void tf_concat(TfNode& node) {
  const int axis = node.num_inputs() - 1;
  if (axis < 1) fail(Code::data_loss, "there is nothing to join");
  if (axis == 1) return node.set(identity(node.in(0)));
  node.set(concat(node.in(0, axis), node.integer_in(axis, "the axis")));
}
void tf_split(TfNode& node) {
  node.set_all(split(node.in(1), node.integer_in(0, "the axis"), node.integer("num_split")));
}
void tf_split_sizes(TfNode& node) {
  const Output x = node.in(0);
  Integers sizes = node.integers_in(1, "the sizes");
  const std::int64_t axis = node.integer_in(2, "the axis");
  for (std::int64_t& size : sizes) {  // -1: what is left
    if (size >= 0) continue;
    const int rank = x.shape().rank();
    if (axis < -rank || axis >= rank || x.shape()[static_cast<int>(axis)] == kUnknown)
      fail(Code::unimplemented, "the size of a part must be known, but is -1");
    size = x.shape()[static_cast<int>(axis)] + 1;
    for (const std::int64_t other : sizes) size -= &other == &size ? 0 : other;
    break;
  }
  node.set_all(split_sizes(x, axis, sizes));
}

void tf_slice(TfNode& node) { node.set(slice(node.in(0), node.index_in(1), node.index_in(2))); }
void tf_strided_slice(TfNode& node) {
  StridedSliceOptions options;
  options.strides = node.index_in(3);
  const auto mask = [&](const char* name) { return static_cast<std::uint64_t>(node.integer(name, 0)); };
  options.begin_mask = mask("begin_mask");
  options.end_mask = mask("end_mask");
  options.ellipsis_mask = mask("ellipsis_mask");
  options.new_axis_mask = mask("new_axis_mask");
  options.shrink_axis_mask = mask("shrink_axis_mask");
  node.set(strided_slice(node.in(0), node.index_in(1), node.index_in(2), std::move(options)));
}

// Pads [rank,2]: before and after each dimension.
struct TfPads {
  Integers before{}, after{};
};
TfPads tf_pads(const TfNode& node) {
  const Integers pads = node.integers_in(1, "the padding");
  TfPads out;
  for (std::size_t i = 0; i + 1 < pads.size(); i += 2) {
    out.before.push_back(pads[i]);
    out.after.push_back(pads[i + 1]);
  }
  return out;
}
void tf_pad(TfNode& node) {
  const TfPads pads = tf_pads(node);
  PadOptions options;
  if (node.num_inputs() > 2) options.value_tensor = node.in(2);
  node.set(pad(node.in(0), pads.before, pads.after, options));
}
void tf_mirror_pad(TfNode& node) {
  const std::string mode = node.string("mode", "");
  if (mode != "REFLECT" && mode != "SYMMETRIC")
    fail(Code::unimplemented, "padding of mode '{}' is not supported", mode);
  const TfPads pads = tf_pads(node);
  node.set(
      pad(node.in(0), pads.before, pads.after, {.mode = mode == "REFLECT" ? PadMode::reflect : PadMode::symmetric}));
}
void tf_reverse(TfNode& node) { node.set(reverse(node.in(0), node.integers_in(1, "the axes"))); }
void tf_reverse_sequence(TfNode& node) {
  node.set(reverse_sequence(node.in(0), cast(node.in(1), DType::i64),
                            {.seq_axis = node.integer("seq_dim"), .batch_axis = node.integer("batch_dim", 0)}));
}
DepthOptions depth_options(const TfNode& node) {
  if (node.string("data_format", "NHWC") != "NHWC") fail(Code::unimplemented, "channels must be last");
  return {.channels_last = true};
}
void tf_depth_to_space(TfNode& node) {
  node.set(depth_to_space(node.in(0), node.integer("block_size"), depth_options(node)));
}
void tf_space_to_depth(TfNode& node) {
  node.set(space_to_depth(node.in(0), node.integer("block_size"), depth_options(node)));
}
void tf_roll(TfNode& node) {
  node.set(roll(node.in(0), node.integers_in(1, "the shifts"), node.integers_in(2, "the axes")));
}
void tf_band_part(TfNode& node) {
  node.set(band_part(node.in(0), node.integer_in(1, "the lower bound"), node.integer_in(2, "the upper bound")));
}

// Pads or crops [dimensions,2] as ours are: those before, then those after.
IntegersArg block_pads(const TfNode& node) {
  const Integers pairs = node.integers_in(2, "the padding");
  Integers out;
  for (const std::size_t side : {std::size_t{0}, std::size_t{1}})
    for (std::size_t i = side; i < pairs.size(); i += 2) out.push_back(pairs[i]);
  return out;
}
void tf_space_to_batch(TfNode& node) {
  node.set(space_to_batch(node.in(0), node.integers_in(1, "the block"), block_pads(node)));
}
void tf_batch_to_space(TfNode& node) {
  node.set(batch_to_space(node.in(0), node.integers_in(1, "the block"), block_pads(node)));
}

constexpr TfOp kTfArrayOps[] = {
    {"BatchToSpaceND", tf_batch_to_space},
    {"BroadcastTo", tf_broadcast_to},
    {"ConcatV2", tf_concat},
    {"Const", tf_const},
    {"DepthToSpace", tf_depth_to_space},
    {"ExpandDims", tf_expand_dims},
    {"Fill", tf_fill},
    {"LinSpace", tf_lin_space},
    {"MatrixBandPart", tf_band_part},
    {"MirrorPad", tf_mirror_pad},
    {"Pack", tf_pack},
    {"Pad", tf_pad},
    {"PadV2", tf_pad},
    {"Range", tf_range},
    {"Rank", tf_rank},
    {"ReadVariableOp", tf_read_variable},
    {"Reshape", tf_reshape},
    {"ReverseSequence", tf_reverse_sequence},
    {"ReverseV2", tf_reverse},
    {"Roll", tf_roll},
    {"Shape", tf_shape},
    {"Size", tf_size},
    {"Slice", tf_slice},
    {"SpaceToBatchND", tf_space_to_batch},
    {"SpaceToDepth", tf_space_to_depth},
    {"Split", tf_split},
    {"SplitV", tf_split_sizes},
    {"Squeeze", tf_squeeze},
    {"StridedSlice", tf_strided_slice},
    {"Tile", tf_tile},
    {"Transpose", tf_transpose},
    {"Unpack", tf_unpack},
    {"VariableShape", tf_variable_shape},
};

}  // namespace

std::span<const TfOp> tensorflow_array_ops() { return kTfArrayOps; }

}  // namespace troupe
