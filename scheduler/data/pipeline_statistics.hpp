// What the stages of a pipeline have done so far: to find the one that keeps training waiting.
//
//   const PipelineSource source(pipeline);
//   ... read batches, on any threads ...
//   if (const auto slowest = slowest_stage(source.statistics().snapshot())) use(slowest->name, slowest->share);
//
// Elements are counted exactly. Time is measured for the first elements, then for one in kTimedOneIn that
// stands for as many; so a stage costs next to nothing to watch. StageTimes measures a thread exactly, for traces.
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
  explicit StageCounter(std::string name) : name_(std::move(name)) {}
  const std::string& name() const { return name_; }
  static constexpr std::uint64_t kTimedOneIn = 61;  // a prime: slots take the same numbers modulo other numbers
  static constexpr std::uint64_t kAllTimed = 16;

  void add(std::uint64_t elements) { elements_.fetch_add(elements, std::memory_order_relaxed); }
  void add_busy(std::chrono::nanoseconds busy) {
    busy_ns_.fetch_add(static_cast<std::uint64_t>(busy.count()), std::memory_order_relaxed);
  }
  void skip() { skipped_.fetch_add(1, std::memory_order_relaxed); }
  void hold(std::int64_t bytes) { held_bytes_.fetch_add(static_cast<std::uint64_t>(bytes), std::memory_order_relaxed); }
  void snapshot(StageFigures& out) const;

 private:
  friend class StageTally;
  const std::string name_;
  std::atomic<std::uint64_t> elements_{0}, busy_ns_{0}, held_bytes_{0}, skipped_{0};
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

// How long the calling thread works for each stage while this lives. Every element is timed meanwhile, by this thread.
class StageTimes {
 public:
  struct Entry {
    std::string stage{};
    std::chrono::nanoseconds time{};  // without that of other stages
  };
  StageTimes() : outer_(std::exchange(current_, this)) { living_.fetch_add(1, std::memory_order_relaxed); }
  ~StageTimes() {
    living_.fetch_sub(1, std::memory_order_relaxed);
    current_ = outer_;
  }
  StageTimes(const StageTimes&) = delete;
  StageTimes& operator=(const StageTimes&) = delete;
  // In the order in which their first work has ended: a stage comes after its inputs.
  const std::vector<Entry>& entries() const { return entries_; }

  // Of this thread; null: it is not measured. Looks at the thread only if some thread is.
  static StageTimes* current() { return living_.load(std::memory_order_relaxed) == 0 ? nullptr : current_; }

 private:
  friend class StageClock;
  void add(const StageCounter& counter, std::chrono::nanoseconds time);

  std::vector<Entry> entries_;
  std::chrono::nanoseconds inner_{0};  // of the works that have ended within the one that goes on
  StageTimes* const outer_;
  static inline constinit std::atomic<int> living_{0};  // of all threads
  static inline constinit thread_local StageTimes* current_ = nullptr;
};

// Times a work of a stage. `times`: of how many such the time is noted in the stage's counter.
class StageClock {
 public:
  StageClock(StageCounter& counter, int times, StageTimes* of) : counter_(counter), times_(times), of_(of) {
    if (of_) before_ = std::exchange(of_->inner_, {});
    begin_ = std::chrono::steady_clock::now();
  }
  ~StageClock() {
    const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - begin_;
    if (times_ > 0) counter_.add_busy(took * times_);
    if (!of_) return;
    of_->add(counter_, took - of_->inner_);
    of_->inner_ = before_ + took;
  }
  StageClock(const StageClock&) = delete;
  StageClock& operator=(const StageClock&) = delete;

 private:
  StageCounter& counter_;
  const int times_;
  StageTimes* const of_;                // null: this thread is not measured
  std::chrono::nanoseconds before_{0};  // inner_ of the work around this one
  std::chrono::steady_clock::time_point begin_;
};

// Calls `work`, which the stage does for its element `number`. Null: measures nothing.
template <class Work>
auto timed(StageCounter* counter, std::uint64_t number, Work&& work) {
  const bool first = number < StageCounter::kAllTimed;
  const bool counts = first || number % StageCounter::kTimedOneIn == 0;
  StageTimes* const of = StageTimes::current();
  if (!counter || (!counts && !of)) return std::forward<Work>(work)();
  const StageClock clock(*counter, first ? 1 : counts ? static_cast<int>(StageCounter::kTimedOneIn) : 0, of);
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
