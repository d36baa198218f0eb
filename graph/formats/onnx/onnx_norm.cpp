// ONNX's normalisations. Its channels are dimension 1.
#include <troupe/graph/formats/onnx/onnx_node.hpp>

namespace troupe {
namespace {

DType statistics_type(Output x) { return x.dtype() == DType::f64 ? DType::f64 : DType::f32; }

// A vector [c] as [c,1,...], to be broadcast along dimension 1 of x.
Output along_channels(Output vector, Output x) {
  Integers dims(static_cast<std::size_t>(std::max(1, x.shape().rank() - 1)), 1);
  dims[0] = -1;
  return dims.size() == 1 ? vector : reshape(vector, Shape(dims));
}

void require_rank(Output x) {
  if (!x.shape().has_rank()) fail(Code::unimplemented, "the rank of the input must be known");
}

// y = (x - mean) factor + offset, in the dtype of the statistics.
Output normalised(Output x, Output mean, Output variance, Output scale, Output offset, double epsilon) {
  const DType own = mean.dtype();
  const Output inverse = rsqrt(variance + epsilon);
  const Output factor = inverse * cast(scale, own);
  const Output moved = mean * factor;
  const Output shift = cast(offset, own) - moved;
  const Output wide = cast(x, own);
  const Output scaled = wide * along_channels(factor, x);
  return cast(scaled + along_channels(shift, x), x.dtype());
}

// Training: the moments of the batch, in f32 or wider, and running averages that follow them.
void batch_norm_training(OnnxNode& node, double epsilon) {
  const Output x = node.in(0);
  const double momentum = node.real("momentum", 0.9);
  const DType own = statistics_type(x);
  Integers axes{0};
  for (int d = 2; d < x.shape().rank(); ++d) axes.push_back(d);
  const Moments batch = moments(cast(x, own), axes);
  node.set(normalised(x, batch.mean, batch.variance, node.in(1), node.in(2), epsilon));
  const auto follow = [&](int input, Output now) {
    const Output before = node.in(input);
    const Output kept = cast(before, own) * momentum;
    return cast(kept + now * (1 - momentum), before.dtype());
  };
  if (node.wants(1)) node.set(1, follow(3, batch.mean));
  if (node.wants(2)) node.set(2, follow(4, batch.variance));
  // Opset 7 to 13: those of the batch.
  if (node.wants(3)) node.set(3, cast(batch.mean, node.in(3).dtype()));
  if (node.wants(4)) node.set(4, cast(batch.variance, node.in(4).dtype()));
}

// With channels last, which is how our op has them; false if it is not.
bool set_batch_norm_of_last(OnnxNode& node, double epsilon) {
  const Output images = node.images(0);
  if (!images.valid() && node.in(0).shape().rank() != 2) return false;
  const Output x = images.valid() ? images : node.in(0);
  for (int i = 1; i < 5; ++i)
    if (node.in(i).dtype() != statistics_type(x)) return false;
  const Output y = batch_norm_inference(x, node.in(1), node.in(2), node.in(3), node.in(4), {.epsilon = epsilon});
  images.valid() ? node.set_images(0, y) : node.set(y);
  return true;
}

void batch_norm_node(OnnxNode& node) {
  const OnnxViewPtr view = node.view(0);
  const Output x = view ? view->source : node.in(0);  // of which the rank and dtype are read
  require_rank(x);
  if (node.opset() < 9 && node.integer("spatial", 1) == 0)
    fail(Code::unimplemented, "statistics of each position (spatial=0) are not supported");
  const double epsilon = node.real("epsilon", 1e-5);
  const bool training = node.opset() >= 14  ? node.integer("training_mode", 0) != 0
                        : node.opset() >= 7 ? node.num_outputs() > 1
                                            : node.integer("is_test", 0) == 0 && node.num_outputs() > 1;
  if (training) return batch_norm_training(node, epsilon);
  if (set_batch_norm_of_last(node, epsilon)) return;
  const DType own = statistics_type(x);
  const Output mean = cast(node.in(3), own);
  const Output variance = cast(node.in(4), own);
  node.set(normalised(node.in(0), mean, variance, node.in(1), node.in(2), epsilon));
}

void instance_norm_node(OnnxNode& node) {
  const Output x = node.in(0);
  const Output scale = cast(node.in(1), statistics_type(x));
  const Output offset = cast(node.in(2), statistics_type(x));
  node.set(instance_norm(x, scale, offset, {.epsilon = node.real("epsilon", 1e-5)}));
}

// Opset 18 has a scale and offset for each group, 21 for each channel.
Output of_channels(OnnxNode& node, Output vector, std::int64_t groups) {
  const Output own = cast(vector, statistics_type(node.in(0)));
  if (node.opset() >= 21) return own;
  const std::int64_t channels = node.in(0).shape().has_rank() ? node.in(0).shape()[1] : kUnknown;
  if (channels == kUnknown) fail(Code::unimplemented, "the number of channels must be known before opset 21");
  return reshape(tile(reshape(own, Shape{groups, 1}), {1, channels / groups}), Shape{channels});
}

void group_norm_node(OnnxNode& node) {
  const std::int64_t groups = node.integer("num_groups");
  if (groups < 1) invalid_argument("attribute 'num_groups' is {}, not positive", groups);
  const Output scale = of_channels(node, node.in(1), groups);
  const Output offset = of_channels(node, node.in(2), groups);
  node.set(group_norm(node.in(0), scale, offset, groups, {.epsilon = node.real("epsilon", 1e-5)}));
}

// Whether a scale has exactly the sizes of x from the axis on, and need not be broadcast.
bool fits_rows(Output scale, Output x, int axis) {
  const Shape row = x.shape().sub(axis, x.shape().rank());
  return !scale.shape().fully_known() || !row.fully_known() || scale.shape() == row;
}

void layer_norm_node(OnnxNode& node) {
  const Output x = node.in(0);
  require_rank(x);
  const std::int64_t given = node.integer("axis", -1);
  const int rank = x.shape().rank();
  if (given < -rank || given >= rank) invalid_argument("axis {} is out of range: there are {} dimensions", given, rank);
  const int axis = static_cast<int>(given < 0 ? given + rank : given);
  const DType own = statistics_type(x), stash = node.dtype("stash_type", DType::f32);
  const Output scale = cast(node.in(1), own);
  const Output offset = node.has(2) ? cast(node.in(2), own) : zeros_like(scale);
  const LayerNormOptions options{.epsilon = node.real("epsilon", 1e-5), .axis = axis};
  LayerNormOutputs out;
  const bool fits = fits_rows(scale, x, axis) && fits_rows(offset, x, axis);
  if (fits && !node.wants(1) && !node.wants(2)) return node.set(layer_norm(x, scale, offset, options));
  if (fits) {
    out = layer_norm_outputs(x, scale, offset, options);
  } else {
    Integers axes;
    for (int d = axis; d < rank; ++d) axes.push_back(d);
    const Moments m = moments(cast(x, own), axes, {.keep_dims = true});
    out.mean = m.mean;
    out.inverse_deviation = rsqrt(m.variance + options.epsilon);
    const Output normal = (cast(x, own) - m.mean) * out.inverse_deviation;
    out.y = cast(normal * scale + offset, x.dtype());
  }
  node.set(out.y);
  if (node.wants(1)) node.set(1, cast(out.mean, stash));
  if (node.wants(2)) node.set(2, cast(out.inverse_deviation, stash));
}

void lrn_node(OnnxNode& node) {
  node.set(local_response_norm(
      node.in(0), node.integer("size"),
      {.alpha = node.real("alpha", 1e-4), .beta = node.real("beta", 0.75), .bias = node.real("bias", 1)}));
}

void lp_normalization_node(OnnxNode& node) {
  node.set(lp_normalize(node.in(0), node.integer("axis", -1), static_cast<int>(node.integer("p", 2))));
}

void mean_variance_node(OnnxNode& node) {
  node.set(mean_variance_normalize(node.in(0), node.integers("axes", Integers{0, 2, 3}), {.epsilon = 1e-9}));
}

constexpr OnnxOp kNormOps[] = {
    {"BatchNormalization", batch_norm_node, OnnxImages::itself},
    {"GroupNormalization", group_norm_node},
    {"InstanceNormalization", instance_norm_node},
    {"LRN", lrn_node},
    {"LayerNormalization", layer_norm_node},
    {"LpNormalization", lp_normalization_node},
    {"MeanVarianceNormalization", mean_variance_node},
};

}  // namespace

std::span<const OnnxOp> onnx_norm_ops() { return kNormOps; }

}  // namespace troupe
