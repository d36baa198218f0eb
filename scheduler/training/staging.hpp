// Stages gradients on a shard until their group is complete: the slots of a synchronous step, or the slices of an
// asynchronous batch. Slices are numbered from 0 in the shard's order; gradients are already checked.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <troupe/scheduler/training/gradient.hpp>

namespace troupe {

// The gradients of one micro-batch, one per slice of the shard.
class GradientSet {
 public:
  explicit GradientSet(std::size_t slices) : gradients_(slices), has_(slices) {}

  bool has(std::size_t slice) const { return has_[slice]; }  // also after take()
  void add(std::size_t slice, PushedGradient gradient, std::uint64_t pulled_version, std::uint32_t worker);
  bool whole() const { return have_ == gradients_.size(); }
  std::size_t have() const { return have_; }
  std::size_t bytes() const { return bytes_; }  // not yet taken
  // The oldest version that any gradient was computed on.
  std::uint64_t pulled_version() const { return pulled_version_; }
  PushedGradient take(std::size_t slice);
  // (worker, number of gradients) for each run of gradients from one sender, in order of arrival.
  const std::vector<std::pair<std::uint32_t, std::uint64_t>>& senders() const { return senders_; }

 private:
  std::vector<PushedGradient> gradients_;
  std::vector<bool> has_;
  std::size_t have_ = 0;
  std::size_t bytes_ = 0;
  std::uint64_t pulled_version_ = std::numeric_limits<std::uint64_t>::max();
  std::vector<std::pair<std::uint32_t, std::uint64_t>> senders_;
};

// The slots of the steps from the shard's version on. A step uses `needed` of its slots: all, or those set by choose().
class SlotStage {
 public:
  SlotStage(std::size_t slices, std::uint32_t slots, std::uint32_t needed)
      : slices_(slices), slots_(slots), needed_(needed) {}

  // The set of (step, slot), created if needed.
  GradientSet& at(std::uint64_t step, std::uint32_t slot);
  // Sets the slots that `step` uses, ascending. Returns false if they are already set.
  bool choose(std::uint64_t step, std::vector<std::uint32_t> slots);
  bool chosen(std::uint64_t step) const;
  // Whether `step` may use `slot`; once its slots are chosen, whether it does.
  bool uses(std::uint64_t step, std::uint32_t slot) const;
  // Whether all slots that `step` uses are whole.
  bool whole(std::uint64_t step) const;
  // Whether all slots that `step` uses have the gradient of this slice.
  bool whole(std::uint64_t step, std::size_t slice) const;
  // Slots that are not whole; once slots are chosen, only those.
  std::vector<std::uint32_t> missing(std::uint64_t step) const;
  // Takes the gradients of a slice, in the order of the slots that the step uses; all must have arrived.
  std::vector<PushedGradient> take(std::uint64_t step, std::size_t slice);

  struct Taken {
    std::vector<std::uint32_t> slots;
    std::vector<GradientSet> sets;                                // of these
    std::vector<std::pair<std::uint32_t, std::uint32_t>> unused;  // (slot, worker) of each gradient in other slots
    std::size_t unused_bytes = 0;
  };
  // Removes `step`, which must be whole.
  Taken take(std::uint64_t step);

 private:
  struct Step {
    std::vector<GradientSet> sets;
    std::vector<std::uint32_t> used;  // empty: not chosen yet
  };
  Step& step(std::uint64_t number);

  std::size_t slices_;
  std::uint32_t slots_;
  std::uint32_t needed_;
  std::map<std::uint64_t, Step> steps_;
};

// The partially arrived batches of each worker.
class BatchStage {
 public:
  explicit BatchStage(std::size_t slices) : slices_(slices) {}

  // The set of `batch` as computed by `worker`, created if needed.
  GradientSet& at(std::uint32_t worker, std::uint64_t batch);
  bool contains(std::uint32_t worker, std::uint64_t batch) const { return batches_.contains({worker, batch}); }
  // Number of incomplete batches of `worker`.
  std::size_t open(std::uint32_t worker) const;
  // Removes a batch, and drops gradients of the same batch from other workers. Adds the bytes dropped to `dropped`.
  GradientSet take(std::uint32_t worker, std::uint64_t batch, std::size_t& dropped);
  // Drops all batches of `worker`; returns their bytes.
  std::size_t drop(std::uint32_t worker);
  std::size_t size() const { return batches_.size(); }

 private:
  std::size_t slices_;
  std::map<std::pair<std::uint32_t, std::uint64_t>, GradientSet> batches_;
};

}  // namespace troupe
