// Messages of apps about introspection of their task.
#pragma once

#include <string>

#include <troupe/actors/cluster/task.hpp>

namespace troupe {

// Prints to stderr where the task can be inspected.
void tell_introspection(const std::string& program, Task& task);

// Writes the task's flight record (Introspection::write_flight_record) and prints to stderr where it is, or why it
// could not be written. `why`: the failure; none if a user asked for the record.
void write_flight_record(const std::string& program, Task& task, const Error& why);

}  // namespace troupe
