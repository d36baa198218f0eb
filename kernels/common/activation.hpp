// The activations that fused ops end with.
#pragma once

#include <string_view>

namespace troupe {

enum class FusedActivation { none, relu, sigmoid, tanh };

// "none", "relu", "sigmoid", "tanh"; throws invalid_argument for another text.
FusedActivation parse_activation(std::string_view text);

}  // namespace troupe
