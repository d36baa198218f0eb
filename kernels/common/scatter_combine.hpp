// How scatters combine an element with an update, for host and device code.
#pragma once

#include <cstdint>
#include <string_view>

namespace troupe {

enum class ScatterCombine : std::uint8_t { none, add, sub, mul, max, min };
ScatterCombine scatter_combine(std::string_view reduction);  // throws invalid_argument, naming those that exist

}  // namespace troupe
