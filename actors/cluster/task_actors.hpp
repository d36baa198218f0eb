// Actors of a task that other parts of its process send to. Separate from task.hpp because only senders need CAF.
#pragma once

#include <troupe/messages/caf/protocol.hpp>

namespace troupe {

// Task::handles(). Null after shutdown; the collective actor and the scheduler exist from the start.
struct TaskActors {
  SchedulerActor scheduler;
  CollectiveActor collective;
  LocalNodeActor node;
  IntrospectorActor introspector;
  InputActor input;  // of a task of job "input"

  virtual ~TaskActors() = default;
  // The node of any task, including this one. Throws not_found.
  virtual NodeActor node_of(const TaskName& task) const = 0;
};

}  // namespace troupe
