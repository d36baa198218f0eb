// What the training protocol classes say: they take a message and append the messages that follow from it to
// an TrainingOutbox. Whoever drives them (actors, the simulator, tests) delivers these; per (sender, receiver) order
// must be kept, and repeating a message is harmless.
#pragma once

#include <cstdint>
#include <vector>

#include <troupe/messages/frames.hpp>

namespace troupe {

// What training does with gradients (docs/design/training.md).
enum class TrainingMode : std::uint8_t {
  synchronous,        // N slots a step; nobody starts step t before version t
  bounded_staleness,  // the same, but step t starts from version t - staleness
  asynchronous,       // each batch is applied when it comes
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
