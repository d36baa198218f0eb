// Which examples of an epoch a slot gets.
#pragma once

#include <cstdint>
#include <utility>

#include <troupe/scheduler/data/batch_source.hpp>

namespace troupe {

// The examples [first, end) of a slot of a step, of an epoch with `all` examples; with LastStep::pad they may go beyond
// the end, where the first follows the last. The step must be one of the epoch's (steps_per_epoch()).
std::pair<std::uint64_t, std::uint64_t> rows_of_slot(const BatchPlan& plan, std::uint64_t all, std::uint64_t step,
                                                     std::uint32_t slot);

// Throws invalid_argument unless the plan has at least one example and slot.
void check_plan(const BatchPlan& plan);

}  // namespace troupe
