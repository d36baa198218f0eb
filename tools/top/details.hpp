// Everything about one actor, device, shard or link, or about the whole cluster, as lines.
#pragma once

#include "tools/top/observation.hpp"
#include "tools/top/page.hpp"

namespace troupe::top {

// `task` and `item`: indices as in Row.
Lines actor_details(const Observation& observation, std::size_t task, std::size_t item, std::size_t columns);
Lines device_details(const Observation& observation, std::size_t task, std::size_t item, std::size_t columns);
Lines shard_details(const Observation& observation, std::size_t task, std::size_t item, std::size_t columns);
Lines servable_details(const Observation& observation, std::size_t task, std::size_t item, std::size_t columns);
Lines pipeline_details(const Observation& observation, std::size_t task, std::size_t item, std::size_t columns);
Lines edge_details(const Observation& observation, std::size_t task, std::size_t item, std::size_t columns);

// Past totals, newest last; for curves.
struct History {
  std::vector<double> steps, examples, bytes;  // per second
};

// The cluster in a few lines: job, speed, gradients, staleness, and problems.
Lines summary(const Observation& observation, const History& history, std::size_t columns);
// `text`: from a WaitAnalysis.
Lines why(std::string_view text, std::size_t columns);
// One line for each task that is silent or has failed; none if all is well.
Lines alarms(const Observation& observation, std::size_t columns);

}  // namespace troupe::top
