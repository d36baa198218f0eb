#include "troupe/actors/serving/serving_statistics.hpp"

#include <algorithm>
#include <bit>
#include <string>

namespace troupe {

std::string_view name(ServingStatistics::Stage stage) {
  static constexpr std::array<std::string_view, ServingStatistics::kStages> kNames = {"parse", "queue",     "batch",
                                                                                      "run",   "serialise", "total"};
  return kNames.at(static_cast<std::size_t>(stage));
}

void ServingStatistics::end(const ServingResult& result, Nanoseconds total) {
  in_flight_.fetch_sub(1, std::memory_order_relaxed);
  refused(result.error.code());
  if (result.error) return;  // of those that are refused, times would hide those of others
  add(Stage::total, total);
  if (result.times.queued > 0) add(Stage::queue, result.times.queued);
  if (result.times.batched > 0) add(Stage::batch, result.times.batched);
  add(Stage::run, result.times.run);
}

void ServingStatistics::batch(std::int64_t rows) {
  const auto size =
      static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(rows, 1)) - 1));
  batches_[std::min(size, kSizes - 1)].fetch_add(1, std::memory_order_relaxed);
  batch_rows_.fetch_add(static_cast<std::uint64_t>(rows), std::memory_order_relaxed);
}

void ServingStatistics::read(ServableSnapshot& out) const {
  const auto count = [](const std::atomic<std::int64_t>& gauge) {
    return static_cast<std::uint64_t>(std::max<std::int64_t>(gauge.load(std::memory_order_relaxed), 0));
  };
  out.in_flight = count(in_flight_);
  out.waiting_rows = count(waiting_rows_);
  for (std::size_t code = 0; code < kCodes; ++code)
    if (const std::uint64_t ended = ended_[code].load(std::memory_order_relaxed); ended > 0)
      out.requests[std::string(name(static_cast<Code>(code)))] = ended;
  for (std::size_t stage = 0; stage < kStages; ++stage)
    if (LatencySnapshot took = stages_[stage].read(); took.count > 0)
      out.stages.emplace(name(static_cast<Stage>(stage)), std::move(took));
  for (const auto& size : batches_) out.batches.push_back(size.load(std::memory_order_relaxed));
  while (!out.batches.empty() && out.batches.back() == 0) out.batches.pop_back();
  out.batch_rows = batch_rows_.load(std::memory_order_relaxed);
}

}  // namespace troupe
