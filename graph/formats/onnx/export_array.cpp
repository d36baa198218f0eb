// Ops that make, move and reshape tensors, as ONNX's.
#include <algorithm>
#include <limits>
#include <utility>

#include <troupe/graph/formats/onnx/onnx_export.hpp>

namespace troupe {
namespace {

constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();

// ---- shapes

void write_reshape(OnnxExportNode& node) {
  const std::int64_t allow = node.attributes().boolean("copy_zeros") ? 0 : 1;
  node.set(node.add("Reshape", {node.in(0), node.in(1)}, {{"allowzero", allow}}));
}
void write_reshape_like(OnnxExportNode& node) {
  node.set(node.add("Reshape", {node.in(0), node.add("Shape", {node.in(1)})}, {{"allowzero", std::int64_t{1}}}));
}
void write_squeeze(OnnxExportNode& node) {
  const Shape& axes = node.shape(1);
  if (!axes.fully_known()) fail(Code::unimplemented, "the number of axes must be known");
  OnnxNames inputs{node.in(0)};
  if (axes != Shape{0}) inputs.push_back(node.in(1));
  node.set(node.add("Squeeze", std::move(inputs)));
}
void write_expand_dims(OnnxExportNode& node) { node.set(node.add("Unsqueeze", {node.in(0), node.in(1)})); }
void write_broadcast_to(OnnxExportNode& node) { node.set(node.add("Expand", {node.in(0), node.in(1)})); }
void write_transpose(OnnxExportNode& node) {
  const Integers& perm = node.attributes().integers("perm");
  // A Transpose of images may undo what makes them images.
  if (node.has_images(0) && perm == Integers{0, 3, 1, 2}) return node.set(node.add("Identity", {node.images(0)}));
  if (perm == Integers{0, 2, 3, 1}) return node.set_images(0, node.add("Identity", {node.in(0)}));
  node.set(node.add("Transpose", {node.in(0)}, perm.empty() ? Attributes{} : Attributes{{"perm", perm}}));
}

// ---- joins

void write_concat(OnnxExportNode& node) {
  const std::int64_t axis = node.attributes().integer("axis");
  if (!node.any_images()) return node.set(node.add("Concat", node.all_inputs(), {{"axis", axis}}));
  OnnxNames inputs;
  for (int i = 0; i < node.num_inputs(); ++i) inputs.push_back(node.images(i));
  node.set_images(0, node.add("Concat", std::move(inputs), {{"axis", OnnxExportNode::images_axis(axis)}}));
}
void write_stack(OnnxExportNode& node) {
  const std::int64_t axis = node.attributes().integer("axis");
  OnnxNames inputs;
  for (const OnnxName& x : node.all_inputs()) inputs.push_back(node.add("Unsqueeze", {x, node.integers({axis})}));
  node.set(node.add("Concat", std::move(inputs), {{"axis", axis}}));
}

OnnxNames parts(const OnnxExportNode& node, OnnxNames inputs) {
  Attributes attributes{{"axis", node.attributes().integer("axis")}};
  if (inputs.size() < 2 && node.opset() >= 18) attributes.set("num_outputs", std::int64_t{node.num_outputs()});
  return node.add_many("Split", std::move(inputs), node.num_outputs(), attributes);
}
void set_all(const OnnxExportNode& node, const OnnxNames& values) {
  for (int i = 0; i < node.num_outputs(); ++i) node.set(i, values[static_cast<std::size_t>(i)]);
}
// Sizes are written where they are known: onnxruntime takes Splits of one tensor into 2 and 4 equal parts for the same.
Integers equal_sizes(const OnnxExportNode& node) {
  const std::int64_t axis = node.attributes().integer("axis");
  const std::int64_t size = node.shape(0).has_rank() ? node.shape(0).dim(static_cast<int>(axis)) : kUnknown;
  if (size == kUnknown) return {};
  return Integers(static_cast<std::size_t>(node.num_outputs()), size / node.num_outputs());
}
void write_split(OnnxExportNode& node) {
  const Integers sizes = equal_sizes(node);
  set_all(node, sizes.empty() ? parts(node, {node.in(0)}) : parts(node, {node.in(0), node.integers(sizes)}));
}
void write_split_sizes(OnnxExportNode& node) { set_all(node, parts(node, {node.in(0), node.in(1)})); }
void write_unstack(OnnxExportNode& node) {
  if (node.num_outputs() == 0) return;
  OnnxNames rows = parts(node, {node.in(0), node.integers(Integers(static_cast<std::size_t>(node.num_outputs()), 1))});
  for (OnnxName& row : rows) row = node.add("Squeeze", {row, node.integers({node.attributes().integer("axis")})});
  set_all(node, rows);
}

// ---- parts

Integers as_images(const Integers& values) { return {values[0], values[3], values[1], values[2]}; }

// The integers of an input, if they are known now.
std::optional<Integers> known_list(const OnnxExportNode& node, int input) {
  const std::optional<Tensor> value = node.known(input);
  if (!value) return std::nullopt;
  const auto all = value->values<std::int64_t>();
  return Integers(all.begin(), all.end());
}

// A size of -1 reaches to the end.
OnnxName ends_of_slice(OnnxExportNode& node) {
  const OnnxName size = node.in(2), begin = node.in(1);
  const OnnxName open = node.add("Less", {size, node.integer(0)});
  const OnnxName end = node.add("Add", {begin, size});
  return node.add("Where", {open, node.integer(kEnd), end});
}

void write_slice(OnnxExportNode& node) {
  auto begin = known_list(node, 1), size = known_list(node, 2);
  if (!begin || !size) return node.set(node.add("Slice", {node.in(0), node.in(1), ends_of_slice(node)}));
  const bool images = node.has_images(0) && begin->size() == 4;
  if (images) {
    begin = as_images(*begin);
    size = as_images(*size);
  }
  Integers axes, ends;
  for (std::size_t i = 0; i < begin->size(); ++i) {
    axes.push_back(static_cast<std::int64_t>(i));
    ends.push_back((*size)[i] < 0 ? kEnd : (*begin)[i] + (*size)[i]);
  }
  const OnnxName x = images ? node.images(0) : node.in(0);
  if (begin->empty()) return node.set(node.add("Identity", {x}));
  const OnnxName y = node.add("Slice", {x, node.integers(*begin), node.integers(ends), node.integers(axes)});
  images ? node.set_images(0, y) : node.set(y);
}

void write_slice_grad(OnnxExportNode& node) {
  const OnnxName begin = node.in(2);
  const OnnxName whole = node.add("Shape", {node.in(1)}), part = node.add("Shape", {node.in(0)});
  const OnnxName after = node.add("Sub", {node.add("Sub", {whole, begin}), part});
  const OnnxName pads = node.add("Concat", {begin, after}, {{"axis", std::int64_t{0}}});
  node.set(node.add("Pad", {node.in(0), pads}));
}

void write_strided_slice(OnnxExportNode& node) {
  node.set(node.add("Slice", {node.in(0), node.in(1), node.in(2), node.in(4), node.in(3)}));
}

void write_reverse(OnnxExportNode& node) {
  const auto axes = known_list(node, 1);
  if (!axes) fail(Code::unimplemented, "the axes must be known");
  if (axes->empty()) return node.set(node.add("Identity", {node.in(0)}));
  const auto all = [&](std::int64_t value) { return node.integers(Integers(axes->size(), value)); };
  const OnnxName last = all(-1), before = all(std::numeric_limits<std::int64_t>::min());
  node.set(node.add("Slice", {node.in(0), last, before, node.in(1), last}));
}

void write_reverse_sequence(OnnxExportNode& node) {
  const std::int64_t seq = node.attributes().integer("seq_axis"), batch = node.attributes().integer("batch_axis");
  if (std::min(seq, batch) != 0 || std::max(seq, batch) != 1)
    fail(Code::unimplemented, "ONNX has sequences along axes 0 and 1 only");
  node.set(node.add("ReverseSequence", node.all_inputs(), {{"time_axis", seq}, {"batch_axis", batch}}));
}

void write_pad(OnnxExportNode& node) {
  const std::string& mode = node.attributes().string("mode");
  if (mode == "symmetric") fail(Code::unimplemented, "ONNX has no pads of mode 'symmetric'");
  if (mode == "wrap") node.need_opset(19);
  const auto pads = known_list(node, 1);
  const bool images = node.has_images(0) && pads && pads->size() == 8;
  if (!images) return node.set(node.add("Pad", node.all_inputs(), {{"mode", mode}}));
  Integers all = as_images({pads->begin(), pads->begin() + 4});
  const Integers after = as_images({pads->begin() + 4, pads->end()});
  all.insert(all.end(), after.begin(), after.end());
  const OnnxName list = node.integers(all);
  node.set_images(0, node.add("Pad", {node.images(0), list, node.in(2)}, {{"mode", mode}}));
}

// Each axis in turn: its last elements, then the others.
void write_roll(OnnxExportNode& node) {
  const Integers shifts = node.known_integers(1, "its shifts"), axes = node.known_integers(2, "its axes");
  const OnnxName zero = node.integers({0}), end = node.integers({kEnd});
  OnnxName y = node.in(0);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const OnnxName axis = node.integers({axes[i]});
    const OnnxName size = node.add("Gather", {node.add("Shape", {y}), axis});
    const OnnxName one = node.integers({1}), safe = node.add("Max", {size, one});
    const OnnxName shift = node.add("Mod", {node.integers({shifts.size() == 1 ? shifts[0] : shifts[i]}), safe});
    const OnnxName first = node.add("Sub", {size, shift});
    y = node.add("Concat", {node.add("Slice", {y, first, end, axis}), node.add("Slice", {y, zero, first, axis})},
                 {{"axis", axes[i]}});
  }
  node.set(axes.empty() ? node.add("Identity", {y}) : y);
}

void write_repeat(OnnxExportNode& node) {
  const Integers repeats = node.known_integers(1, "its repeats");
  const std::int64_t axis = node.attributes().integer("axis");
  const std::int64_t size = node.shape(0).has_rank() ? node.shape(0)[static_cast<int>(axis)] : kUnknown;
  if (size == kUnknown) fail(Code::unimplemented, "the size of its axis must be known");
  Integers indices;
  for (std::int64_t i = 0; i < size; ++i)
    indices.insert(indices.end(), static_cast<std::size_t>(repeats.size() == 1 ? repeats[0] : repeats.at(i)), i);
  node.set(node.add("Gather", {node.in(0), node.integers(indices)}, {{"axis", axis}}));
}

void write_tile(OnnxExportNode& node) { node.set(node.add("Tile", {node.in(0), node.in(1)})); }

void write_trilu(OnnxExportNode& node) {
  const std::int64_t upper = node.attributes().boolean("upper") ? 1 : 0;
  node.set(node.add("Trilu", {node.in(0), node.in(1)}, {{"upper", upper}}));
}

void write_depth_op(OnnxExportNode& node) {
  const Attributes& a = node.attributes();
  const bool to_space = node.node().op->name == "DepthToSpace", images = a.string("layout") == "NHWC";
  Attributes written{{"blocksize", a.integer("block")}};
  if (to_space) written.set("mode", a.string("mode"));
  if (!to_space && a.string("mode") != "DCR") fail(Code::unimplemented, "ONNX's SpaceToDepth has mode DCR only");
  const OnnxName x = images ? node.images(0) : node.in(0);
  const OnnxName y = node.add(to_space ? "DepthToSpace" : "SpaceToDepth", {x}, written);
  images ? node.set_images(0, y) : node.set(y);
}

// ---- blocks

// x [n, d1 ..., rest], and blocks of dimensions 1, 2, ...; all but n are known.
struct Blocks {
  explicit Blocks(const OnnxExportNode& node)
      : block(node.known_integers(1, "the blocks")), pads(node.known_integers(2, "the pads or crops")) {
    const Shape& x = node.shape(0);
    for (int d = 1; d < node.rank(0); ++d) {
      if (x[d] == kUnknown) fail(Code::unimplemented, "the shape of its input 0 must be known");
      (d <= std::ssize(block) ? sizes : rest).push_back(x[d]);
    }
  }
  std::size_t count() const { return block.size(); }
  Integers block, pads, sizes{}, rest{};
};

OnnxName reshaped(const OnnxExportNode& node, const OnnxName& x, Integers dims, const Integers& rest) {
  dims.insert(dims.end(), rest.begin(), rest.end());
  return node.add("Reshape", {x, node.integers(dims)});
}

void write_space_to_batch(OnnxExportNode& node) {
  const Blocks b(node);
  const std::size_t k = b.count();
  Integers pads(2 * static_cast<std::size_t>(node.rank(0)), 0), cut{-1}, perm, dims{-1};
  for (std::size_t i = 0; i < k; ++i) {
    pads[i + 1] = b.pads[i];
    pads[i + 1 + pads.size() / 2] = b.pads[k + i];
    const std::int64_t size = (b.sizes[i] + b.pads[i] + b.pads[k + i]) / b.block[i];
    cut.insert(cut.end(), {size, b.block[i]});
    dims.push_back(size);
    perm.push_back(static_cast<std::int64_t>(2 * i + 2));
  }
  perm.push_back(0);
  for (std::size_t i = 0; i < k; ++i) perm.push_back(static_cast<std::int64_t>(2 * i + 1));
  for (std::size_t i = 0; i < b.rest.size(); ++i) perm.push_back(static_cast<std::int64_t>(2 * k + 1 + i));
  const OnnxName padded = node.add("Pad", {node.in(0), node.integers(pads)});
  const OnnxName moved = node.add("Transpose", {reshaped(node, padded, cut, b.rest)}, {{"perm", perm}});
  node.set(reshaped(node, moved, dims, b.rest));
}

void write_batch_to_space(OnnxExportNode& node) {
  const Blocks b(node);
  const std::size_t k = b.count();
  Integers cut = b.block, perm{static_cast<std::int64_t>(k)}, dims{-1}, begins, ends, axes;
  cut.push_back(-1);
  cut.insert(cut.end(), b.sizes.begin(), b.sizes.end());
  for (std::size_t i = 0; i < k; ++i) {
    perm.insert(perm.end(), {static_cast<std::int64_t>(k + 1 + i), static_cast<std::int64_t>(i)});
    dims.push_back(b.sizes[i] * b.block[i]);
    begins.push_back(b.pads[i]);
    ends.push_back(dims.back() - b.pads[k + i]);
    axes.push_back(static_cast<std::int64_t>(i + 1));
  }
  for (std::size_t i = 0; i < b.rest.size(); ++i) perm.push_back(static_cast<std::int64_t>(2 * k + 1 + i));
  const OnnxName moved = node.add("Transpose", {reshaped(node, node.in(0), cut, b.rest)}, {{"perm", perm}});
  const OnnxName whole = reshaped(node, moved, dims, b.rest);
  node.set(node.add("Slice", {whole, node.integers(begins), node.integers(ends), node.integers(axes)}));
}

// ---- makers

void write_one_hot(OnnxExportNode& node) {
  node.set(node.add("OneHot", node.all_inputs(), {{"axis", node.attributes().integer("axis")}}));
}
void write_fill(OnnxExportNode& node) { node.set(node.add("Expand", {node.in(1), node.in(0)})); }
void write_range(OnnxExportNode& node) { node.set(node.add("Range", node.all_inputs())); }

// RandomUniform or RandomNormal of a known shape; otherwise ...Like a tensor of the shape.
void write_random(OnnxExportNode& node, std::string op, Attributes attributes) {
  attributes.set("dtype", node.output_dtype());
  if (node.known(0)) {
    attributes.set("shape", node.known_integers(0, "the shape"));
    return node.set(node.add(std::move(op), {}, attributes));
  }
  node.set(node.add(op + "Like", {node.add("ConstantOfShape", {node.in(0)})}, attributes));
}
void write_random_uniform(OnnxExportNode& node) {
  const Attributes& a = node.attributes();
  write_random(node, "RandomUniform", {{"low", a.real("minval")}, {"high", a.real("maxval")}});
}
void write_random_normal(OnnxExportNode& node) {
  const Attributes& a = node.attributes();
  write_random(node, "RandomNormal", {{"mean", a.real("mean")}, {"scale", a.real("stddev")}});
}

constexpr OnnxExportOp kArrayWriters[] = {
    {"BatchToSpace", write_batch_to_space},
    {"BroadcastTo", write_broadcast_to},
    {"Concat", write_concat},
    {"DepthToSpace", write_depth_op},
    {"ExpandDims", write_expand_dims},
    {"Fill", write_fill},
    {"OneHot", write_one_hot},
    {"Pad", write_pad},
    {"RandomNormal", write_random_normal},
    {"RandomUniform", write_random_uniform},
    {"Range", write_range},
    {"Repeat", write_repeat},
    {"Reshape", write_reshape},
    {"ReshapeLike", write_reshape_like},
    {"Reverse", write_reverse},
    {"ReverseSequence", write_reverse_sequence},
    {"Roll", write_roll},
    {"Slice", write_slice},
    {"SliceGrad", write_slice_grad},
    {"SpaceToBatch", write_space_to_batch},
    {"SpaceToDepth", write_depth_op},
    {"Split", write_split},
    {"SplitSizes", write_split_sizes},
    {"Squeeze", write_squeeze},
    {"Stack", write_stack},
    {"StridedSlice", write_strided_slice},
    {"Tile", write_tile},
    {"Transpose", write_transpose},
    {"Trilu", write_trilu},
    {"Unstack", write_unstack},
};

}  // namespace

std::span<const OnnxExportOp> onnx_array_writers() { return kArrayWriters; }

}  // namespace troupe
