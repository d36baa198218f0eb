// Products, convolutions, pools, normalisations and losses, as ONNX's.
#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include <troupe/graph/builder/padding.hpp>
#include <troupe/graph/formats/onnx/export_graph.hpp>

namespace troupe {
namespace {

constexpr std::int64_t kKeep = 1, kDrop = 0;  // dimensions of reductions

// ---- products and biases

bool is_gemm(const OnnxExportNode& product) {
  return product.rank(0) == 2 && product.rank(1) == 2 && is_floating(product.dtype(0));
}

// Whether a product or convolution is written with the bias that follows it, by the writer of the BiasAdd.
bool takes_bias(const OnnxExportNode& node) {
  const Endpoint y{node.node().id, 0};
  const std::vector<const Node*> readers = node.writer().readers(y);
  if (node.writer().is_given(y) || readers.size() != 1 || !readers[0] || readers[0]->op->name != "BiasAdd" ||
      readers[0]->inputs[0] != y)
    return false;
  const std::string& format = readers[0]->attributes.string("data_format");
  if (node.node().op->name == "Conv") return format == node.attributes().string("data_format");
  return format == "channels_last" && is_gemm(node);
}

OnnxName gemm_of(const OnnxExportNode& product, const OnnxName& bias = {}) {
  Attributes attributes;
  if (product.attributes().boolean("transpose_a")) attributes.set("transA", std::int64_t{1});
  if (product.attributes().boolean("transpose_b")) attributes.set("transB", std::int64_t{1});
  OnnxNames inputs{product.in(0), product.in(1)};
  if (!bias.empty()) inputs.push_back(bias);
  return product.add("Gemm", std::move(inputs), attributes);
}

OnnxName last_two_exchanged(const OnnxExportNode& node, int input) {
  Integers perm;
  for (std::int64_t d = 0; d < node.rank(input); ++d) perm.push_back(d);
  std::swap(perm.at(perm.size() - 1), perm.at(perm.size() - 2));
  return node.add("Transpose", {node.in(input)}, {{"perm", perm}});
}

void write_matmul(OnnxExportNode& node) {
  const bool a = node.attributes().boolean("transpose_a"), b = node.attributes().boolean("transpose_b");
  if (takes_bias(node)) return node.defer();
  if ((a || b) && is_gemm(node)) return node.set(gemm_of(node));
  const OnnxName x = a ? last_two_exchanged(node, 0) : node.in(0);
  node.set(node.add("MatMul", {x, b ? last_two_exchanged(node, 1) : node.in(1)}));
}

// ---- windows

// Attributes of a window op, with a value for each spatial axis.
struct Windows {
  Integers kernel, strides, dilations;
  bool channels_first;
  bool strides_given, dilations_given;

