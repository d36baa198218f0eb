// What a pad puts around a tensor; shared by builder, shape functions and kernels.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

#include <troupe/messages/error.hpp>

namespace troupe {

enum class PadMode : std::uint8_t {
  constant,
  reflect,    // c b | a b c | b a
  edge,       // a a | a b c | c c
  symmetric,  // b a | a b c | c b
  wrap,       // b c | a b c | a b
};

inline constexpr std::pair<PadMode, std::string_view> kPadModes[] = {{PadMode::constant, "constant"},
                                                                     {PadMode::reflect, "reflect"},
                                                                     {PadMode::edge, "edge"},
                                                                     {PadMode::symmetric, "symmetric"},
                                                                     {PadMode::wrap, "wrap"}};

constexpr std::string_view name(PadMode mode) { return kPadModes[static_cast<std::size_t>(mode)].second; }

// Throws invalid_argument.
inline PadMode parse_pad_mode(std::string_view name) {
  for (const auto& [mode, text] : kPadModes)
    if (text == name) return mode;
  invalid_argument("mode '{}' of a pad is not constant, reflect, edge, symmetric or wrap", name);
}

}  // namespace troupe
