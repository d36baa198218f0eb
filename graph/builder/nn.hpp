// Builder API for neural networks: dropout.
#pragma once

#include <troupe/graph/builder/core.hpp>

namespace troupe {

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
