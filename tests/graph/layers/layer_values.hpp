// Values of layers on the CPU, with weights and inputs of fixed patterns, which the reference values in tests have,
// too.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "tests/graph/programs/evaluate.hpp"
#include <troupe/graph/layers/layers.hpp>

namespace troupe::testing {

// f32: element i is ((7 i + 2 + 3 salt) mod 11 - 5) / 4.
Tensor input_pattern(const Shape& shape, int salt = 0);
// f32: element i is ((5 i + 3 salt) mod 13 - 6) / 8; absolute values for a variance.
Tensor weight_pattern(const Shape& shape, int salt, bool positive = false);

struct Applied {
  std::vector<Tensor> outputs{};
  std::vector<std::string> variables{};  // "dense/kernel[3,2]", in order of creation
};
// The results of a layer for these inputs. Its variable number i has weight_pattern(.., i).
Applied apply_layer(const LayerPtr& layer, const std::vector<Tensor>& inputs, bool training = false);

// Fails unless the tensor has this shape and these values, within `tolerance` of the larger of 1 and the value.
void expect_near(const Tensor& y, const Shape& shape, const std::vector<double>& values, double tolerance = 1e-5);

}  // namespace troupe::testing
