#include "troupe/actors/data/stage_rates.hpp"

#include <algorithm>

namespace troupe {

std::vector<StageSnapshot> StageRates::show(std::int64_t now_ns, const std::vector<StageFigures>& figures) const {
  std::vector<StageSnapshot> out;
  for (std::size_t i = 0; i < figures.size(); ++i) {
    const StageFigures& now = figures[i];
    StageSnapshot& shown = out.emplace_back();
    shown.name = now.name;
    shown.elements = now.elements;
    shown.busy_ns = static_cast<std::int64_t>(now.busy_ns);
    shown.held_bytes = now.held_bytes;
    shown.skipped_records = now.skipped_records;
    if (samples_.empty() || samples_.front().stages.size() != figures.size()) continue;
    const std::int64_t elapsed = std::max<std::int64_t>(1, now_ns - samples_.front().at_ns);
    const auto before = static_cast<std::int64_t>(samples_.front().stages[i].busy_ns);
    shown.busy = static_cast<double>(shown.busy_ns - before) / static_cast<double>(elapsed);
  }
  return out;
}

}  // namespace troupe
