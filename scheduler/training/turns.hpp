// Steps and turns. A step of P phases takes P turns, one for each: turn = step * P + phase. In a turn the variables of
// one phase are updated; the version of a shard is the number of turns it has behind it. With one phase, a turn is a
// step.
#pragma once

#include <algorithm>
#include <cstdint>

namespace troupe {

constexpr std::uint64_t turn_of(std::uint64_t step, std::uint32_t phase, std::uint32_t phases) {
  return step * phases + phase;
}

// The oldest version that a phase of a step may be computed on: that of the turn itself or, in the first phase, of the
// step `staleness` steps earlier. Later phases see the updates of the earlier ones of their step.
constexpr std::uint64_t oldest_version(std::uint64_t step, std::uint32_t phase, std::uint32_t phases,
                                       std::uint64_t staleness) {
  return turn_of(phase == 0 ? step - std::min(step, staleness) : step, phase, phases);
}

}  // namespace troupe
