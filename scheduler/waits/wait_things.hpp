// Ids of things that wait and are waited for: see wait_graph.hpp. Tasks and devices are given by name.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include <troupe/messages/ids.hpp>

namespace troupe::wait_thing {

inline std::string step(SessionId session, StepId step) {
  return fmt::format("step/{:x}/{}", session.value, step.value);
}
inline std::string part(SessionId session, StepId step, std::string_view task) {
  return fmt::format("part/{:x}/{}/{}", session.value, step.value, task);
}
inline std::string segment(SessionId session, StepId step, std::string_view device, std::uint32_t segment) {
  return fmt::format("segment/{:x}/{}/{}/{}", session.value, step.value, device, segment);
}
inline std::string tensor(SessionId session, StepId step, EdgeId edge) {
  return fmt::format("tensor/{:x}/{}/{}", session.value, step.value, edge.value);
}
inline std::string device(std::string_view device) { return fmt::format("device/{}", device); }
inline std::string link(std::string_view from, std::string_view to) { return fmt::format("link/{}/{}", from, to); }
inline std::string task(std::string_view task) { return fmt::format("task/{}", task); }
inline std::string actor(std::string_view task, std::string_view kind) {
  return fmt::format("actor/{}/{}", task, kind);
}
// The `number`-th wait of a thread of the task's program, and the answer it waits for.
inline std::string client(std::string_view task, std::uint64_t number) {
  return fmt::format("client/{}/{}", task, number);
}
inline std::string answer(std::string_view task, std::uint64_t number) {
  return fmt::format("answer/{}/{}", task, number);
}
inline std::string meeting(std::string_view task) { return fmt::format("meeting/{}", task); }
inline std::string coming(std::string_view to, std::string_view task) { return fmt::format("coming/{}/{}", to, task); }
inline std::string worker(std::uint64_t job, std::string_view task) { return fmt::format("worker/{:x}/{}", job, task); }
inline std::string version(std::uint64_t job, std::uint32_t shard, std::uint64_t version) {
  return fmt::format("version/{:x}/{}/{}", job, shard, version);
}
// `turn`: scheduler/training/turns.hpp.
inline std::string slot(std::uint64_t job, std::uint64_t turn, std::uint32_t slot) {
  return fmt::format("slot/{:x}/{}/{}", job, turn, slot);
}
inline std::string token(std::uint64_t job, std::string_view task) { return fmt::format("token/{:x}/{}", job, task); }
inline std::string join(std::uint64_t job, std::string_view task) { return fmt::format("join/{:x}/{}", job, task); }
inline std::string barrier(std::uint64_t job) { return fmt::format("barrier/{:x}", job); }
inline std::string save(std::uint64_t job) { return fmt::format("save/{:x}", job); }
inline std::string collective(std::uint64_t group, std::uint32_t channel, std::uint64_t sequence,
                              std::string_view task) {
  return fmt::format("collective/{:x}/{}/{}/{}", group, channel, sequence, task);
}

// "/job:worker/task:0" of "/job:worker/task:0/device:CPU:0"; "" of a name without a task.
inline std::string task_of(std::string_view device) {
  return std::string(device.substr(0, std::min(device.find("/device:"), device.size())));
}

// The thing in words, for display: "slot 1 of step 7" for "slot/660f888ec43f0/7/1"; the id itself if its form is
// unknown.
std::string describe(std::string_view id);

}  // namespace troupe::wait_thing
