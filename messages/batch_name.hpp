// Which batch of a training, or of its evaluations.
#pragma once

#include <compare>
#include <cstdint>

#include <troupe/messages/fields.hpp>

namespace troupe {

struct BatchName {
  bool evaluation = false;  // of the evaluation data: `step` counts its batches
  std::uint32_t epoch = 0;
  std::uint64_t step = 0;  // of the epoch
  std::uint32_t slot = 0;
  auto operator<=>(const BatchName&) const = default;
  TROUPE_FIELDS(evaluation, epoch, step, slot)
};

}  // namespace troupe
