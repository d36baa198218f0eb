// Training state exchanged between client and scheduler with a step.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <troupe/messages/tensor.hpp>

namespace troupe {

class Device;

// The position of a training step: sent with its Pulls, Pushes and collectives (docs/design/training.md).
struct TrainingStep {
  std::uint32_t worker = 0;
  std::uint64_t step = 0;
  std::uint32_t phase = 0;
  std::uint32_t phases = 1;  // of a step
  std::uint32_t slot = 0;
  std::uint64_t min_version = 0;
  std::uint64_t group = 0;  // CollectiveGroup::id if the graph has collectives; `step` is then their sequence number
  const Device* group_device = nullptr;   // CollectiveGroup::device
  std::uint64_t job = 0;                  // the training job that owns the shards
  std::uint64_t view = 0;                 // view in which this worker joined
  std::uint64_t after = 0;                // Pull::after
  double rate_scale = 1;                  // Token::rate_scale
  bool keep = false;                      // Push::keep
  bool kept = false;                      // Pull::kept
  std::optional<std::uint64_t> number{};  // the training's step number; none outside training
};

struct StepResult {
  Error error{};
  std::vector<Tensor> fetches{};
};

}  // namespace troupe
