// Records what all tasks of a cluster do, for a few steps, as one file.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "actors/introspection/trace_file.hpp"

namespace troupe::top {

// A task that can be asked.
struct TracedTask {
  std::string task;
  // GET, or POST, of a path; the body of the answer. Throws Error.
  std::function<std::string(const std::string& path, bool post)> ask;
};

struct TraceRequest {
  std::uint64_t steps = 10;
  double slower_than_ms = 0;  // wait for a step that takes longer; `steps` is how many before it are wanted. 0: do not
  std::chrono::nanoseconds patience = std::chrono::seconds(60);  // for a step to end; while it waits for a slow one, for an answer
  std::chrono::nanoseconds pause = std::chrono::milliseconds(50);  // between questions
};

// Blocks. `say` gets what is to be told while it lasts. Tasks that do not answer are left out, and told. Throws unavailable if none
// answers, deadline_exceeded if no step ends.
TraceFile record_trace(std::vector<TracedTask> tasks, const std::string& cluster, const TraceRequest& request, const std::function<void(const std::string&)>& say);

}  // namespace troupe::top
