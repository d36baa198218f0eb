// Gradients that wait on a shard until their group is complete: the slots of a synchronous step, or the
// slices of an asynchronous batch. Slices are numbered 0 … as the shard holds them; gradients have been
// checked before.
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

  bool has(std::size_t slice) const { return has_[slice]; }  // that has been taken too
  void add(std::size_t slice, PushedGradient gradient, std::uint64_t pulled_version, std::uint32_t worker);
  bool whole() const { return have_ == gradients_.size(); }
  std::size_t have() const { return have_; }
  std::size_t bytes() const { return bytes_; }  // not yet taken
  // The oldest version that any of them was computed on.
  std::uint64_t pulled_version() const { return pulled_version_; }
  PushedGradient take(std::size_t slice);
  // Who has sent how many of them.
  const std::vector<std::pair<std::uint32_t, std::uint64_t>>& senders() const { return senders_; }

 private:
  std::vector<PushedGradient> gradients_;
  std::vector<bool> has_;
  std::size_t have_ = 0;
  std::size_t bytes_ = 0;
  std::uint64_t pulled_version_ = std::numeric_limits<std::uint64_t>::max();
  std::vector<std::pair<std::uint32_t, std::uint64_t>> senders_;
};

// The slots of the steps from the shard's version on. A step uses `needed` of its slots: all, or those that it is told.
class SlotStage {
 public:
  SlotStage(std::size_t slices, std::uint32_t slots, std::uint32_t needed)
      : slices_(slices), slots_(slots), needed_(needed) {}

  // The set of (step, slot), made if need be.
  GradientSet& at(std::uint64_t step, std::uint32_t slot);
  // The slots that `step` uses, ascending; false if it was told before.
  bool choose(std::uint64_t step, std::vector<std::uint32_t> slots);
  bool chosen(std::uint64_t step) const;
  // May it use `slot`? Once chosen: does it?
  bool uses(std::uint64_t step, std::uint32_t slot) const;
  // All slots that `step` uses are whole.
  bool whole(std::uint64_t step) const;
  // They have the gradient of this slice.
  bool whole(std::uint64_t step, std::size_t slice) const;
  // Slots that are not whole; once they are chosen, of those.
  std::vector<std::uint32_t> missing(std::uint64_t step) const;
  // The gradients of a slice, in the order of the slots that the step uses; all must be there.
  std::vector<PushedGradient> take(std::uint64_t step, std::size_t slice);

  struct Taken {
    std::vector<std::uint32_t> slots;
    std::vector<GradientSet> sets;                                // of these
    std::vector<std::pair<std::uint32_t, std::uint32_t>> unused;  // (slot, worker) of each gradient of other slots
    std::size_t unused_bytes = 0;
  };
  // Takes `step` out, which must be whole.
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

// The batches of each worker of which a part has come.
class BatchStage {
 public:
  explicit BatchStage(std::size_t slices) : slices_(slices) {}

  // The set of `batch` as `worker` computes it, made if need be.
  GradientSet& at(std::uint32_t worker, std::uint64_t batch);
  bool contains(std::uint32_t worker, std::uint64_t batch) const { return batches_.contains({worker, batch}); }
  // How many batches `worker` has begun and not completed.
  std::size_t open(std::uint32_t worker) const;
  // Takes one out, and drops what other workers have sent of the same batch. Adds the bytes dropped to
  // `dropped`.
  GradientSet take(std::uint32_t worker, std::uint64_t batch, std::size_t& dropped);
  // Drops all of `worker`; returns its bytes.
  std::size_t drop(std::uint32_t worker);
  std::size_t size() const { return batches_.size(); }

 private:
  std::size_t slices_;
  std::map<std::pair<std::uint32_t, std::uint64_t>, GradientSet> batches_;
};

}  // namespace troupe
