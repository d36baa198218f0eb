// Activations of recurrent layers: ONNX's names and ours, with the parameters that each has and their defaults.
#pragma once

#include <string_view>

namespace troupe {

struct OnnxActivation {
  std::string_view written;  // ONNX compares names without case
  std::string_view name;     // ours
  int parameters = 0;        // 1: alpha, 2: alpha and beta
  double alpha = 0, beta = 0;
};

inline constexpr OnnxActivation kOnnxActivations[] = {
    {"Relu", "relu"},
    {"Tanh", "tanh"},
    {"Sigmoid", "sigmoid"},
    {"Affine", "affine", 2, 1, 0},
    {"LeakyRelu", "leaky_relu", 1, 0.01},
    {"ThresholdedRelu", "thresholded_relu", 1, 1},
    {"ScaledTanh", "scaled_tanh", 2, 1, 1},
    {"HardSigmoid", "hard_sigmoid", 2, 0.2, 0.5},
    {"Elu", "elu", 1, 1},
    {"Softsign", "softsign"},
    {"Softplus", "softplus"},
};

}  // namespace troupe
