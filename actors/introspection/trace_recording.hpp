// Records what tasks do, for a few steps, as one file.
#pragma once

#include <chrono>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include <troupe/actors/introspection/cluster_view.hpp>
#include <troupe/actors/trace/trace_file.hpp>
#include <troupe/scheduler/trace/trace.hpp>

namespace troupe {

// A task that can be asked.
struct TracedTask {
  std::string task;
  // GET, or POST, of a path; the body of the answer. Throws Error.
  std::function<std::string(const std::string& path, bool post)> ask;
};
// Of this process, which is asked without a socket. `trace` outlives it.
TracedTask traced_task(Trace& trace, const std::string& task);
// By their introspectors. Those that are not known are left out, and told.
std::vector<TracedTask> traced_tasks(const std::vector<KnownTask>& tasks,
                                     const std::function<void(const std::string&)>& say);

struct TraceRequest {
  std::uint64_t steps = 10;
  double slower_than_ms = 0;  // wait for a step that takes longer; `steps` is how many before it are wanted. 0: do not
  std::chrono::nanoseconds patience =
      std::chrono::seconds(60);  // for a step to end; while it waits for a slow one, for an answer
  std::chrono::nanoseconds pause = std::chrono::milliseconds(50);  // between questions
  std::stop_token stop;  // there will be no other step: the file has those that there are
  std::function<std::int64_t()> now_ns = Trace::now_ns;  // our clock
};

// Blocks. `say` gets what is to be told while it lasts. Tasks that do not answer are left out, and told. Throws
// unavailable if none answers, deadline_exceeded if no step ends, aborted if none has when it is told to stop.
TraceFile record_trace(std::vector<TracedTask> tasks, const std::string& cluster, const TraceRequest& request,
                       const std::function<void(const std::string&)>& say);

// Throws permission_denied if a file could not be written there: to be asked before a recording, which must not be lost
// to a wrong path.
void check_trace_path(const std::string& path);
// Returns what there is to say of it. Throws what writing a file throws.
std::string write_trace(const TraceFile& file, const std::string& path);

}  // namespace troupe
