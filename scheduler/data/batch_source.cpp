#include "troupe/scheduler/data/batch_source.hpp"

namespace troupe {

std::optional<std::uint64_t> steps_per_epoch(const BatchSource& source, const BatchPlan& plan) {
  const auto examples = source.examples();
  if (!examples) return std::nullopt;
  const std::uint64_t step = static_cast<std::uint64_t>(plan.batch) * plan.slots;
  const bool keeps = plan.last == LastStep::keep && *examples % step >= plan.slots;
  return *examples / step + (keeps ? 1 : 0);
}

}  // namespace troupe
