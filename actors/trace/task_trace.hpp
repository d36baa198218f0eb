// What a task has recorded, on its way to who makes a file of it, and the requests that control it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include <troupe/scheduler/trace/trace.hpp>

namespace troupe {

struct TaskTrace {
  static constexpr int kFormat = 1;
  std::string task;
  std::string clock;        // names the steady clock: that of the same boot of a machine is the same
  std::int64_t now_ns = 0;  // on that clock, when this was answered
  Trace::Status status;
  std::optional<TraceRecording> recording;  // if that was asked for
};

const char* name(Trace::State state);

// Of this machine: its boot's id; "": not known.
std::string name_of_clock();

std::string to_json(const TaskTrace& trace);
// Throws invalid_argument saying what is malformed, failed_precondition for a later format.
TaskTrace parse_task_trace(std::string_view json);

// Answers a request to /trace with the JSON of a TaskTrace.
//   POST ?steps=N            record; ends by itself after N steps of the task, without N when it is told
//   POST ?slower_than_ms=X   likewise; ends with the first step that takes longer, and keeps that and the N before
//   POST ?stop               end; and so does a recording that nobody has asked for in 30 s
//   GET                      how it stands
//   GET ?events[&from=NS&to=NS]   with what has been recorded
// Throws invalid_argument.
std::string answer_trace(Trace& trace, const std::string& task, bool post,
                         const std::map<std::string, std::string>& parameters);

}  // namespace troupe
