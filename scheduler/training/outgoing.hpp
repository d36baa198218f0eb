// Outgoing messages of the training protocol classes, which take a message and append the resulting ones to a
// TrainingOutbox. Their driver (an actor, the simulator, a test) delivers these; it must keep the order per (sender,
// receiver), and may repeat messages.
#pragma once

#include <cstdint>
#include <vector>

#include <troupe/messages/frames.hpp>

namespace troupe {

// How training applies gradients (docs/design/training.md).
enum class TrainingMode : std::uint8_t {
  synchronous,        // N slots per step; no worker starts step t before version t
  bounded_staleness,  // the same, but step t starts from version t - staleness
  asynchronous,       // each batch is applied on arrival
};

struct Destination {
  enum class Kind : std::uint8_t { coordinator, worker, shards, everyone };
  Kind kind = Kind::coordinator;
  std::uint32_t index = 0;  // of the worker

  static Destination coordinator() { return {}; }
  static Destination worker(std::uint32_t index) { return {Kind::worker, index}; }
  static Destination shards() { return {Kind::shards, 0}; }      // all of them
  static Destination everyone() { return {Kind::everyone, 0}; }  // all workers and shards
};

struct Outgoing {
  Destination to;
  Frame message;
};

using TrainingOutbox = std::vector<Outgoing>;

}  // namespace troupe
