// What a client says with a step, and gets from it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <troupe/messages/tensor.hpp>

namespace troupe {

class Device;

// Where a training step stands: what its Pulls, Pushes and collectives say (docs/design/training.md).
struct TrainingStep {
  std::uint32_t worker = 0;
  std::uint64_t step = 0;
  std::uint32_t slot = 0;
  std::uint64_t min_version = 0;
  std::uint64_t group = 0;  // CollectiveGroup::id, if the graph has collectives: `step` is then their number
  const Device* group_device = nullptr;   // CollectiveGroup::device
  std::uint64_t job = 0;                  // the training job that has the shards
  std::uint64_t view = 0;                 // of its members, in which this worker joined
  std::uint64_t after = 0;                // of a Pull
  std::optional<std::uint64_t> number{};  // what the training counts the step as; none: it is none of a training
};

struct StepResult {
  Error error{};
  std::vector<Tensor> fetches{};
};

}  // namespace troupe
