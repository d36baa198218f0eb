// Products, convolutions, pools, normalisations and softmax, as TensorFlow's.
#include <algorithm>
#include <limits>
#include <utility>

#include <troupe/graph/builder/padding.hpp>
#include <troupe/graph/formats/saved_model/export_node.hpp>

namespace troupe {
namespace {

void write_tf_matmul(TfExportNode& node) {
  const bool a = node.attributes().boolean("transpose_a"), b = node.attributes().boolean("transpose_b");
  if (node.shape(0).has_rank() && node.shape(1).has_rank() && node.rank(0) == 2 && node.rank(1) == 2)
    return node.set(node.add("MatMul", node.all_inputs(), {{"transpose_a", a}, {"transpose_b", b}}));
  for (int i = 0; i < 2; ++i)
    if (node.rank(i) < 2) fail(Code::unimplemented, "products of vectors are not written");
  node.set(node.add("BatchMatMulV2", node.all_inputs(), {{"adj_x", a}, {"adj_y", b}}));
}

bool channels_first(const TfExportNode& node) {
  return parse_data_format(node.attributes().string("data_format")) == DataFormat::channels_first;
}

// With channels first, the bias is [c, 1, ...].
void write_tf_bias_add(TfExportNode& node) {
  if (!channels_first(node)) return node.set(node.add("BiasAdd", node.all_inputs()));
  Integers dims(static_cast<std::size_t>(node.rank(0)) - 1, 1);
  dims.at(0) = -1;
  node.set(node.add("AddV2", {node.in(0), node.add("Reshape", {node.in(1), node.integers(dims)})}));
}

// ---- windows

// The images of a window op with channels last, and with a further axis if they have only one: TensorFlow's ops take
// images of 2 or 3 axes. Numbers are those of the spatial axes.
struct TfWindows {
  explicit TfWindows(const TfExportNode& of) : node(of), first(channels_first(of)), spatial(of.rank(0) - 2) {
    strides = entries("strides");
    dilations = entries("dilations");
  }
  Integers entries(const char* name) const {
    const Integers& given = node.attributes().integers(name);
    return given.empty() ? Integers(static_cast<std::size_t>(spatial), 1) : given;
  }
  bool flat() const { return spatial == 1; }
  bool dilated() const {
    return std::ranges::any_of(dilations, [](std::int64_t d) { return d != 1; });
  }
  // As an attribute of TensorFlow's, which has an entry for each dimension.
  Integers attribute(const Integers& values) const {
    Integers out{1};
    if (flat()) out.push_back(1);
    out.insert(out.end(), values.begin(), values.end());
    out.push_back(1);
    return out;
  }
  TfName images(const TfName& x) const {
    TfName out = x;
    if (first) {
      Integers perm{0};
      for (int d = 0; d < spatial; ++d) perm.push_back(d + 2);
      perm.push_back(1);
      out = node.transposed(out, perm);
    }
    return flat() ? node.add("ExpandDims", {out, node.integer(1)}) : out;
  }
  TfName back(const TfName& y) const {
    TfName out = flat() ? node.add("Squeeze", {y}, {{"squeeze_dims", Integers{1}}}) : y;
    if (!first) return out;
    Integers perm{0, spatial + 1};
    for (int d = 0; d < spatial; ++d) perm.push_back(d + 1);
    return node.transposed(out, perm);
  }
  // [spatial..., in / groups, out]; with channels first ours is [out, in / groups, spatial...].
  TfName filter(const TfName& given) const {
    TfName out = given;
    if (first) {
      Integers perm;
      for (int d = 0; d < spatial; ++d) perm.push_back(d + 2);
      perm.insert(perm.end(), {1, 0});
      out = node.transposed(out, perm);
    }
    return flat() ? node.add("ExpandDims", {out, node.integer(0)}) : out;
  }
  std::int64_t kernel(int axis) const { return node.dim(1, first ? axis + 2 : axis); }
  Integers kernels() const {
    Integers out;
    for (int d = 0; d < spatial; ++d) out.push_back(kernel(d));
    return out;
  }
  // Zeros, or another value, around images() by these pads: before each axis, then after.
  TfName padded(const TfName& x, const Integers& pads, double value) const {
    if (std::ranges::count(pads, 0) == std::ssize(pads)) return x;
    Integers pairs{0, 0};
    if (flat()) pairs.insert(pairs.end(), {0, 0});
    for (int d = 0; d < spatial; ++d)
      pairs.insert(pairs.end(), {pads[static_cast<std::size_t>(d)], pads[static_cast<std::size_t>(d + spatial)]});
    pairs.insert(pairs.end(), {0, 0});
    const TfName all = node.constant(Tensor::of<std::int64_t>(Shape{std::ssize(pairs) / 2, 2}, pairs));
    return node.add("PadV2", {x, all, node.number_like(0, value)});
  }

