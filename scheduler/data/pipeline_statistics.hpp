// What the stages of a pipeline have done so far: to find the one that keeps training waiting.
//
//   const PipelineSource source(pipeline);
//   ... read batches, on any threads ...
//   if (const auto slowest = slowest_stage(source.statistics().snapshot())) use(slowest->name, slowest->share);
//
// Elements are counted exactly. Time is measured for the first elements, then for one in kTimedOneIn that
// stands for as many; so a stage costs next to nothing to watch.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <troupe/graph/data/pipeline.hpp>
#include <troupe/scheduler/data/stage_figures.hpp>

namespace troupe {

// Of one stage. Thread-safe.
class StageCounter {
 public:
  static constexpr std::uint64_t kTimedOneIn = 61;  // a prime: slots take the same numbers modulo other numbers
  static constexpr std::uint64_t kAllTimed = 16;

  void add(std::uint64_t elements) { elements_.fetch_add(elements, std::memory_order_relaxed); }
  void add_busy(std::chrono::nanoseconds busy) {
    busy_ns_.fetch_add(static_cast<std::uint64_t>(busy.count()), std::memory_order_relaxed);
  }
  void hold(std::int64_t bytes) { held_bytes_.fetch_add(static_cast<std::uint64_t>(bytes), std::memory_order_relaxed); }
  void snapshot(StageFigures& out) const;

 private:
  friend class StageTally;
  std::atomic<std::uint64_t> elements_{0}, busy_ns_{0}, held_bytes_{0};
  mutable std::mutex mutex_;
  std::list<const std::atomic<std::uint64_t>*> tallies_;
};

// Counts elements of a stage for one thread, without a locked instruction for each.
class StageTally {
 public:
  explicit StageTally(StageCounter* counter);  // null: counts nothing
  ~StageTally();
  StageTally(const StageTally&) = delete;
  StageTally& operator=(const StageTally&) = delete;
  void add(std::uint64_t elements = 1) {
    count_.store(count_.load(std::memory_order_relaxed) + elements, std::memory_order_relaxed);
  }
  std::uint64_t count() const { return count_.load(std::memory_order_relaxed); }
  StageCounter* counter() const { return counter_; }

 private:
  StageCounter* const counter_;
  std::atomic<std::uint64_t> count_{0};
  std::list<const std::atomic<std::uint64_t>*>::iterator place_{};
};

// Calls `work`, which the stage does for its element `number`. Null: measures nothing.
template <class Work>
auto timed(StageCounter* counter, std::uint64_t number, Work&& work) {
  const bool first = number < StageCounter::kAllTimed;
  if (!counter || (!first && number % StageCounter::kTimedOneIn != 0)) return std::forward<Work>(work)();
  struct Clock {
    ~Clock() { counter->add_busy((std::chrono::steady_clock::now() - begin) * times); }
    StageCounter* counter;
    int times;
    std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  };
  const Clock clock{counter, first ? 1 : static_cast<int>(StageCounter::kTimedOneIn)};
  return std::forward<Work>(work)();
}

class PipelineStatistics {
 public:
  explicit PipelineStatistics(const data::StageRef& last);
  // Each stage once, in the order of Pipeline::describe(). Any thread.
  std::vector<StageFigures> snapshot() const;
  // Null for a stage that is not one of the pipeline's.
  StageCounter* of(const data::Stage& stage) const;

 private:
  void add(const data::StageRef& stage);
  std::vector<data::StageRef> stages_;
  mutable std::map<const data::Stage*, StageCounter> counters_;
};

inline StageCounter* counter_of(const PipelineStatistics* statistics, const data::Stage& stage) {
  return statistics ? statistics->of(stage) : nullptr;
}

}  // namespace troupe
