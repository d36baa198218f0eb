// When tensors that leave a segment (Send, Push, Contribute) are written: a write costs some 10 us, so several tensors
// share one, but none waits long for the next.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace troupe {

// One node of a segment, in execution order.
struct NodeWork {
  double cost_ns = 0;     // estimate
  bool leaves = false;    // it hands a tensor over
  std::size_t bytes = 0;  // the size of that tensor; 0 if unknown
};

// The most work for which a departure waits.
inline constexpr double kDepartureWaitNs = 50'000;
// Pending bytes that do not wait any longer: worth a write of their own.
inline constexpr std::size_t kDepartureBytes = 64 << 10;

// For each node: whether pending departures must be written after it has run. Always false for nodes that hand nothing
// over, and if the segment ends soon enough: the rest then goes with the message that it has ended. Depends on the
// estimates alone.
std::vector<bool> departure_flushes(std::span<const NodeWork> nodes);

}  // namespace troupe
