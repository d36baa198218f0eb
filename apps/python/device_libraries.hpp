// Plug-ins of devices that a Python program has loaded: the tasks that it makes from then on have their devices.
#pragma once

#include <nanobind/nanobind.h>

#include <troupe/actors/cluster/task.hpp>

namespace troupe::python {

// Of a task by itself. Thread-safe.
TaskOptions own_task_options(int threads);

void bind_device_libraries(nanobind::module_& m);

}  // namespace troupe::python
