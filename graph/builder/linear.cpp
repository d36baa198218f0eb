#include "troupe/graph/builder/linear.hpp"

namespace troupe {

Output matmul(Output a, Output b, MatMulOptions options) {
  return add_op("MatMul", {a, b}, {{"transpose_a", options.transpose_a}, {"transpose_b", options.transpose_b}},
                std::move(options.name));
}
Output bias_add(Output x, Output bias, Name name) { return add_op("BiasAdd", {x, bias}, {}, std::move(name)); }

}  // namespace troupe
