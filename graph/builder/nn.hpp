// Builder API for neural networks. Images are NHWC, filters HWIO [height, width, in, out].
#pragma once

#include <troupe/graph/builder/core.hpp>
#include <troupe/graph/builder/padding.hpp>

namespace troupe {

std::string to_string(Padding padding);  // the value of the attribute

struct Conv2DOptions {
  Integers strides = {1, 1};  // height, width
  Padding padding = Padding::same;
  Name name{};
};
Output conv2d(Output x, Output filter, Conv2DOptions options = {});

struct PoolOptions {
  Integers ksize = {2, 2};
  Integers strides = {2, 2};
  Padding padding = Padding::same;
  Name name{};
};
Output max_pool(Output x, PoolOptions options = {});
Output avg_pool(Output x, PoolOptions options = {});  // padding does not count

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
// [c]; they and the statistics are f32 (f64 if x is f64), regardless of x's dtype. Gradients flow through y only.
BatchNormOutputs batch_norm(Output x, Output scale, Output offset, BatchNormOptions options = {});
// The same with a given mean and variance [c].
Output batch_norm_inference(Output x, Output scale, Output offset, Output mean, Output variance,
                            BatchNormOptions options = {});

struct LayerNormOptions {
  double epsilon = 1e-5;
  Name name{};
};
// Layer normalisation over the last dimension (Ba, Kiros & Hinton 2016): each row [c] on its own. scale and offset [c]
// are f32 (f64 if x is f64).
Output layer_norm(Output x, Output scale, Output offset, LayerNormOptions options = {});

struct DropoutOptions {
  std::int64_t seed = 0;
  Name name{};
};
struct DropoutOutputs {
  Output y{};     // x mask
  Output mask{};  // of x's dtype: 0 with probability `rate`, else 1 / (1 - rate)
};
// Zeroes each element with probability `rate`, a f64 scalar in [0, 1), and scales the others by 1 / (1 - rate).
DropoutOutputs dropout(Output x, Output rate, DropoutOptions options = {});
Output dropout(Output x, double rate, DropoutOptions options = {});

}  // namespace troupe
