// The builder API of neural networks (see graph/ops.hpp). Images are NHWC, filters HWIO [height, width, in,
// out].
#pragma once

#include "graph/ops.hpp"
#include "graph/padding.hpp"

namespace troupe {

Output softmax(Output x, Name name = {});      // over the last axis
Output log_softmax(Output x, Name name = {});  // over the last axis
// logits [n,c], labels [n] (class numbers) -> loss [n].
Output sparse_softmax_cross_entropy(Output logits, Output labels, Name name = {});
// logits [n,c], labels [n,c] (probabilities; rows sum to 1) -> loss [n].
Output softmax_cross_entropy(Output logits, Output labels, Name name = {});
// Elementwise, of independent classes: max(x,0) - x z + log(1 + exp(-|x|)).
Output sigmoid_cross_entropy(Output logits, Output labels, Name name = {});

std::string to_string(Padding padding);  // the value of the attribute

struct Conv2DOptions {
  Integers strides = {1, 1};  // height, width
  Padding padding = Padding::same;
  Name name;
};
Output conv2d(Output x, Output filter, Conv2DOptions options = {});

struct PoolOptions {
  Integers ksize = {2, 2};
  Integers strides = {2, 2};
  Padding padding = Padding::same;
  Name name;
};
Output max_pool(Output x, PoolOptions options = {});
Output avg_pool(Output x, PoolOptions options = {});  // padding does not count

struct DropoutOptions {
  std::int64_t seed = 0;
  Name name;
};
// Zeroes each element with probability `rate` in [0, 1) and scales the others by 1 / (1 - rate).
Output dropout(Output x, double rate, DropoutOptions options = {});

}  // namespace troupe