  int spatial() const { return static_cast<int>(kernel.size()); }
  // The sizes of an image along the spatial axes; kUnknown where they are not known.
  Integers sizes(const Shape& image) const {
    Integers out;
    for (int i = 0; i < spatial(); ++i)
      out.push_back(image.has_rank() ? image[i + (channels_first ? 2 : 1)] : kUnknown);
    return out;
  }
};

Windows windows_of(const OnnxExportNode& node, const Integers& kernel) {
  const auto entries = [&](const char* name) {
    const Integers& given = node.attributes().integers(name);
    return given.empty() ? Integers(kernel.size(), 1) : given;
  };
  const bool first = parse_data_format(node.attributes().string("data_format")) == DataFormat::channels_first;
  if (!first && kernel.size() != 2)
    fail(Code::unimplemented, "images of {} dimensions with channels last are not written", kernel.size());
  const auto given = [&](const char* name) { return !node.attributes().integers(name).empty(); };
  return {kernel, entries("strides"), entries("dilations"), first, given("strides"), given("dilations")};
}

std::string auto_pad(Padding padding) {
  return padding == Padding::valid ? "VALID" : padding == Padding::same_lower ? "SAME_LOWER" : "SAME_UPPER";
}

// The pads before and after each axis that give images of these sizes outputs of their sizes, divided by the strides.
Integers pads_of_same(const Windows& w, const Integers& sizes, bool lower) {
  Integers pads(2 * sizes.size());
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    const std::int64_t size = sizes[d], stride = w.strides[d], reach = (w.kernel[d] - 1) * w.dilations[d] + 1;
    const std::int64_t outputs = size / stride + (size % stride != 0);
    const std::int64_t total = std::max<std::int64_t>((outputs - 1) * stride + reach - size, 0);
    pads[d] = lower ? total - total / 2 : total / 2;
    pads[d + sizes.size()] = total - pads[d];
  }
  return pads;
}

// `numbers`: of the images that are padded, if the padding is better written in numbers.
void set_padding(const OnnxExportNode& node, const Windows& w, const Integers& numbers, Attributes& attributes) {
  const Padding padding = parse_padding(node.attributes().string("padding"));
  if (padding == Padding::explicit_pads) {
    const Integers& pads = node.attributes().integers("pads");
    if (!pads.empty()) attributes.set("pads", pads);
  } else if (padding == Padding::valid || numbers.empty() || std::ranges::count(numbers, kUnknown) > 0) {
    attributes.set("auto_pad", auto_pad(padding));
  } else {
    attributes.set("pads", pads_of_same(w, numbers, padding == Padding::same_lower));
  }
}
// Other runtimes know no SAME of dilated windows.
void set_padding(const OnnxExportNode& node, const Windows& w, Attributes& attributes) {
  const bool dilated = std::ranges::any_of(w.dilations, [](std::int64_t d) { return d != 1; });
  set_padding(node, w, dilated ? w.sizes(node.shape(0)) : Integers{}, attributes);
}

Attributes window_attributes(const Windows& w) {
  Attributes out{{"kernel_shape", w.kernel}};
  if (w.strides_given) out.set("strides", w.strides);
  if (w.dilations_given) out.set("dilations", w.dilations);
  return out;
}

// Adds a node of images to one of images.
OnnxName add_window(const OnnxExportNode& node, const char* op, const Windows& w, const Attributes& attributes,
                    const OnnxNames& others = {}) {
  OnnxNames inputs{w.channels_first ? node.in(0) : node.images(0)};
  inputs.insert(inputs.end(), others.begin(), others.end());
  return node.add(op, std::move(inputs), attributes);
}
void set_window(const OnnxExportNode& node, const Windows& w, const OnnxName& y) {
  w.channels_first ? node.set(y) : node.set_images(0, y);
}

Windows windows_of_filter(const OnnxExportNode& node) {
  const Shape& filter = node.shape(1);
  if (!filter.has_rank()) fail(Code::unimplemented, "the shape of its filter must be known");
  const bool first = parse_data_format(node.attributes().string("data_format")) == DataFormat::channels_first;
  Integers kernel;
  for (int i = 0; i < filter.rank() - 2; ++i) kernel.push_back(filter[i + (first ? 2 : 0)]);
  if (std::ranges::count(kernel, kUnknown) > 0)
    fail(Code::unimplemented, "the height and width of its filter must be known");
  return windows_of(node, kernel);
}

// A filter in bytes: its DequantizeLinear is written here, of bytes that are transposed, if this is its only reader.
std::optional<OnnxName> filter_of_bytes(const OnnxExportNode& node) {
  const Node& source = node.graph().node(node.endpoint(1).node);
  const OnnxExportNode filter(node.writer(), source);
  if (source.op->name != "DequantizeLinear" || filter.writer().readers({source.id, 0}).size() != 1 ||
      !filter.weights(0) || filter.rank(0) != 4)
    return std::nullopt;
  const Integers perm{3, 2, 0, 1};
  const std::int64_t axis = filter.attributes().integer("axis"), from = axis < 0 ? axis + 4 : axis;
  const auto place = static_cast<std::int64_t>(std::ranges::find(perm, from) - perm.begin());
  return filter.add("DequantizeLinear", {filter.transposed(0, perm), filter.in(1), filter.in(2)}, {{"axis", place}});
}

OnnxName filter_of(const OnnxExportNode& node, const Windows& w) {
  if (!w.channels_first)
    if (const auto bytes = filter_of_bytes(node)) return *bytes;
  return w.channels_first ? node.in(1) : node.transposed(1, {3, 2, 0, 1});
}

OnnxName conv_of(const OnnxExportNode& node, const Windows& w, const OnnxName& bias = {}) {
  Attributes attributes = window_attributes(w);
  if (node.attributes().integer("groups") != 1) attributes.set("group", node.attributes().integer("groups"));
  set_padding(node, w, attributes);
  OnnxNames others{filter_of(node, w)};
  if (!bias.empty()) others.push_back(bias);
  return add_window(node, "Conv", w, attributes, others);
}
void write_conv(OnnxExportNode& node) {
  if (takes_bias(node)) return node.defer();
  const Windows w = windows_of_filter(node);
  set_window(node, w, conv_of(node, w));
}

// The product or convolution that this is the bias of, if it is written here.
const Node* product_of_bias(const OnnxExportNode& node) {
  const Node& product = node.graph().node(node.endpoint(0).node);
  if (product.op->name != "Conv" && product.op->name != "MatMul") return nullptr;
  return takes_bias({node.writer(), product}) ? &product : nullptr;
}

// With channels first, the bias is [c, 1, ...].
void write_bias_add(OnnxExportNode& node) {
  if (const Node* product = product_of_bias(node)) {
    const OnnxExportNode of(node.writer(), *product);
    if (product->op->name == "MatMul") return node.set(gemm_of(of, node.in(1)));
    const Windows w = windows_of_filter(of);
    return set_window(node, w, conv_of(of, w, node.in(1)));
  }
  if (node.attributes().string("data_format") == "channels_first") {
    std::vector<std::int64_t> dims(static_cast<std::size_t>(node.rank(0)) - 1, 1);
    dims.at(0) = -1;
    return node.set(node.add("Add", {node.in(0), node.add("Reshape", {node.in(1), node.integers(dims)})}));
  }
  const auto bias = node.has_images(0) ? node.image_operand(1) : std::nullopt;
  if (!bias) return node.set(node.add("Add", {node.in(0), node.in(1)}));
  node.set_images(0, node.add("Add", {node.images(0), *bias}));
}

// With the pads and the output padding that give the output's size.
void write_conv_transpose(OnnxExportNode& node) {
  const Windows w = windows_of_filter(node);
  const Integers from = w.sizes(node.shape(0)), to = w.sizes(node.output_shape());
  if (std::ranges::count(from, kUnknown) + std::ranges::count(to, kUnknown) > 0)
    fail(Code::unimplemented, "the sizes of its images must be known");
  Attributes attributes = window_attributes(w);
  if (node.attributes().integer("groups") != 1) attributes.set("group", node.attributes().integer("groups"));
  set_padding(node, w, to, attributes);
  const Integers pads = attributes.has("pads") ? attributes.integers("pads") : Integers(2 * from.size(), 0);
  Integers more;
  for (std::size_t d = 0; d < from.size(); ++d)
    more.push_back(to[d] - ((from[d] - 1) * w.strides[d] + (w.kernel[d] - 1) * w.dilations[d] + 1 - pads[d] -
                            pads[d + from.size()]));
  if (std::ranges::any_of(more, [](std::int64_t m) { return m != 0; })) attributes.set("output_padding", more);
  set_window(node, w, add_window(node, "ConvTranspose", w, attributes, {filter_of(node, w)}));
}

void write_pool(OnnxExportNode& node) {
  const Windows w = windows_of(node, node.attributes().integers("ksize"));
  const bool maximum = node.node().op->name == "MaxPool";
  Attributes attributes = window_attributes(w);
  if (!maximum && attributes.has("dilations")) {
    if (std::ranges::count(w.dilations, 1) == std::ssize(w.dilations))
      attributes.erase("dilations");
    else
      node.need_opset(19);
  }
  if (node.attributes().boolean("ceil_mode")) attributes.set("ceil_mode", std::int64_t{1});
  const std::string divisor = maximum ? "" : node.attributes().string("divisor");
  const bool sums = divisor == "one";  // averages of whole windows, times their sizes
  if (sums && attributes.has("ceil_mode")) fail(Code::unimplemented, "sums of windows over the end are not written");
  if (sums || divisor == "padded") attributes.set("count_include_pad", std::int64_t{1});
  set_padding(node, w, attributes);
  const OnnxName y = add_window(node, maximum ? "MaxPool" : "AveragePool", w, attributes);
  double size = 1;
  for (const std::int64_t k : w.kernel) size *= static_cast<double>(k);
  set_window(node, w, sums ? node.add("Mul", {y, node.number_like(0, size)}) : y);
}

// Its second output has places in the whole image, in the order of our axes.
void write_pool_with_indices(OnnxExportNode& node) {
  const Windows w = windows_of(node, node.attributes().integers("ksize"));
  if (!w.channels_first) fail(Code::unimplemented, "ONNX's indices are those of images with channels first");
  Attributes attributes = window_attributes(w);
  if (node.attributes().boolean("ceil_mode")) attributes.set("ceil_mode", std::int64_t{1});
  set_padding(node, w, attributes);
  const OnnxNames made = node.add_many("MaxPool", {node.in(0)}, 2, attributes);
  node.set(0, made[0]);
  node.set(1, made[1]);
}

void write_conv_integer(OnnxExportNode& node) {
  const Windows w = windows_of_filter(node);
  Attributes attributes = window_attributes(w);
  if (node.attributes().integer("groups") != 1) attributes.set("group", node.attributes().integer("groups"));
  set_padding(node, w, attributes);
  set_window(node, w, add_window(node, "ConvInteger", w, attributes, {filter_of(node, w), node.in(2), node.in(3)}));
}

void write_same_inputs(OnnxExportNode& node) { node.set(node.add(node.node().op->name, node.all_inputs())); }

// ---- normalisations

OnnxName activated(const OnnxExportNode& node, const OnnxName& y) {
  return node.attributes().string("activation") == "relu" ? node.add("Relu", {y}) : y;
}

OnnxName cast_to(const OnnxExportNode& node, const OnnxName& x, DType from, DType to) {
  return from == to ? x : node.add("Cast", {x}, {{"to", to}});
}

// y = (x - mean) / sqrt(variance + epsilon) scale + offset, with vectors of channels.
struct Normalised {
  OnnxName x, scale, offset;
  bool images;
};
Normalised normalised(const OnnxExportNode& node) {
  const bool images = node.shape(0).has_rank() && node.rank(0) == 4;
  const OnnxName x = cast_to(node, images ? node.images(0) : node.in(0), node.dtype(0), node.dtype(1));
  return {x, images ? *node.image_operand(1) : node.in(1), images ? *node.image_operand(2) : node.in(2), images};
}

void set_normalised(const OnnxExportNode& node, const Normalised& n, const OnnxName& difference,
                    const OnnxName& variance) {
  const OnnxName deviation =
      node.add("Sqrt", {node.add("Add", {variance, node.number_like(1, node.attributes().real("epsilon"))})});
  const OnnxName scaled = node.add("Mul", {node.add("Div", {difference, deviation}), n.scale});
  const OnnxName y = activated(node, cast_to(node, node.add("Add", {scaled, n.offset}), node.dtype(1), node.dtype(0)));
  n.images ? node.set_images(0, y) : node.set(y);
}

// With the statistics of the batch.
void write_batch_norm(OnnxExportNode& node) {
  const Normalised n = normalised(node);
  Integers axes;
  for (std::int64_t d = 0; d < node.rank(0); ++d)
    if (d != (n.images ? 1 : node.rank(0) - 1)) axes.push_back(d);
  const Attributes over{{"axes", axes}, {"keepdims", kKeep}};
  const OnnxName mean = node.add("ReduceMean", {n.x}, over), difference = node.add("Sub", {n.x, mean});
  const OnnxName variance = node.add("ReduceMean", {node.add("Mul", {difference, difference})}, over);
  set_normalised(node, n, difference, variance);
  const OnnxName vector = node.integers({-1});
  if (node.wants(1)) node.set(1, node.add("Reshape", {mean, vector}));
  if (!node.wants(2)) return;
  // Of all data, as estimated from n elements: n / (n - 1) times that of the batch.
  const OnnxName all = node.add("Size", {n.x}), channels = node.add("Size", {node.in(1)});
  const OnnxName count = node.add("Cast", {node.add("Div", {all, channels})}, {{"to", node.dtype(1)}});
  const OnnxName ratio = node.add("Div", {count, node.add("Sub", {count, node.number_like(1, 1)})});
  node.set(2, node.add("Mul", {node.add("Reshape", {variance, vector}), ratio}));
}

void write_batch_norm_inference(OnnxExportNode& node) {
  const bool images = node.rank(0) == 4;
  if ((images || node.rank(0) == 2) && node.dtype(0) == node.dtype(1)) {
    const OnnxName y = node.add("BatchNormalization",
                                {images ? node.images(0) : node.in(0), node.in(1), node.in(2), node.in(3), node.in(4)},
                                {{"epsilon", node.attributes().real("epsilon")}});
    images ? node.set_images(0, activated(node, y)) : node.set(activated(node, y));
    return;
  }
  const Normalised n = normalised(node);
  const OnnxName mean = n.images ? *node.image_operand(3) : node.in(3),
                 variance = n.images ? *node.image_operand(4) : node.in(4);
  set_normalised(node, n, node.add("Sub", {n.x, mean}), variance);
}

void write_layer_norm(OnnxExportNode& node) {
  const DType own = node.dtype(0), statistics = node.dtype(1);
  Attributes attributes{{"axis", std::int64_t{-1}}, {"epsilon", node.attributes().real("epsilon")}};
  if (statistics == DType::f64) attributes.set("stash_type", DType::f64);
  const OnnxNames inputs{node.in(0), cast_to(node, node.in(1), statistics, own),
                         cast_to(node, node.in(2), statistics, own)};
  if (!node.wants(1) && !node.wants(2)) return node.set(node.add("LayerNormalization", inputs, attributes));
  const OnnxNames made = node.add_many("LayerNormalization", inputs, 3, attributes);
  node.set(0, made[0]);
  for (int i = 1; i < 3; ++i)
    if (node.wants(i)) node.set(i, node.add("Squeeze", {made[static_cast<std::size_t>(i)], node.integers({-1})}));
}

// Our mask is what x is multiplied with: 0 or 1 / (1 - rate).
void write_dropout(OnnxExportNode& node) {
  const OnnxName training = node.constant(Tensor::scalar(true)), rate = node.in(1);
  if (!node.wants(1)) return node.set(node.add("Dropout", {node.in(0), rate, training}));
  const OnnxNames made = node.add_many("Dropout", {node.in(0), rate, training}, 2);
  const OnnxName rest = node.add("Sub", {node.scalar_of(DType::f64, 1), rate});
  const OnnxName factor = cast_to(node, node.add("Reciprocal", {rest}), DType::f64, node.dtype(0));
  node.set(0, made[0]);
  node.set(1, node.add("Where", {made[1], factor, node.number_like(0, 0)}));
}

// ---- softmax and losses

void write_softmax(OnnxExportNode& node) {
  node.set(node.add(node.node().op->name, {node.in(0)}, {{"axis", node.attributes().integer("axis")}}));
}

void write_sparse_softmax_cross_entropy(OnnxExportNode& node) {
  if (node.attributes().real("label_smoothing") != 0) fail(Code::unimplemented, "ONNX has no label smoothing");
  const std::int64_t rank = node.rank(0), given = node.attributes().integer("axis");
  const std::int64_t axis = given < 0 ? given + rank : given;
  Integers perm{axis};  // the axis of classes becomes the second
  for (std::int64_t d = 0; d < rank; ++d)
    if (d != axis) perm.push_back(d);
  if (rank > 1) std::swap(perm[0], perm[1]);
  Attributes attributes{{"reduction", "none"}};
  if (const std::int64_t ignored = node.attributes().integer("ignore_index");
      ignored != std::numeric_limits<std::int64_t>::min())
    attributes.set("ignore_index", ignored);
  const OnnxName logits = axis == 1 ? node.in(0) : node.transposed(0, perm);
  node.set(node.add("SoftmaxCrossEntropyLoss", {logits, node.in(1)}, attributes));
  if (!node.wants(1) || attributes.has("ignore_index")) return;
  // softmax(logits) - one_hot(labels)
  const OnnxName probabilities = node.add("Softmax", {node.in(0)}, {{"axis", axis}});
  const OnnxName classes = node.add("Gather", {node.add("Shape", {node.in(0)}), node.integer(axis)});
  const OnnxName off_on = node.constant(Tensor::vector<float>({0, 1}));
  const OnnxName as_own = cast_to(node, off_on, DType::f32, node.dtype(0));
  const OnnxName chosen = node.add("OneHot", {node.in(1), classes, as_own}, {{"axis", axis}});
  node.set(1, node.add("Sub", {probabilities, chosen}));
}

void write_softmax_cross_entropy(OnnxExportNode& node) {
  const std::int64_t axis = node.attributes().integer("axis");
  const OnnxName logs = node.add("LogSoftmax", {node.in(0)}, {{"axis", axis}});
  const OnnxName products = node.add("Mul", {logs, node.in(1)});
  node.set(node.add("Neg", {node.add("ReduceSum", {products, node.integers({axis})}, {{"keepdims", kDrop}})}));
  if (node.wants(1)) node.set(1, node.add("Sub", {node.add("Exp", {logs}), node.in(1)}));
}

void write_sigmoid_cross_entropy(OnnxExportNode& node) {
  const OnnxName x = node.in(0), positive = node.add("Relu", {x}), product = node.add("Mul", {x, node.in(1)});
  const OnnxName tail = node.add("Softplus", {node.add("Neg", {node.add("Abs", {x})})});
  node.set(node.add("Add", {node.add("Sub", {positive, product}), tail}));
}

constexpr OnnxExportOp kNnWriters[] = {
    {"AvgPool", write_pool},
    {"BatchNorm", write_batch_norm},
    {"BatchNormInference", write_batch_norm_inference},
    {"BiasAdd", write_bias_add},
    {"Conv", write_conv},
    {"ConvInteger", write_conv_integer},
    {"ConvTranspose", write_conv_transpose},
    {"Det", write_same_inputs},
    {"Dropout", write_dropout},
    {"LayerNorm", write_layer_norm},
    {"LogSoftmax", write_softmax},
    {"MatMul", write_matmul},
    {"MatMulInteger", write_same_inputs},
    {"MaxPool", write_pool},
    {"MaxPoolWithIndices", write_pool_with_indices},
    {"QLinearMatMul", write_same_inputs},
    {"SigmoidCrossEntropy", write_sigmoid_cross_entropy},
    {"Softmax", write_softmax},
    {"SoftmaxCrossEntropy", write_softmax_cross_entropy},
    {"SparseSoftmaxCrossEntropy", write_sparse_softmax_cross_entropy},
};

}  // namespace

std::span<const OnnxExportOp> onnx_nn_writers() { return kNnWriters; }

}  // namespace troupe