  const TfExportNode& node;
  bool first;
  int spatial;
  Integers strides, dilations;
};

// The padding as TensorFlow has it, "SAME" or "VALID", and numbers that are to be added before.
struct TfPaddingOut {
  std::string kind{};
  Integers pads{};
};
TfPaddingOut padding_of(const TfWindows& w, const Integers& kernel) {
  const Attributes& a = w.node.attributes();
  const Padding padding = parse_padding(a.string("padding"));
  const auto axes = static_cast<std::size_t>(w.spatial);
  if (padding == Padding::same) return {"SAME", Integers(2 * axes, 0)};
  if (padding == Padding::valid) return {"VALID", Integers(2 * axes, 0)};
  if (padding == Padding::explicit_pads) {
    const Integers& given = a.integers("pads");
    return {"VALID", given.empty() ? Integers(2 * axes, 0) : given};
  }
  Integers pads(2 * axes);  // same_lower: the odd one is before
  for (std::size_t d = 0; d < axes; ++d) {
    const std::int64_t reach = (kernel[d] - 1) * w.dilations[d] + 1, stride = w.strides[d];
    std::int64_t total = reach - 1;
    if (stride != 1) {
      const std::int64_t size = w.node.dim(0, static_cast<std::int64_t>(d) + (w.first ? 2 : 1));
      total = std::max<std::int64_t>(((size + stride - 1) / stride - 1) * stride + reach - size, 0);
    }
    pads[d] = total - total / 2;
    pads[d + axes] = total / 2;
  }
  return {"VALID", pads};
}

void write_tf_conv(TfExportNode& node) {
  const TfWindows w(node);
  const Integers kernel = w.kernels();
  const TfPaddingOut padding = padding_of(w, kernel);
  const TfName x = w.padded(w.images(node.in(0)), padding.pads, 0);
  const std::int64_t groups = node.attributes().integer("groups");
  const std::int64_t in = node.dim(0, w.first ? 1 : -1), out = node.dim(1, w.first ? 0 : -1);
  const Integers strides = w.attribute(w.strides);
  Attributes attributes{{"strides", strides}, {"padding", padding.kind}};
  const bool depthwise = groups > 1 && groups == in && w.spatial < 3 && !w.dilated() && strides[1] == strides[2];
  if (depthwise) {
    const Integers dims{w.flat() ? 1 : kernel[0], kernel.back(), in, out / in};
    const TfName filter = node.add("Reshape", {w.filter(node.in(1)), node.integers(dims)});
    return node.set(w.back(node.add("DepthwiseConv2dNative", {x, filter}, attributes)));
  }
  if (groups > 1 && w.spatial == 3) fail(Code::unimplemented, "TensorFlow has no groups of images with 3 axes");
  if (w.dilated()) attributes.set("dilations", w.attribute(w.dilations));
  const TfName y = node.add(w.spatial == 3 ? "Conv3D" : "Conv2D", {x, w.filter(node.in(1))}, attributes);
  node.set(w.back(y));
}

// The sizes of the result along the spatial axes, as a vector of i64.
TfName sizes_of_transpose(const TfWindows& w, const Integers& kernel, const Integers& pads) {
  const TfExportNode& node = w.node;
  Integers known;
  for (int d = 0; d < w.spatial; ++d)
    known.push_back(node.output_shape().has_rank() ? node.output_shape()[d + (w.first ? 2 : 1)] : kUnknown);
  if (std::ranges::count(known, kUnknown) == 0) return node.integers(known);
  if (node.shape(2) != Shape{0}) return node.in(2);
  const Padding padding = parse_padding(node.attributes().string("padding"));
  const TfName from = node.dims_of(node.in(0), w.first ? 2 : 1, w.spatial);
  const TfName scaled = node.add("Mul", {from, node.integers(w.strides)});
  if (padding == Padding::same || padding == Padding::same_lower) return scaled;
  const Integers& more = node.attributes().integers("output_padding");
  Integers rest;
  for (std::size_t d = 0; d < kernel.size(); ++d)
    rest.push_back((kernel[d] - 1) * w.dilations[d] + 1 - w.strides[d] + (more.empty() ? 0 : more[d]) - pads[d] -
                   pads[d + kernel.size()]);
  return node.add("AddV2", {scaled, node.integers(rest)});
}

// With explicit pads, a result without padding, of which these are cut off.
void write_tf_conv_transpose(TfExportNode& node) {
  const TfWindows w(node);
  if (w.spatial > 2 || w.dilated() || node.attributes().integer("groups") != 1)
    fail(Code::unimplemented, "transposed convolutions with groups, dilations or 3 axes are not written");
  const Integers kernel = w.kernels();
  const TfPaddingOut padding = padding_of(w, kernel);
  const auto axes = static_cast<std::size_t>(w.spatial);
  const TfName sizes = sizes_of_transpose(w, kernel, padding.pads);
  Integers both;
  for (std::size_t d = 0; d < axes; ++d) both.push_back(padding.pads[d] + padding.pads[d + axes]);
  const bool cut = std::ranges::any_of(both, [](std::int64_t p) { return p != 0; });
  const TfName whole = cut ? node.add("AddV2", {sizes, node.integers(both)}) : sizes;
  const TfName x = w.images(node.in(0));
  // Ours is [spatial..., out, in], or [in, out, spatial...] with channels first.
  const std::int64_t channels = node.dim(1, w.first ? 1 : -2);
  TfNames parts{node.dims_of(x, 0, 1)};
  if (w.flat()) parts.push_back(node.integers({1}));
  parts.insert(parts.end(), {whole, node.integers({channels})});
  const TfName dims = node.cast(node.joined(parts), DType::i32);
  TfName y = node.add("Conv2DBackpropInput", {dims, w.filter(node.in(1)), x},
                      {{"strides", w.attribute(w.strides)}, {"padding", padding.kind}});
  if (cut) {
    Integers begin{0};
    if (w.flat()) begin.push_back(0);
    begin.insert(begin.end(), padding.pads.begin(), padding.pads.begin() + w.spatial);
    begin.push_back(0);
    parts[w.flat() ? 2 : 1] = sizes;
    y = node.add("Slice", {y, node.integers(begin), node.joined(parts)});
  }
  node.set(w.back(y));
}

void write_tf_pool(TfExportNode& node) {
  const TfWindows w(node);
  const Attributes& a = node.attributes();
  const Integers& kernel = a.integers("ksize");
  if (w.dilated() || a.boolean("ceil_mode"))
    fail(Code::unimplemented, "TensorFlow has no pools with dilations, nor windows that reach over the end");
  const bool maximum = node.node().op->name == "MaxPool";
  const TfPaddingOut padding = padding_of(w, kernel);
  const bool pads = std::ranges::any_of(padding.pads, [](std::int64_t p) { return p != 0; });
  const std::string divisor = maximum ? "existing" : a.string("divisor");
  if (divisor != "existing" && padding.kind == "SAME")
    fail(Code::unimplemented, "TensorFlow's averages with padding SAME are of elements that exist");
  const std::string op = std::string(maximum ? "MaxPool" : "AvgPool") + (w.spatial == 3 ? "3D" : "");
  const Attributes attributes{
      {"ksize", w.attribute(kernel)}, {"strides", w.attribute(w.strides)}, {"padding", padding.kind}};
  const double lowest = is_floating(node.dtype(0)) ? -std::numeric_limits<double>::infinity() : 0;
  if (maximum && pads && !is_floating(node.dtype(0))) fail(Code::unimplemented, "pads of integers");
  const TfName x = w.images(node.in(0));
  TfName y = node.add(op, {w.padded(x, padding.pads, maximum ? lowest : 0)}, attributes);
  if (!maximum && divisor == "existing" && pads) {
    const TfName ones = w.padded(node.add("OnesLike", {x}), padding.pads, 0);
    y = node.add("RealDiv", {y, node.add(op, {ones}, attributes)});
  }
  if (divisor == "one") {
    double size = 1;
    for (const std::int64_t k : kernel) size *= static_cast<double>(k);
    y = node.add("Mul", {y, node.number_like(0, size)});
  }
  node.set(w.back(y));
}

// ---- normalisations

TfName inverse_deviation(const TfExportNode& node, const TfName& variance) {
  const TfName epsilon = node.number_like(1, node.attributes().real("epsilon"));
  return node.add("Rsqrt", {node.add("AddV2", {variance, epsilon})});
}

// In the data's type, by a node of its own where that has computed in another.
TfName narrowed(const TfExportNode& node, const TfName& y) { return node.cast(y, node.dtype(0)); }

void write_tf_batch_norm_inference(TfExportNode& node) {
  TfName y;
  if (node.shape(0).has_rank() && node.rank(0) == 4 && node.dtype(1) == DType::f32 && node.dtype(0) != DType::f64) {
    y = node.add_many("FusedBatchNormV3", node.all_inputs(),
                      {{"epsilon", node.attributes().real("epsilon")}, {"is_training", false}})[0];
  } else {
    const TfName difference = node.add("Sub", {node.cast(node.in(0), node.dtype(1)), node.in(3)});
    const TfName normal = node.add("Mul", {difference, inverse_deviation(node, node.in(4))});
    y = narrowed(node, node.add("AddV2", {node.add("Mul", {normal, node.in(1)}), node.in(2)}));
  }
  node.set(node.attributes().string("activation") == "relu" ? node.add("Relu", {y}) : y);
}

void write_tf_layer_norm(TfExportNode& node) {
  const TfName x = node.cast(node.in(0), node.dtype(1));
  const TfName mean = node.reduced("Mean", x, {-1}, true), difference = node.add("Sub", {x, mean});
  const TfName variance = node.reduced("Mean", node.add("Square", {difference}), {-1}, true);
  const TfName inverse = inverse_deviation(node, variance), normal = node.add("Mul", {difference, inverse});
  node.set(narrowed(node, node.add("AddV2", {node.add("Mul", {normal, node.in(1)}), node.in(2)})));
  if (node.wants(1)) node.set(1, node.add("Squeeze", {mean}, {{"squeeze_dims", Integers{-1}}}));
  if (node.wants(2)) node.set(2, node.add("Squeeze", {inverse}, {{"squeeze_dims", Integers{-1}}}));
}

void write_tf_rms_norm(TfExportNode& node) {
  const TfName x = node.cast(node.in(0), node.dtype(1));
  const TfName mean = node.reduced("Mean", node.add("Square", {x}), {-1}, true);
  node.set(narrowed(node, node.add("Mul", {node.add("Mul", {x, inverse_deviation(node, mean)}), node.in(1)})));
}

// x [n,c,...] as [n,groups,rest], which each have a mean and a deviation.
void write_tf_group_norm(TfExportNode& node) {
  std::int64_t groups = node.attributes().integer("groups");
  if (groups == 0) groups = node.dim(0, 1);
  const TfName x = node.cast(node.in(0), node.dtype(1)), shape = node.shape_of(x);
  const TfName rows = node.add("Reshape", {x, node.joined({node.dims_of(x, 0, 1), node.integers({groups, -1})})});
  const TfName difference = node.add("Sub", {rows, node.reduced("Mean", rows, {-1}, true)});
  const TfName variance = node.reduced("Mean", node.add("Square", {difference}), {-1}, true);
  const TfName inverse = inverse_deviation(node, variance);
  const TfName normal = node.add("Reshape", {node.add("Mul", {difference, inverse}), shape});
  Integers by_channel(static_cast<std::size_t>(node.rank(0)) - 1, 1);
  by_channel[0] = -1;
  const TfName along = node.integers(by_channel);
  const TfName scaled = node.add("Mul", {normal, node.add("Reshape", {node.in(1), along})});
  node.set(narrowed(node, node.add("AddV2", {scaled, node.add("Reshape", {node.in(2), along})})));
}

// ---- softmax

// TensorFlow's are along the last axis.
void write_tf_softmax(TfExportNode& node) {
  const int rank = node.rank(0);
  const auto axis = static_cast<std::size_t>(node.axis_of(node.attributes().integer("axis")));
  const std::string& op = node.node().op->name;
  if (static_cast<int>(axis) == rank - 1) return node.set(node.add(op, {node.in(0)}));
  Integers perm;
  for (int d = 0; d < rank; ++d) perm.push_back(d);
  std::swap(perm[axis], perm.back());
  node.set(node.transposed(node.add(op, {node.transposed(node.in(0), perm)}), perm));
}

constexpr TfExportOp kTfNnWriters[] = {
    {"AvgPool", write_tf_pool},
    {"BatchNormInference", write_tf_batch_norm_inference},
    {"BiasAdd", write_tf_bias_add},
    {"Conv", write_tf_conv},
    {"ConvTranspose", write_tf_conv_transpose},
    {"GroupNorm", write_tf_group_norm},
    {"LayerNorm", write_tf_layer_norm},
    {"LogSoftmax", write_tf_softmax},
    {"MatMul", write_tf_matmul},
    {"MaxPool", write_tf_pool},
    {"RMSNorm", write_tf_rms_norm},
    {"Softmax", write_tf_softmax},
};

}  // namespace

std::span<const TfExportOp> tensorflow_nn_writers() { return kTfNnWriters; }

}  // namespace troupe
