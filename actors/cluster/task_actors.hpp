// The actors of a task that other parts of its process send to. Not in task.hpp: only those who send need CAF.
#pragma once

#include <troupe/messages/caf/protocol.hpp>

namespace troupe {

// Task::handles(). Null when the task has shut down; the collective actor and the scheduler are there from the start.
struct TaskActors {
  SchedulerActor scheduler;
  CollectiveActor collective;
  LocalNodeActor node;
  IntrospectorActor introspector;

  virtual ~TaskActors() = default;
  // The node of any task, this one's too. Throws not_found.
  virtual NodeActor node_of(const TaskName& task) const = 0;
};

}  // namespace troupe
