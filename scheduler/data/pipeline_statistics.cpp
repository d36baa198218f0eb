#include "troupe/scheduler/data/pipeline_statistics.hpp"

#include <algorithm>

namespace troupe {

void StageCounter::snapshot(StageFigures& out) const {
  const std::lock_guard lock(mutex_);
  out.elements = elements_.load(std::memory_order_relaxed);
  for (const auto* tally : tallies_) out.elements += tally->load(std::memory_order_relaxed);
  out.busy_ns = busy_ns_.load(std::memory_order_relaxed);
  out.held_bytes = held_bytes_.load(std::memory_order_relaxed);
  out.skipped_records = skipped_.load(std::memory_order_relaxed);
}

StageTally::StageTally(StageCounter* counter) : counter_(counter) {
  if (!counter_) return;
  const std::lock_guard lock(counter_->mutex_);
  place_ = counter_->tallies_.insert(counter_->tallies_.end(), &count_);
}

StageTally::~StageTally() {
  if (!counter_) return;
  const std::lock_guard lock(counter_->mutex_);
  counter_->add(count());
  counter_->tallies_.erase(place_);
}

void StageTimes::add(const StageCounter& counter, std::chrono::nanoseconds time) {
  auto entry = std::ranges::find(entries_, counter.name(), &Entry::stage);
  if (entry == entries_.end()) entry = entries_.insert(entry, {.stage = counter.name()});
  entry->time += time;
}

PipelineStatistics::PipelineStatistics(const data::StageRef& last) { add(last); }

void PipelineStatistics::add(const data::StageRef& stage) {
  for (const data::StageRef& input : stage->inputs) add(input);
  if (counters_.try_emplace(stage.get(), stage->name).second) stages_.push_back(stage);
}

StageCounter* PipelineStatistics::of(const data::Stage& stage) const {
  const auto found = counters_.find(&stage);
  return found == counters_.end() ? nullptr : &found->second;
}

std::vector<StageFigures> PipelineStatistics::snapshot() const {
  std::vector<StageFigures> out;
  for (const data::StageRef& stage : stages_) {
    StageFigures& figures = out.emplace_back();
    figures.name = stage->name;
    counters_.at(stage.get()).snapshot(figures);
    if (const auto* splits = std::get_if<data::SplitsStage>(&stage->kind))
      figures.skipped_records = splits->source->skipped();
    if (const auto* cache = std::get_if<data::CacheStage>(&stage->kind)) figures.held_bytes = cache->cache->num_bytes();
  }
  return out;
}

std::optional<SlowestStage> slowest_stage(std::span<const StageFigures> stages) {
  double all = 0;
  for (const StageFigures& stage : stages) all += static_cast<double>(stage.busy_ns);
  if (all == 0) return std::nullopt;
  const StageFigures& slowest = *std::ranges::max_element(stages, {}, &StageFigures::busy_ns);
  return SlowestStage{slowest.name, static_cast<double>(slowest.busy_ns) / all};
}

}  // namespace troupe
