#include "apps/introspection.hpp"

#include <fmt/core.h>

#include <cstdio>

#include <troupe/actors/cluster/membership.hpp>
#include <troupe/actors/introspection/introspection.hpp>

namespace troupe {

void tell_introspection(const std::string& program, Task& task) {
  if (const auto note = introspection_note(task)) fmt::print(stderr, "{}: {}\n", program, *note);
}

void write_flight_record(const std::string& program, Task& task, const Error& why) {
  try {
    const std::string path = task.introspection().write_flight_record(why);
    if (!path.empty())
      fmt::print(stderr, "{}: flight record of {} written to {}\n", program, task.name().to_string(), path);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: cannot write the flight record: {}\n", program, error.what());
  }
}

}  // namespace troupe
