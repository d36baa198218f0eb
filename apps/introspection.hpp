// What apps say about looking into their task.
#pragma once

#include <string>

#include <troupe/actors/cluster/task.hpp>

namespace troupe {

// Says on stderr where the task can be looked into.
void tell_introspection(const std::string& program, Task& task);

// Writes the flight record of the task (Introspection::write_flight_record) and says on stderr where it is, or why it
// is not. `why`: what has failed; none if somebody asked.
void write_flight_record(const std::string& program, Task& task, const Error& why);

}  // namespace troupe
