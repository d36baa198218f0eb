// Builder API for linear algebra.
#pragma once

#include <troupe/graph/builder/core.hpp>

namespace troupe {

struct MatMulOptions {
  bool transpose_a = false;
  bool transpose_b = false;
  Name name{};
};
Output matmul(Output a, Output b, MatMulOptions options = {});
Output bias_add(Output x, Output bias, Name name = {});

}  // namespace troupe
