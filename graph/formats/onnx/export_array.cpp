// Ops that make, move and reshape tensors, as ONNX's.
#include <limits>
#include <utility>

#include <troupe/graph/formats/onnx/onnx_export.hpp>

namespace troupe {
namespace {

constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();

// ---- shapes

void write_reshape(OnnxExportNode& node) {
  node.set(node.add("Reshape", {node.in(0), node.in(1)}, {{"allowzero", std::int64_t{1}}}));
}
void write_reshape_like(OnnxExportNode& node) {
  node.set(node.add("Reshape", {node.in(0), node.add("Shape", {node.in(1)})}, {{"allowzero", std::int64_t{1}}}));
}
void write_squeeze(OnnxExportNode& node) {
  const Integers& axes = node.attributes().integers("axes");
  OnnxNames inputs{node.in(0)};
  if (!axes.empty()) inputs.push_back(node.integers(axes));
  node.set(node.add("Squeeze", std::move(inputs)));
}
void write_expand_dims(OnnxExportNode& node) {
  node.set(node.add("Unsqueeze", {node.in(0), node.integers({node.attributes().integer("axis")})}));
}
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
  return node.add_many("Split", std::move(inputs), node.num_outputs(), {{"axis", node.attributes().integer("axis")}});
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
void write_split_sizes(OnnxExportNode& node) {
  set_all(node, parts(node, {node.in(0), node.integers(node.attributes().integers("sizes"))}));
}
void write_unstack(OnnxExportNode& node) {
  if (node.num_outputs() == 0) return;
  OnnxNames rows = parts(node, {node.in(0), node.integers(Integers(static_cast<std::size_t>(node.num_outputs()), 1))});
  for (OnnxName& row : rows) row = node.add("Squeeze", {row, node.integers({node.attributes().integer("axis")})});
  set_all(node, rows);
}

// ---- parts

Integers as_images(const Integers& values) { return {values[0], values[3], values[1], values[2]}; }

void write_slice(OnnxExportNode& node) {
  Integers begin = node.attributes().integers("begin"), size = node.attributes().integers("size");
  const bool images = node.has_images(0) && begin.size() == 4;
  if (images) {
    begin = as_images(begin);
    size = as_images(size);
  }
  Integers axes, ends;
  for (std::size_t i = 0; i < begin.size(); ++i) {
    axes.push_back(static_cast<std::int64_t>(i));
    ends.push_back(size[i] < 0 ? kEnd : begin[i] + size[i]);
  }
  const OnnxName x = images ? node.images(0) : node.in(0);
  if (begin.empty()) return node.set(node.add("Identity", {x}));
  const OnnxName y = node.add("Slice", {x, node.integers(begin), node.integers(ends), node.integers(axes)});
  images ? node.set_images(0, y) : node.set(y);
}

void write_slice_grad(OnnxExportNode& node) {
  const OnnxName begin = node.integers(node.attributes().integers("begin"));
  const OnnxName whole = node.add("Shape", {node.in(1)}), part = node.add("Shape", {node.in(0)});
  const OnnxName after = node.add("Sub", {node.add("Sub", {whole, begin}), part});
  const OnnxName pads = node.add("Concat", {begin, after}, {{"axis", std::int64_t{0}}});
  node.set(node.add("Pad", {node.in(0), pads}));
}

void write_pad(OnnxExportNode& node) {
  Integers before = node.attributes().integers("before"), after = node.attributes().integers("after");
  const bool images = node.has_images(0) && before.size() == 4;
  if (images) {
    before = as_images(before);
    after = as_images(after);
  }
  before.insert(before.end(), after.begin(), after.end());
  const OnnxName value = node.number_like(0, node.attributes().real("value"));
  const OnnxName y = node.add("Pad", {images ? node.images(0) : node.in(0), node.integers(before), value});
  images ? node.set_images(0, y) : node.set(y);
}

void write_tile(OnnxExportNode& node) {
  node.set(node.add("Tile", {node.in(0), node.integers(node.attributes().integers("multiples"))}));
}

// ---- rows

void write_gather(OnnxExportNode& node) {
  node.set(node.add("Gather", {node.in(0), node.in(1)}, {{"axis", std::int64_t{0}}}));
}
void write_scatter_add_rows(OnnxExportNode& node) {
  const OnnxName zeros = node.add("Expand", {node.number_like(1, 0), node.add("Shape", {node.in(2)})});
  const OnnxName rows = node.add("Unsqueeze", {node.in(0), node.integers({1})});
  node.set(node.add("ScatterND", {zeros, rows, node.in(1)}, {{"reduction", "add"}}));
}

// ---- makers

void write_one_hot(OnnxExportNode& node) {
  const Attributes& a = node.attributes();
  const OnnxName off = node.scalar_of(node.output_dtype(), a.real("off")),
                 on = node.scalar_of(node.output_dtype(), a.real("on"));
  const OnnxName one_element = node.integers({1});
  const OnnxName values =
      node.add("Concat", {node.add("Reshape", {off, one_element}), node.add("Reshape", {on, one_element})},
               {{"axis", std::int64_t{0}}});
  node.set(node.add("OneHot", {node.in(0), node.integers({a.integer("depth")}), values}));
}
void write_fill(OnnxExportNode& node) { node.set(node.add("Expand", {node.in(1), node.in(0)})); }
void write_range(OnnxExportNode& node) { node.set(node.add("Range", node.all_inputs())); }

void write_random_uniform(OnnxExportNode& node) {
  const Attributes& a = node.attributes();
  const Shape& shape = a.shape("shape");
  node.set(node.add("RandomUniform", {},
                    {{"shape", Integers{shape.dims().begin(), shape.dims().end()}},
                     {"low", a.real("minval")},
                     {"high", a.real("maxval")},
                     {"dtype", node.output_dtype()}}));
}
void write_random_normal(OnnxExportNode& node) {
  const Attributes& a = node.attributes();
  const Shape& shape = a.shape("shape");
  node.set(node.add("RandomNormal", {},
                    {{"shape", Integers{shape.dims().begin(), shape.dims().end()}},
                     {"mean", a.real("mean")},
                     {"scale", a.real("stddev")},
                     {"dtype", node.output_dtype()}}));
}

constexpr OnnxExportOp kArrayWriters[] = {
    {"Concat", write_concat},
    {"ExpandDims", write_expand_dims},
    {"Fill", write_fill},
    {"Gather", write_gather},
    {"OneHot", write_one_hot},
    {"Pad", write_pad},
    {"RandomNormal", write_random_normal},
    {"RandomUniform", write_random_uniform},
    {"Range", write_range},
    {"Reshape", write_reshape},
    {"ReshapeLike", write_reshape_like},
    {"ScatterAddRows", write_scatter_add_rows},
    {"Slice", write_slice},
    {"SliceGrad", write_slice_grad},
    {"Split", write_split},
    {"SplitSizes", write_split_sizes},
    {"Squeeze", write_squeeze},
    {"Stack", write_stack},
    {"Tile", write_tile},
    {"Transpose", write_transpose},
    {"Unstack", write_unstack},
};

}  // namespace

std::span<const OnnxExportOp> onnx_array_writers() { return kArrayWriters; }

}  // namespace troupe
