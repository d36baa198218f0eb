// Builder API for normalisation. Scales, offsets and statistics are f32 (f64 if x is f64), regardless of x's dtype.
#pragma once

#include <troupe/graph/builder/core.hpp>
#include <troupe/graph/builder/reduce.hpp>

namespace troupe {

struct BatchNormOptions {
  double epsilon = 1e-5;
  // y = max(y, 0), in the same kernels. Pays off because these ops are memory-bound: per bf16 element, a batch_norm and
  // a separate relu move 6 + 4 bytes forward and 10 + 6 back; combined, 6 and 10. (Fusing a residual sum in between
  // would save 6 of 28: that is left to fused elementwise ops.)
  bool relu = false;
  Name name{};
};
struct BatchNormOutputs {
  Output y{};     // of x's dtype
  Output mean{};  // [c], of the batch
  // [c]: of the batch, as an estimate for all data: n / (n - 1) times the mean squared distance
  Output variance;
};
// Batch normalisation over all dimensions but the last (Ioffe & Szegedy 2015): x [...,c] -> y = scale (x - mean) /
// sqrt(mean squared distance + epsilon) + offset, with the mean of the n elements of each channel. scale and offset are
// [c].
BatchNormOutputs batch_norm(Output x, Output scale, Output offset, BatchNormOptions options = {});
// The same with a given mean and variance [c].
Output batch_norm_inference(Output x, Output scale, Output offset, Output mean, Output variance,
                            BatchNormOptions options = {});

struct LayerNormOptions {
  double epsilon = 1e-5;
  std::int64_t axis = -1;  // the first of the dimensions that are normalised together
  Name name{};
};
// Layer normalisation over the dimensions from `axis` on (Ba, Kiros & Hinton 2016): each row of them on its own. scale
// and offset have their sizes: [c] by default.
Output layer_norm(Output x, Output scale, Output offset, LayerNormOptions options = {});
struct LayerNormOutputs {
  Output y{};  // of x's dtype
  // With x's shape before `axis`, then 1s. No gradient flows through these.
  Output mean{};
  Output inverse_deviation{};
};
LayerNormOutputs layer_norm_outputs(Output x, Output scale, Output offset, LayerNormOptions options = {});
// Root mean square normalisation (Zhang & Sennrich 2019): y = x / sqrt(mean(x^2) + epsilon) scale, over the same.
Output rms_norm(Output x, Output scale, LayerNormOptions options = {});

struct GroupNormOptions {
  double epsilon = 1e-5;
  std::int64_t axis = 1;  // of the channels; a tensor is transposed if it is another
  Name name{};
};
// Group normalisation (Wu & He 2018): x [n,c,...], whose channels are cut into groups that are normalised together, in
// each example on its own. scale and offset are [c].
Output group_norm(Output x, Output scale, Output offset, std::int64_t groups, GroupNormOptions options = {});
// One group for each channel (Ulyanov et al. 2016).
Output instance_norm(Output x, Output scale, Output offset, GroupNormOptions options = {});

struct NormalizeOptions {
  double epsilon = 1e-12;
  Name name{};
};
// x / sqrt(max(sum over the axes of x^2, epsilon)).
Output l2_normalize(Output x, Axes axes = {}, NormalizeOptions options = {});
// x, scaled down where the root of the sum of squares over the axes exceeds `limit` (a positive number) to have that.
Output clip_by_norm(Output x, double limit, Axes axes = {}, Name name = {});
// x / norm, with the sum of magnitudes (p = 1) or the root of the sum of squares (p = 2); 0 where the norm is 0.
Output lp_normalize(Output x, std::int64_t axis, int p = 2, Name name = {});
// (x - mean) / sqrt(variance) over the axes; epsilon is added to the root.
Output mean_variance_normalize(Output x, Axes axes = {}, NormalizeOptions options = {.epsilon = 0});

struct LocalResponseNormOptions {
  double alpha = 1e-4;
  double beta = 0.75;
  double bias = 1;
  std::int64_t axis = 1;  // of the channels
  Name name{};
};
// x / (bias + alpha / size * sum of the squares of `size` channels around it)^beta (Krizhevsky et al. 2012), with
// channels c - (size - 1) / 2 to c + size / 2 that exist. Their number must be known.
Output local_response_norm(Output x, std::int64_t size, LocalResponseNormOptions options = {});

}  // namespace troupe
