// A number that grows while a task gets on with work: with each node that it runs, each message of steps, gradients and
// collectives that it handles. Heartbeats carry it, so that peers tell a task that is busy from one that is stuck.
//
// Not thread-safe: the wire's thread asks.
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

  // 0: the task does not count (ActorRegistry). Takes no lock that an actor holds for long.
  std::uint64_t operator()();

 private:
  bool moves_in_a_segment();

  const ActorRegistry& registry_;
  std::uint64_t done_ = 0;                      // when it was asked last
  std::map<std::string, std::string> running_;  // likewise: nodes, by device
  std::uint64_t moves_ = 1;                     // how often another node was running than before
};

}  // namespace troupe
