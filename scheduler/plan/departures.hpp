// When what leaves a segment (Send, Push, Contribute) is written: a write costs some 10 us, so several tensors share
// one, but none waits long for the next.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace troupe {

// One node of a segment, in the order in which they run.
struct NodeWork {
  double cost_ns = 0;     // estimate
  bool leaves = false;    // it hands a tensor over
  std::size_t bytes = 0;  // of that; 0 if not known
};

// What has left waits at most for so much work.
inline constexpr double kDepartureWaitNs = 50'000;
// From so many bytes on it does not wait: that is a write's worth.
inline constexpr std::size_t kDepartureBytes = 64 << 10;

// For each node: does what has left have to be written when it has run? Never true for nodes that hand nothing over,
// nor if the segment ends soon enough: what is left then goes with the news of its end. Follows from the estimates
// alone.
std::vector<bool> departure_flushes(std::span<const NodeWork> nodes);

}  // namespace troupe
