#include "troupe/scheduler/data/slot_rows.hpp"

#include <algorithm>

#include <troupe/messages/error.hpp>

namespace troupe {

std::pair<std::uint64_t, std::uint64_t> rows_of_slot(const BatchPlan& plan, std::uint64_t all, std::uint64_t step,
                                                     std::uint32_t slot) {
  const std::uint64_t slots = plan.slots, batch = static_cast<std::uint64_t>(plan.batch), begin = step * slots * batch;
  const std::uint64_t left = all - begin;
  if (left >= slots * batch || plan.last == LastStep::pad) return {begin + slot * batch, begin + (slot + 1) * batch};
  const std::uint64_t share = left / slots, more = left % slots;
  const std::uint64_t first = begin + slot * share + std::min<std::uint64_t>(slot, more);
  return {first, first + share + (slot < more ? 1 : 0)};
}

void check_plan(const BatchPlan& plan) {
  if (plan.batch < 1 || plan.slots < 1)
    invalid_argument("a batch has at least 1 example and a step at least 1 slot, not {} and {}", plan.batch,
                     plan.slots);
}

}  // namespace troupe
