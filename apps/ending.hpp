// The end of an app: shutdown and exit code.
#pragma once

#include <string>

#include <troupe/actors/cluster/task.hpp>

namespace troupe {

// Ends the task's actors and threads and returns `code`. If they do not end within 5 s, names those still running on
// stderr and ends the process with 1, because its destructors could hang.
int end_task(const std::string& program, Task& task, int code);

// Returns `code`, or 1 with the reason on stderr if not everything printed could be written to stdout.
int end_output(const std::string& program, int code);

}  // namespace troupe
