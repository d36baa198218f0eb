// A task's recording in transit to the program that writes the trace file, and the requests that control it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include <troupe/scheduler/trace/trace.hpp>

namespace troupe {

struct TaskTrace {
  static constexpr int kFormat = 2;  // 1: without requests
  std::string task;
  std::string clock;        // identifies the steady clock: equal within one boot of a machine
  std::int64_t now_ns = 0;  // on that clock, when this was answered
  Trace::Status status;
  std::optional<TraceRecording> recording;  // on request
};

const char* name(Trace::State state);

// The boot id of this machine; "": unknown.
std::string name_of_clock();

std::string to_json(const TaskTrace& trace);
// Throws invalid_argument saying what is malformed, failed_precondition for a later format.
TaskTrace parse_task_trace(std::string_view json);

// Answers a request to /trace with the JSON of a TaskTrace.
//   POST ?steps=N            record; stops after N steps of the task, or without N on request
//   POST ?slower_than_ms=X   likewise; stops at the first step that takes longer, and keeps that and the N before
//   POST ?stop               stop; a recording that nobody has asked about for 30 s stops too
//   GET                      the state
//   GET ?events[&from=NS&to=NS]   the state and the recorded events
// Throws invalid_argument.
std::string answer_trace(Trace& trace, const std::string& task, bool post,
                         const std::map<std::string, std::string>& parameters);

}  // namespace troupe
