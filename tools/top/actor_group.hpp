// Actors of a task with the same kind and name, like the partitions of a device, as one.
#pragma once

#include <vector>

#include "tools/top/rates.hpp"

namespace troupe::top {

struct ActorGroup {
  ActorSnapshot actor;  // sums of all counters, and the state of a working actor, else of a waiting one
  ActorRates rates;
  std::size_t count = 1;
};

// Ordered by the first actor of each group. `rates`: of this task.
std::vector<ActorGroup> actor_groups(const TaskSnapshot& task, const TaskRates& rates);

}  // namespace troupe::top
