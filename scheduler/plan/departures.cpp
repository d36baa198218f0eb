#include "troupe/scheduler/plan/departures.hpp"

namespace troupe {

std::vector<bool> departure_flushes(std::span<const NodeWork> nodes) {
  std::vector<bool> flushes(nodes.size(), false);
  std::size_t last = nodes.size();  // the last node whose departure is pending
  std::size_t bytes = 0;            // pending
  double waited = 0;                // by the first of them
  const auto flush = [&] {
    flushes[last] = true;
    last = nodes.size();
    bytes = 0;
    waited = 0;
  };
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (last < nodes.size()) {
      waited += nodes[i].cost_ns;
      if (waited > kDepartureWaitNs) flush();
    }
    if (!nodes[i].leaves) continue;
    last = i;
    bytes += nodes[i].bytes;
    if (bytes >= kDepartureBytes) flush();
  }
  return flushes;
}

}  // namespace troupe
