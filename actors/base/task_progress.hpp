// A counter that grows while a task makes progress: with each node run and each step, gradient or collective message
// handled. Sent in heartbeats, so that peers can tell a busy task from a stuck one.
//
// Not thread-safe: called by the wire's thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include <troupe/actors/base/actor_record.hpp>

namespace troupe {

class TaskProgress {
 public:
  // `registry` must outlive the object.
  explicit TaskProgress(const ActorRegistry& registry) : registry_(registry) {}

  // Returns 0 if the task does not count (ActorRegistry). Takes no lock that actors hold for long.
  std::uint64_t operator()();

 private:
  bool moves_in_a_segment();

  const ActorRegistry& registry_;
  std::uint64_t done_ = 0;                      // at the last call
  std::map<std::string, std::string> running_;  // likewise: nodes, by device
  std::uint64_t moves_ = 1;                     // changes of the running node so far
};

}  // namespace troupe
