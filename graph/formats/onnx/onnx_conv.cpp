// ONNX's convolutions and pools: channels first.
#include <algorithm>

#include <troupe/graph/formats/onnx/onnx_node.hpp>

namespace troupe {
namespace {

constexpr DataFormat kFirst = DataFormat::channels_first;

Padding padding_of(const OnnxNode& node) {
  const std::string padding = node.string("auto_pad", "NOTSET");
  if (padding.empty() || padding == "NOTSET") return Padding::explicit_pads;
  if (padding == "SAME_UPPER") return Padding::same;
  if (padding == "SAME_LOWER") return Padding::same_lower;
  if (padding == "VALID") return Padding::valid;
  invalid_argument("attribute 'auto_pad' is '{}', not NOTSET, SAME_UPPER, SAME_LOWER or VALID", padding);
}

template <class Options>
Options window_of(const OnnxNode& node) {
  Options options;
  options.strides = node.integers("strides", Integers{});
  options.dilations = node.integers("dilations", Integers{});
  options.padding = padding_of(node);
  if (options.padding == Padding::explicit_pads) options.pads = node.integers("pads", Integers{});
  options.format = kFirst;
  return options;
}

// Values for each channel: [c] as [c, 1, ...], to be broadcast over an image of this rank.
Output for_channels(Output values, const Shape& image) {
  if (!image.has_rank()) invalid_argument("the rank of the image must be known");
  const Shape& shape = values.shape();
  if (shape.has_rank() && shape.rank() == 0) return values;
  std::vector<std::int64_t> dims(static_cast<std::size_t>(image.rank() - 1), 1);
  dims[0] = kUnknown;
  return reshape(values, Shape(dims));
}

// ---- convolutions

ConvOptions conv_options(const OnnxNode& node) {
  auto options = window_of<ConvOptions>(node);
  options.groups = node.integer("group", 1);
  return options;
}

void conv_node(OnnxNode& node) {
  if (const Output x = node.images(0); x.valid()) {
    ConvOptions options = conv_options(node);
    options.format = DataFormat::channels_last;
    const Output y = conv(x, node.transposed(1, kOnnxFromFilter), options);
    return node.set_images(0, node.has(2) ? bias_add(y, node.in(2)) : y);
  }
  const Output y = conv(node.in(0), node.in(1), conv_options(node));
  node.set(node.has(2) ? bias_add(y, node.in(2), kFirst) : y);
}

// The pads that give an output of these sizes.
Integers pads_for(const OnnxNode& node, const ConvTransposeOptions& options, const Integers& sizes) {
  const Shape &x = node.in(0).shape(), &filter = node.in(1).shape();
  const int spatial = static_cast<int>(sizes.size());
  for (const Integers* list : {&options.strides, &options.dilations, &options.output_padding})
    if (!list->empty() && list->size() != sizes.size())
      invalid_argument("attribute 'output_shape' has {} numbers, another attribute has {}", sizes.size(), list->size());
  const auto entry = [](const Integers& list, int i, std::int64_t otherwise) {
    return list.empty() ? otherwise : list[static_cast<std::size_t>(i)];
  };
  Integers before, after;
  for (int i = 0; i < spatial; ++i) {
    if (!x.has_rank() || !filter.has_rank() || x[2 + i] == kUnknown || filter[2 + i] == kUnknown)
      fail(Code::unimplemented,
           "with 'output_shape', the sizes of the input and filter must be known, but are {} and {}", x.to_string(),
           filter.to_string());
    const std::int64_t covered = entry(options.strides, i, 1) * (x[2 + i] - 1) + entry(options.output_padding, i, 0) +
                                 (filter[2 + i] - 1) * entry(options.dilations, i, 1) + 1;
    const std::int64_t total = std::max<std::int64_t>(0, covered - sizes[static_cast<std::size_t>(i)]);
    before.push_back(options.padding == Padding::same ? total / 2 : total - total / 2);
    after.push_back(total - before.back());
  }
  before.insert(before.end(), after.begin(), after.end());
  return before;
}

void conv_transpose_node(OnnxNode& node) {
  auto options = window_of<ConvTransposeOptions>(node);
  options.groups = node.integer("group", 1);
  options.output_padding = node.integers("output_padding", Integers{});
  Integers sizes = node.integers("output_shape", Integers{});
  const Shape& filter = node.in(1).shape();
  // Old models give batch and channels too.
  if (filter.has_rank() && filter.rank() >= 2 && static_cast<int>(sizes.size()) == filter.rank())
    sizes.erase(sizes.begin(), sizes.begin() + 2);
  if (!sizes.empty()) {
    options.pads = pads_for(node, options, sizes);
    options.padding = Padding::explicit_pads;
    options.output_padding = {};
  }
  const Output y = conv_transpose(node.in(0), node.in(1), sizes, options);
  node.set(node.has(2) ? bias_add(y, node.in(2), kFirst) : y);
}

// A zero point: that input or 0 of the dtype of `like`.
Output zero_point(const OnnxNode& node, int index, Output like) {
  if (node.has(index)) return node.in(index);
  return scalar_like(like, 0);
}
void conv_integer_node(OnnxNode& node) {
  const Output x_zero = as_scalar(zero_point(node, 2, node.in(0)));
  const Output filter_zero = zero_point(node, 3, node.in(1));
  node.set(conv_integer(node.in(0), node.in(1), x_zero, filter_zero, conv_options(node)));
}

// Rounds to nearest, ties to even, and saturates.
Output quantized(Output real, Output zero) {
  const DType dtype = zero.dtype();
  const bool is_signed = dtype == DType::i8;
  const Output shifted = round(real) + cast(zero, real.dtype());
  const Output least = maximum(shifted, scalar_like(real, is_signed ? -128 : 0));
  return cast(minimum(least, scalar_like(real, is_signed ? 127 : 255)), dtype);
}

void qlinear_conv_node(OnnxNode& node) {
  const Output x_zero = as_scalar(node.in(2));
  Output sum = conv_integer(node.in(0), node.in(3), x_zero, node.in(5), conv_options(node));
  if (node.has(8)) sum = sum + for_channels(node.in(8), sum.shape());
  const Output scales = node.in(1) * node.in(4);
  const Output scale = for_channels(scales / node.in(6), sum.shape());
  node.set(quantized(cast(sum, DType::f32) * scale, as_scalar(node.in(7))));
}

// ---- pools

PoolOptions pool_options(const OnnxNode& node) {
  auto options = window_of<PoolOptions>(node);
  options.ksize = node.integers("kernel_shape");
  options.ceil_mode = node.integer("ceil_mode", 0) != 0 && options.padding == Padding::explicit_pads;
  return options;
}

// The same pool of images with channels last, or first.
template <class Pool>
void set_pool(OnnxNode& node, Pool pool) {
  PoolOptions options = pool_options(node);
  const Output x = node.images(0);
  if (!x.valid()) return node.set(pool(node.in(0), options));
  options.format = DataFormat::channels_last;
  node.set_images(0, pool(x, options));
}

// Indices into an image whose spatial axes are in the opposite order.
Output column_major(Output indices, Output x) {
  const Shape& shape = x.shape();
  const Output sizes = shape_of(x);
  const auto axis_size = [&](int axis) { return reshape(slice(sizes, {axis}, {1}), Shape{}); };
  Output plane = constant<std::int64_t>(*x.graph, 1);
  for (int axis = 2; axis < shape.rank(); ++axis) plane = plane * axis_size(axis);
  const Output whole = div(indices, plane) * plane;
  Output rest = indices - whole, out = whole;
  for (int axis = shape.rank() - 1; axis >= 2; --axis) {
    const Output count = axis_size(axis), next = div(rest, count);
    const Output position = rest - next * count;
    plane = div(plane, count);  // the axes before this one
    out = out + position * plane;
    rest = next;
  }
  return out;
}

void max_pool_node(OnnxNode& node) {
  if (!node.wants(1)) return set_pool(node, [](Output x, const PoolOptions& options) { return max_pool(x, options); });
  const Output x = node.in(0);
  const MaxPoolOutputs out = max_pool_with_indices(x, pool_options(node));
  node.set(0, out.y);
  node.set(1, node.integer("storage_order", 0) == 0 ? out.indices : column_major(out.indices, x));
}

void average_pool_node(OnnxNode& node) {
  const bool padded = node.integer("count_include_pad", 0) != 0;
  set_pool(node, [&](Output x, const PoolOptions& options) {
    return avg_pool(x, options, padded ? PoolDivisor::padded : PoolDivisor::existing);
  });
}

// An integer since opset 2.
double power_of(const OnnxNode& node) {
  return node.opset() < 2 ? node.real("p", 2.0) : static_cast<double>(node.integer("p", 2));
}

void lp_pool_node(OnnxNode& node) { node.set(lp_pool(node.in(0), power_of(node), pool_options(node))); }

// Indices are into the image that the attributes give; a larger output has it in its first corner.
void max_unpool_node(OnnxNode& node) {
  const Output x = node.in(0);
  const Shape& shape = x.shape();
  const Integers kernel = node.integers("kernel_shape"), ones(kernel.size(), 1), none(2 * kernel.size(), 0);
  const Integers strides = node.integers("strides", ones), pads = node.integers("pads", none);
  if (!shape.fully_known() || shape.rank() != static_cast<int>(kernel.size()) + 2)
    fail(Code::unimplemented, "the shape of the input must be known, with {} dimensions, but is {}", kernel.size() + 2,
         shape.to_string());
  if (strides.size() != kernel.size() || pads.size() != 2 * kernel.size())
    invalid_argument("{} strides and {} pads for {} dimensions", strides.size(), pads.size(), kernel.size());
  Integers sizes{shape[0], shape[1]};
  for (std::size_t i = 0; i < kernel.size(); ++i)
    sizes.push_back((shape[static_cast<int>(i) + 2] - 1) * strides[i] - pads[i] - pads[kernel.size() + i] + kernel[i]);
  const auto count = static_cast<std::int64_t>(sizes.size());
  const Output dims =
      constant(node.graph(), Tensor::of<std::int64_t>(Shape{count}, std::span<const std::int64_t>(sizes)));
  if (!node.has(2)) return node.set(max_unpool(x, node.in(1), dims));
  // Indices into the output, whose first corner is the image.
  const Output wanted = node.in(2);
  Output rest = node.in(1), step = constant<std::int64_t>(node.graph(), 1);
  Output moved = zeros_like(rest);
  for (std::int64_t axis = shape.rank() - 1; axis >= 0; --axis) {
    const Output size = constant<std::int64_t>(node.graph(), sizes[static_cast<std::size_t>(axis)]);
    const Output next = div(rest, size);
    const Output position = rest - next * size;
    moved = moved + position * step;
    step = step * reshape(slice(wanted, {axis}, {1}), Shape{});
    rest = next;
  }
  node.set(max_unpool(x, moved, wanted));
}

template <Output (*pool)(Output, DataFormat)>
void global_pool_node(OnnxNode& node) {
  const Output x = node.images(0);
  x.valid() ? node.set_images(0, pool(x, DataFormat::channels_last)) : node.set(pool(node.in(0), kFirst));
}
void global_lp_pool_node(OnnxNode& node) { node.set(global_lp_pool(node.in(0), power_of(node), kFirst)); }

void col2im_node(OnnxNode& node) {
  const Integers image = node.integers_in(1, "the shape of the image"), block = node.integers_in(2, "the block");
  node.set(col2im(node.in(0), image, block,
                  {.strides = node.integers("strides", Integers{}),
                   .dilations = node.integers("dilations", Integers{}),
                   .pads = node.integers("pads", Integers{})}));
}

constexpr OnnxOp kConvOps[] = {
    {"AveragePool", average_pool_node, OnnxImages::itself},
    {"Col2Im", col2im_node},
    {"Conv", conv_node, OnnxImages::itself},
    {"ConvInteger", conv_integer_node},
    {"ConvTranspose", conv_transpose_node},
    {"GlobalAveragePool", global_pool_node<global_avg_pool>, OnnxImages::itself},
    {"GlobalLpPool", global_lp_pool_node},
    {"GlobalMaxPool", global_pool_node<global_max_pool>, OnnxImages::itself},
    {"LpPool", lp_pool_node},
    {"MaxPool", max_pool_node, OnnxImages::itself},
    {"MaxUnpool", max_unpool_node},
    {"QLinearConv", qlinear_conv_node},
};

}  // namespace

std::span<const OnnxOp> onnx_conv_ops() { return kConvOps; }

}  // namespace troupe
