// Shape classes of a call: the shapes of its feeds that have a plan of their own, compiled for no others.
//
//   first steps of a shape     general plan
//   kRepeats of them           general plan; a plan for the shape is made meanwhile, on another thread
//   then                       its plan, until `most` others have been used since: it is dropped
//
// A step never waits for a plan. Plans pay off for shapes that come back, so shapes that change all the time must not
// cost a compilation each: steps are counted for the kRemembered shapes without a plan that were fed last, and each
// plan that was dropped, or could not be made, doubles the steps that the next one needs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include <troupe/messages/tensor.hpp>

namespace troupe {

// Thread-safe.
template <class Plan>
class ShapeClasses {
 public:
  using Shapes = std::vector<Shape>;
  using PlanPtr = std::shared_ptr<const Plan>;
  static constexpr std::uint64_t kRepeats = 3;
  static constexpr std::size_t kRemembered = 16;

  // `feeds`: positions of those whose shapes are open. `want` is told of shapes that are to have a plan, once; it is to
  // call made() later, on any thread.
  ShapeClasses(std::vector<std::size_t> feeds, std::size_t most, std::function<void(const Shapes&)> want)
      : feeds_(std::move(feeds)), most_(most), want_(std::move(want)) {}

  // The plan for a step with these feeds; null: the general one. Takes tens of nanoseconds.
  PlanPtr find(std::span<const Tensor> feeds) {
    std::unique_lock lock(mutex_);
    if (Class* const found = to_front(classes_, feeds)) {
      ++found->steps;
      return found->plan;
    }
    if (closed_) return nullptr;
    Candidate* candidate = to_front(candidates_, feeds);
    if (!candidate) {
      if (candidates_.size() == kRemembered) candidates_.pop_back();
      candidates_.insert(candidates_.begin(), std::make_unique<Candidate>());
      candidate = candidates_.front().get();
      for (const std::size_t feed : feeds_) candidate->shapes.push_back(feeds[feed].shape());
    }
    if (++candidate->steps < needed_ || std::exchange(candidate->wanted, true)) return nullptr;
    const Shapes shapes = candidate->shapes;
    lock.unlock();
    want_(shapes);
    return nullptr;
  }

  // The plan that was wanted; null if it could not be made: the shapes keep the general one.
  void made(const Shapes& shapes, PlanPtr plan) {
    std::unique_ptr<Class> dropped;  // released after the lock
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    if (!plan) return need_more();
    const auto same = [&](const auto& known) { return known->shapes == shapes; };
    std::erase_if(candidates_, same);
    if (std::ranges::any_of(classes_, same)) return;
    if (classes_.size() == most_) {
      dropped = std::move(classes_.back());
      classes_.pop_back();
      need_more();
    }
    classes_.insert(classes_.begin(), std::make_unique<Class>());
    classes_.front()->shapes = shapes;
    classes_.front()->plan = std::move(plan);
  }

  struct Line {
    Shapes shapes;
    std::uint64_t steps = 0;
    PlanPtr plan;
  };
  // Those that have a plan, the last used first, with the steps that have run by it.
  std::vector<Line> list() const {
    const std::lock_guard lock(mutex_);
    std::vector<Line> out;
    for (const auto& known : classes_) out.push_back({known->shapes, known->steps, known->plan});
    return out;
  }
  std::size_t most() const { return most_; }

  // Drops all plans. All later steps take the general one.
  void close() {
    Classes dropped;  // released after the lock
    const std::lock_guard lock(mutex_);
    closed_ = true;
    dropped.swap(classes_);
    candidates_.clear();
  }

 private:
  struct Candidate {
    Shapes shapes;
    std::uint64_t steps = 0;
    bool wanted = false;
  };
  struct Class {
    Shapes shapes;
    std::uint64_t steps = 0;
    PlanPtr plan;
  };
  using Classes = std::vector<std::unique_ptr<Class>>;

  template <class Entry>
  Entry* to_front(std::vector<std::unique_ptr<Entry>>& entries, std::span<const Tensor> feeds) {
    for (auto at = entries.begin(); at != entries.end(); ++at)
      if (matches((*at)->shapes, feeds)) {
        std::rotate(entries.begin(), at, at + 1);
        return entries.front().get();
      }
    return nullptr;
  }
  bool matches(const Shapes& shapes, std::span<const Tensor> feeds) const {
    for (std::size_t i = 0; i < feeds_.size(); ++i)
      if (!(shapes[i] == feeds[feeds_[i]].shape())) return false;
    return true;
  }
  void need_more() { needed_ = std::min<std::uint64_t>(2 * needed_, 1 << 20); }

  const std::vector<std::size_t> feeds_;
  const std::size_t most_;
  const std::function<void(const Shapes&)> want_;
  mutable std::mutex mutex_;
  Classes classes_;                                     // the last used first
  std::vector<std::unique_ptr<Candidate>> candidates_;  // likewise
  std::uint64_t needed_ = kRepeats;
  bool closed_ = false;
};

}  // namespace troupe
