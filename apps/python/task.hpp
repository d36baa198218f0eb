// The task of a cluster that this process is, for all of the module that computes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <troupe/actors/cluster/task.hpp>

namespace troupe::python {

// What Python holds of a task; models and sessions that use it share it.
struct PyTask {
  std::shared_ptr<Task> task;  // null: closed
  // Throws failed_precondition if it is closed, or in a child made by fork().
  Task& get() const;
};

// That of the cluster that this process has joined and not closed, on which models train; null: none.
std::shared_ptr<Task> joined_task();

}  // namespace troupe::python
