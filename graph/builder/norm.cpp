#include "troupe/graph/builder/norm.hpp"

#include <troupe/graph/builder/array.hpp>
#include <troupe/graph/builder/math.hpp>

namespace troupe {
namespace {

Attributes norm_attributes(const BatchNormOptions& options) {
  return {{"epsilon", options.epsilon}, {"activation", std::string(options.relu ? "relu" : "none")}};
}

int norm_axis(const char* function, Output x, std::int64_t axis) {
  if (!x.valid()) invalid_argument("{}: x is not a tensor", function);
  if (!x.shape().has_rank()) invalid_argument("{}: the rank of '{}' must be known", function, x.name());
  const int rank = x.shape().rank();
  if (axis < -rank || axis >= rank)
    invalid_argument("{}: axis {} is out of range: there are {} dimensions", function, axis, rank);
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

// x as [rows, width], where a row has the dimensions from `axis` on.
Output as_rows(Output x, int axis) {
  const Shape width = x.shape().sub(axis, x.shape().rank());
  if (width.fully_known() && width.num_elements() != 0) return reshape(x, Shape{kUnknown, width.num_elements()});
  const Output sizes = shape_of(x);
  const Output columns = prod(slice(sizes, {axis}, {-1}), {}, {.keep_dims = true});
  const Output rows = prod(slice(sizes, {0}, {axis}), {}, {.keep_dims = true});
  return reshape(x, concat({rows, columns}, 0));
}

// A statistic [rows] of x's rows, as x's shape before `axis` and then 1s.
Output like_rows_of(Output x, Output statistic, int axis) {
  const int rank = x.shape().rank();
  const Shape before = x.shape().sub(0, axis);
  if (before.fully_known()) {
    Integers dims(before.dims().begin(), before.dims().end());
    dims.resize(static_cast<std::size_t>(rank), 1);
    return reshape(statistic, Shape(dims));
  }
  const Output sizes = slice(shape_of(x), {0}, {axis});
  const Integers ones(static_cast<std::size_t>(rank - axis), 1);
  const Output rest = constant(*x.graph, Tensor::of<std::int64_t>(Shape{rank - axis}, ones));
  return reshape(statistic, concat({sizes, rest}, 0));
}

// Channels at dimension 1, and back.
Output channels_moved(Output x, int axis, bool back) {
  const int rank = x.shape().rank();
  if (axis == 1) return x;
  Integers perm;
  for (int d = 0; d < rank; ++d)
    if (d != axis) perm.push_back(d);
  perm.insert(perm.begin() + 1, axis);
  if (!back) return transpose(x, perm);
  Integers inverse(perm.size());
  for (std::size_t i = 0; i < perm.size(); ++i)
    inverse[static_cast<std::size_t>(perm[i])] = static_cast<std::int64_t>(i);
  return transpose(x, inverse);
}

Output grouped(const char* function, Output x, Output scale, Output offset, std::int64_t groups,
               GroupNormOptions options) {
  const int axis = x.valid() && !x.shape().has_rank() && options.axis == 1 ? 1 : norm_axis(function, x, options.axis);
  if (axis == 0) invalid_argument("{}: dimension 0 has the examples, so it has no channels", function);
  const Attributes attributes{{"groups", groups}, {"epsilon", options.epsilon}};
  if (axis == 1) return add_op("GroupNorm", {x, scale, offset}, attributes, std::move(options.name));
  const Output first = channels_moved(x, axis, false);
  return channels_moved(add_op("GroupNorm", {first, scale, offset}, attributes, std::move(options.name)), axis, true);
}

}  // namespace

BatchNormOutputs batch_norm(Output x, Output scale, Output offset, BatchNormOptions options) {
  const Outputs out = add_outputs("BatchNorm", {x, scale, offset}, norm_attributes(options), std::move(options.name));
  return {out[0], out[1], out[2]};
}
Output batch_norm_inference(Output x, Output scale, Output offset, Output mean, Output variance,
                            BatchNormOptions options) {
  return add_op("BatchNormInference",
                {std::move(x), std::move(scale), std::move(offset), std::move(mean), std::move(variance)},
                norm_attributes(options), std::move(options.name));
}

LayerNormOutputs layer_norm_outputs(Output x, Output scale, Output offset, LayerNormOptions options) {
  const Attributes attributes{{"epsilon", options.epsilon}};
  const int axis = norm_axis("layer_norm", x, options.axis);
  if (axis == x.shape().rank() - 1) {
    const Outputs out = add_outputs("LayerNorm", {x, scale, offset}, attributes, std::move(options.name));
    const Output mean = expand_dims(out[1], -1);
    return {out[0], mean, expand_dims(out[2], -1)};
  }
  const Output rows = as_rows(x, axis);
  const Output by = reshape(scale, Shape{kUnknown});
  const Output add = reshape(offset, Shape{kUnknown});
  const Outputs out = add_outputs("LayerNorm", {rows, by, add}, attributes);
  const Output y = reshape_like(out[0], x, std::move(options.name));
  const Output mean = like_rows_of(x, out[1], axis);
  return {y, mean, like_rows_of(x, out[2], axis)};
}

Output layer_norm(Output x, Output scale, Output offset, LayerNormOptions options) {
  if (options.axis == -1)
    return add_op("LayerNorm", {x, scale, offset}, {{"epsilon", options.epsilon}}, std::move(options.name));
  return layer_norm_outputs(x, scale, offset, std::move(options)).y;
}

Output rms_norm(Output x, Output scale, LayerNormOptions options) {
  const Attributes attributes{{"epsilon", options.epsilon}};
  if (options.axis == -1) return add_op("RMSNorm", {x, scale}, attributes, std::move(options.name));
  const Output rows = as_rows(x, norm_axis("rms_norm", x, options.axis));
  const Output by = reshape(scale, Shape{kUnknown});
  return reshape_like(add_op("RMSNorm", {rows, by}, attributes), x, std::move(options.name));
}

Output group_norm(Output x, Output scale, Output offset, std::int64_t groups, GroupNormOptions options) {
  if (groups < 1) invalid_argument("group_norm: there must be a group, not {}", groups);
  return grouped("group_norm", x, scale, offset, groups, std::move(options));
}
Output instance_norm(Output x, Output scale, Output offset, GroupNormOptions options) {
  return grouped("instance_norm", x, scale, offset, 0, std::move(options));
}

Output l2_normalize(Output x, Axes axes, NormalizeOptions options) {
  const Output squares = sum(square(x), axes, {.keep_dims = true});
  const Output inverse = rsqrt(maximum(squares, scalar_like(squares, options.epsilon)));
  return mul(x, inverse, std::move(options.name));
}

// x limit / max(norm, limit): within the limit, the factor is 1.
Output clip_by_norm(Output x, double limit, Axes axes, Name name) {
  if (!(limit > 0)) invalid_argument("clip_by_norm: limit {} is not positive", limit);
  const Output bound = scalar_like(x, limit);
  const Output norm = reduce_l2(x, axes, {.keep_dims = true});
  const Output factor = bound / maximum(norm, bound);
  return mul(x, factor, std::move(name));
}

Output lp_normalize(Output x, std::int64_t axis, int p, Name name) {
  if (p != 1 && p != 2) invalid_argument("lp_normalize: p is {}, not 1 or 2", p);
  const Output norm = p == 1 ? reduce_l1(x, {axis}, {.keep_dims = true}) : reduce_l2(x, {axis}, {.keep_dims = true});
  const Output none = equal(norm, scalar_like(norm, 0));
  const Output safe = select(none, scalar_like(norm, 1), norm);
  return div(x, safe, std::move(name));
}

Output mean_variance_normalize(Output x, Axes axes, NormalizeOptions options) {
  const Moments m = moments(x, axes, {.keep_dims = true});
  const Output root = sqrt(m.variance);
  const Output deviation = options.epsilon == 0 ? root : root + options.epsilon;
  return div(x - m.mean, deviation, std::move(options.name));
}

Output local_response_norm(Output x, std::int64_t size, LocalResponseNormOptions options) {
  const int axis = norm_axis("local_response_norm", x, options.axis);
  if (size < 1) invalid_argument("local_response_norm: the window is {}, not positive", size);
  const std::int64_t channels = x.shape()[axis];
  if (channels == kUnknown)
    invalid_argument("local_response_norm: the number of channels of '{}' {} must be known", x.name(),
                     x.shape().to_string());
  const auto rank = static_cast<std::size_t>(x.shape().rank());
  const auto along = static_cast<std::size_t>(axis);
  Integers before(rank, 0), after(rank, 0), begin(rank, 0), sizes(rank, -1);
  // A window that reaches beyond all channels ends there.
  before[along] = std::min((size - 1) / 2, channels);
  after[along] = std::min(size / 2, channels);
  sizes[along] = channels;
  const Output padded = pad(square(x), before, after);
  Output squares = slice(padded, begin, sizes);
  while (begin[along] < before[along] + after[along]) {
    ++begin[along];
    squares = squares + slice(padded, begin, sizes);
  }
  const Output scaled = squares * (options.alpha / static_cast<double>(size)) + options.bias;
  return mul(x, pow(scaled, scalar_like(scaled, -options.beta)), std::move(options.name));
}

}  // namespace troupe
