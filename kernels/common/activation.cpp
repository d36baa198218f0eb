#include "troupe/kernels/common/activation.hpp"

#include <array>
#include <utility>

#include <troupe/messages/error.hpp>

namespace troupe {

FusedActivation parse_activation(std::string_view text) {
  static constexpr std::array<std::pair<std::string_view, FusedActivation>, 4> kActivations{{
      {"none", FusedActivation::none},
      {"relu", FusedActivation::relu},
      {"sigmoid", FusedActivation::sigmoid},
      {"tanh", FusedActivation::tanh},
  }};
  for (const auto& [name, activation] : kActivations)
    if (text == name) return activation;
  invalid_argument("attribute 'activation' must be none, relu, sigmoid or tanh, not '{}'", text);
}

}  // namespace troupe
