// TensorFlow's convolutions, pools, normalisations and softmax.
#include <troupe/graph/formats/saved_model/node.hpp>

namespace troupe {
namespace {

// Strides and the like have an entry for each dimension of images; the others' are 1.
Integers spatial(const TfNode& node, const char* name, DataFormat format) {
  const Integers all = node.integers(name);
  if (all.empty()) return {};
  if (all.size() < 3) fail(Code::data_loss, "attribute '{}' has {} entries", name, all.size());
  const auto first = static_cast<std::ptrdiff_t>(format == DataFormat::channels_last ? 1 : 2);
  const Integers out(all.begin() + first, all.begin() + first + std::ssize(all) - 2);
  const std::int64_t channels = format == DataFormat::channels_last ? all.back() : all[1];
  if (all[0] != 1 || channels != 1) fail(Code::unimplemented, "attribute '{}' of batches or channels is not 1", name);
  return out;
}

DataFormat tf_format(const TfNode& node) {
  const std::string text = node.string("data_format", "NHWC");
  if (text == "NHWC" || text == "NDHWC") return DataFormat::channels_last;
  if (text == "NCHW" || text == "NCDHW") return DataFormat::channels_first;
  fail(Code::unimplemented, "the data format '{}' is not supported", text);
}

// Pads of explicit padding: before all axes, then after.
struct TfPadding {
  Padding kind = Padding::same;
  Integers pads{};
};
TfPadding tf_padding(const TfNode& node, DataFormat format) {
  const std::string text = node.string("padding", "");
  if (text == "SAME") return {Padding::same, {}};
  if (text == "VALID") return {Padding::valid, {}};
  const Integers all = node.integers("explicit_paddings");
  if (text != "EXPLICIT" || all.size() < 6 || all.size() % 2 != 0)
    fail(Code::data_loss, "the padding '{}' of {} numbers", text, all.size());
  TfPadding out{Padding::explicit_pads, {}};
  const std::size_t rank = all.size() / 2, first = format == DataFormat::channels_last ? 1 : 2;
  for (const std::size_t side : {std::size_t{0}, std::size_t{1}})
    for (std::size_t d = first; d < first + rank - 2; ++d) out.pads.push_back(all[2 * d + side]);
  return out;
}

ConvOptions conv_options(const TfNode& node) {
  ConvOptions options;
  options.format = tf_format(node);
  const TfPadding padding = tf_padding(node, options.format);
  options.strides = spatial(node, "strides", options.format);
  options.dilations = spatial(node, "dilations", options.format);
  options.padding = padding.kind;
  options.pads = padding.pads;
  return options;
}

void last_channels_only(const TfNode& node) {
  if (tf_format(node) != DataFormat::channels_last)
    fail(Code::unimplemented, "images with channels first are not supported");
}

// Filters are [spatial...,in / groups,out].
void tf_conv(TfNode& node) {
  last_channels_only(node);
  ConvOptions options = conv_options(node);
  const Shape x = node.in(0).shape(), filter = node.in(1).shape();
  if (!x.has_rank() || !filter.has_rank() || x.rank() < 3 || filter.rank() != x.rank() || x[-1] == kUnknown ||
      filter[-2] < 1 || x[-1] % filter[-2] != 0)
    fail(Code::unimplemented, "images {} and filter {}", x.to_string(), filter.to_string());
  options.groups = x[-1] / filter[-2];
  node.set(conv(node.in(0), node.in(1), options));
}
void tf_depthwise(TfNode& node) {
  last_channels_only(node);
  node.set(depthwise_conv2d(node.in(0), node.in(1), conv_options(node)));
}
// The transposed convolution: sizes of the result, filter [h,w,out,in], images.
void tf_conv_backprop_input(TfNode& node) {
  last_channels_only(node);
  const ConvOptions given = conv_options(node);
  if (given.padding == Padding::explicit_pads) fail(Code::unimplemented, "explicit padding is not supported");
  ConvTransposeOptions options;
  options.strides = given.strides;
  options.dilations = given.dilations;
  options.padding = given.padding;
  const Output sizes = cast(node.in(0), DType::i64);
  node.set(conv_transpose(node.in(2), node.in(1), slice(sizes, {1}, {std::ssize(given.strides)}), options));
}

PoolOptions pool_options(const TfNode& node) {
  PoolOptions options;
  options.format = tf_format(node);
  const TfPadding padding = tf_padding(node, options.format);
  options.ksize = spatial(node, "ksize", options.format);
  options.strides = spatial(node, "strides", options.format);
  options.padding = padding.kind;
  options.pads = padding.pads;
  return options;
}
void tf_max_pool(TfNode& node) { node.set(max_pool(node.in(0), pool_options(node))); }
void tf_avg_pool(TfNode& node) { node.set(avg_pool(node.in(0), pool_options(node))); }

void tf_bias_add(TfNode& node) { node.set(bias_add(node.in(0), node.in(1), tf_format(node))); }

void tf_fused_batch_norm(TfNode& node) {
  if (node.boolean("is_training", true))
    fail(Code::unimplemented, "normalisation by the statistics of a batch (is_training) is not supported");
  last_channels_only(node);
  const Output x = node.in(0), scale = node.in(1), offset = node.in(2), mean = node.in(3), variance = node.in(4);
  const Output factor = mul(rsqrt(add(variance, scalar_like(variance, node.real("epsilon", 1e-4)))), scale);
  node.set(add(mul(x, factor), sub(offset, mul(mean, factor))));
}

void tf_softmax(TfNode& node) { node.set(softmax(node.in(0))); }
void tf_log_softmax(TfNode& node) { node.set(log_softmax(node.in(0))); }

constexpr TfOp kTfNnOps[] = {
    {"AvgPool", tf_avg_pool},
    {"AvgPool3D", tf_avg_pool},
    {"BiasAdd", tf_bias_add},
    {"Conv2D", tf_conv},
    {"Conv2DBackpropInput", tf_conv_backprop_input},
    {"Conv3D", tf_conv},
    {"DepthwiseConv2dNative", tf_depthwise},
    {"FusedBatchNorm", tf_fused_batch_norm, "y,batch_mean,batch_variance"},
    {"FusedBatchNormV2", tf_fused_batch_norm, "y,batch_mean,batch_variance"},
    {"FusedBatchNormV3", tf_fused_batch_norm, "y,batch_mean,batch_variance"},
    {"LogSoftmax", tf_log_softmax},
    {"MaxPool", tf_max_pool},
    {"MaxPool3D", tf_max_pool},
    {"Softmax", tf_softmax},
};

}  // namespace

std::span<const TfOp> tensorflow_nn_ops() { return kTfNnOps; }

}  // namespace troupe
