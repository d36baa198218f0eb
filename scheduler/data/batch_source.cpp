#include "troupe/scheduler/data/batch_source.hpp"

#include <utility>

namespace troupe {

std::string_view name(LastStep last) {
  return last == LastStep::drop ? "drop" : last == LastStep::keep ? "keep" : "pad";
}

std::optional<std::uint64_t> steps_per_epoch(const BatchSource& source, const BatchPlan& plan) {
  const auto examples = source.examples();
  if (!examples) return std::nullopt;
  const std::uint64_t step = static_cast<std::uint64_t>(plan.batch) * plan.slots;
  const std::uint64_t left = *examples % step;
  const bool one_more = (plan.last == LastStep::keep && left >= plan.slots) || (plan.last == LastStep::pad && left > 0);
  return *examples / step + (one_more ? 1 : 0);
}

std::optional<Batch> BatchReader::read(std::uint32_t epoch, std::uint64_t step, std::uint32_t slot) {
  auto unmade = begin(epoch, step, slot);
  return unmade ? std::optional(make(std::move(*unmade))) : std::nullopt;
}

}  // namespace troupe
