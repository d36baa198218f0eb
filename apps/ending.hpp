// The last things an app does.
#pragma once

#include <string>

#include <troupe/actors/cluster/task.hpp>

namespace troupe {

// Ends the task's actors and threads and returns `code`. If they do not end within 5 s, names on stderr those
// that still run and ends the process with 1: its destructors could wait for ever.
int end_task(const std::string& program, Task& task, int code);

// `code`, or if stdout has not taken all that was printed 1, with the reason on stderr.
int end_output(const std::string& program, int code);

}  // namespace troupe
