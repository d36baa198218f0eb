// Records the activity of tasks for a few steps, as one file.
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

// A task to record.
struct TracedTask {
  std::string task;
  // GETs or POSTs a path; returns the body of the answer. Throws Error.
  std::function<std::string(const std::string& path, bool post)> ask;
};
// Records this process, without a socket. `trace` must outlive it.
TracedTask traced_task(Trace& trace, const std::string& task);
// Records tasks through their introspectors. Tasks with unknown addresses are skipped and reported.
std::vector<TracedTask> traced_tasks(const std::vector<KnownTask>& tasks,
                                     const std::function<void(const std::string&)>& say);

struct TraceRequest {
  std::uint64_t steps = 10;
  double slower_than_ms = 0;  // waits for a step that takes longer, and keeps `steps` before it. 0: does not
  std::chrono::nanoseconds patience =
      std::chrono::seconds(60);  // for a step to end; with slower_than_ms, for an answer
  std::chrono::nanoseconds pause = std::chrono::milliseconds(50);  // between queries
  std::stop_token stop;                                  // no more steps will come: the file gets those recorded so far
  std::function<std::int64_t()> now_ns = Trace::now_ns;  // our clock
};

// Blocks until recorded. Passes progress messages to `say`. Tasks that do not answer are skipped and reported. Throws
// unavailable if none answers, deadline_exceeded if no step ends, aborted if stopped before a step has ended.
TraceFile record_trace(std::vector<TracedTask> tasks, const std::string& cluster, const TraceRequest& request,
                       const std::function<void(const std::string&)>& say);

// Throws permission_denied if a file cannot be written there: check before recording, so that a wrong path does not
// lose the recording.
void check_trace_path(const std::string& path);
// Returns a summary for display. Throws errors of writing a file.
std::string write_trace(const TraceFile& file, const std::string& path);

}  // namespace troupe
