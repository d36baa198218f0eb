// The traces of all tasks as one file in Chrome's JSON trace event format, for ui.perfetto.dev.
//
// A task is a process. Its first threads are the lanes of requests for models, by door, and those of its steps,
// followed by its actors (a device's shows its kernels) and its threads. Arrows are flow events, waits in mailboxes
// asynchronous ones. Times are microseconds since all tasks were recording.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <troupe/actors/trace/task_trace.hpp>

namespace troupe {

struct AlignedTrace {
  TaskTrace trace;
  // The task's steady clock minus ours, and the uncertainty of the difference.
  std::int64_t offset_ns = 0;
  std::int64_t uncertainty_ns = 0;
};

struct TraceFile {
  std::string json;
  std::uint64_t events = 0;
  std::uint64_t steps = 0;  // complete
  std::uint64_t arrows = 0;
  std::uint64_t cut_arrows = 0;   // omitted: their other end is outside the file's time range
  std::uint64_t lost_arrows = 0;  // omitted although the other end should be present
  std::uint64_t overwritten = 0;
};

// The file for the time that all tasks have recorded. Throws invalid_argument if a trace has no recording, or if they
// do not overlap in time.
TraceFile make_trace_file(const std::vector<AlignedTrace>& traces, const std::string& cluster);

}  // namespace troupe
