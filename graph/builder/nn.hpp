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
