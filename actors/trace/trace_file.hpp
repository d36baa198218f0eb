// The traces of all tasks as one file in Chrome's JSON trace event format, which ui.perfetto.dev shows.
//
// A task is a process. Its first threads are the lanes of its steps; then come its actors, of which a device has the
// kernels, and threads. Arrows are flow events, waits in mailboxes asynchronous ones. Times are microseconds since all
// tasks record.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <troupe/actors/trace/task_trace.hpp>

namespace troupe {

struct AlignedTrace {
  TaskTrace trace;
  // Its steady clock less ours, and by how much that may be wrong.
  std::int64_t offset_ns = 0;
  std::int64_t uncertainty_ns = 0;
};

struct TraceFile {
  std::string json;
  std::uint64_t events = 0;
  std::uint64_t steps = 0;  // that are whole
  std::uint64_t arrows = 0;
  std::uint64_t cut_arrows = 0;   // left out: their other end is before the first or after the last instant
  std::uint64_t lost_arrows = 0;  // left out although the other end should be there
  std::uint64_t overwritten = 0;
};

// Of what all tasks have recorded. Throws invalid_argument if a trace has no recording, or if they have no time in
// common.
TraceFile make_trace_file(const std::vector<AlignedTrace>& traces, const std::string& cluster);

}  // namespace troupe
