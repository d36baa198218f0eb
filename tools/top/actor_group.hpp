// Actors of a task that have one kind and one name, such as the partitions of a device, as one.
#pragma once

#include <vector>

#include "tools/top/rates.hpp"

namespace troupe::top {

struct ActorGroup {
  ActorSnapshot actor;  // counters of all, and the state of one that works, or else waits
  ActorRates rates;
  std::size_t count = 1;
};

// In the order of the first of each. `rates`: of this task.
std::vector<ActorGroup> actor_groups(const TaskSnapshot& task, const TaskRates& rates);

}  // namespace troupe::top
