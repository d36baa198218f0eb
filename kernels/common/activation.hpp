// Activations at the end of fused ops.
#pragma once

#include <string_view>

namespace troupe {

enum class FusedActivation { none, relu, sigmoid, tanh };

// Parses "none", "relu", "sigmoid" or "tanh"; throws invalid_argument for any other text.
FusedActivation parse_activation(std::string_view text);

}  // namespace troupe
